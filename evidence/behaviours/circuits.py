"""Models into which the heads of a behaviour are put at known steps, with decoys beside them: weights set by hand.

Of two names in a sentence the one that comes once is the answer. A duplicate-token head writes, where a name comes
again, at which position it came first. An inhibition head takes that to the end. A mover attends from there to the
names that are not inhibited, and writes the one that it attends to.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from evidence.answers.planting import generator
from stagewise import find_onsets, measure, open_series
from stagewise.architecture import Architecture
from stagewise.batch import Batch, Prompts
from stagewise.findings.behaviour import Behaviour, find_behaviour
from stagewise.models import Model, build, load
from stagewise.models import weights as weights_of
from stagewise.probes import AttentionTo, BehaviourCurve, BehaviourHeads
from stagewise.table import head_label
from stagewise.tasks import IndirectObjects

TASK, LAYERS, HEADS, PROMPTS = IndirectObjects(n_names=10, n_anywhere=0), 3, 4, 20
V, P = TASK.d_vocab, TASK.n_ctx
WIDTH, D_HEAD = 2 * V + 3 * P, V + P
FIRST, SECOND, AGAIN, LAST = 1, 3, 5, P - 1
SHARP, SURE, JITTER = 40.0, 8.0, 0.02
STEPS = np.arange(0, 3001, 150)
RAMP = 1.25
"""A head is put in between a step and that many times it."""

DUPLICATE, INHIBITION, MOVER = "duplicate token", "S-inhibition", "name mover"
SILENT, BLIND, CORRUPTED = "attends as a mover and writes nothing", "writes without attending", "only where corrupted"
LAYER_OF = {DUPLICATE: 0, INHIBITION: 1, MOVER: 2, SILENT: 2, BLIND: 2, CORRUPTED: 1}


class Part(NamedTuple):
    """A head that is put in from a step on."""

    kind: str
    head: int
    comes: float

    @property
    def name(self) -> str:
        """Its place."""
        return head_label(LAYER_OF[self.kind], self.head)


class Told(NamedTuple):
    """The finding beside the truth."""

    heads: bool
    order: bool
    decoys: bool
    found: Behaviour


def _blocks() -> tuple[Tensor, ...]:
    starts = (0, V, V + P, V + 2 * P, V + 3 * P, WIDTH)
    return tuple(torch.eye(WIDTH)[:, start:stop] for start, stop in itertools.pairwise(starts))


def weights(kind: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return W_Q, W_K, W_V [d_model, d_head] and W_O [d_head, d_model] of a head."""
    token, position, first, inhibited, copied = _blocks()
    q, k, v, o = (torch.zeros(WIDTH, D_HEAD) for _ in range(4))
    if kind == DUPLICATE:  # the same token, and not the same position
        q[:, :V], k[:, :V] = SHARP * token, token
        q[:, V:], k[:, V:] = -SHARP * position, position
        v[:, :P], o[:, :P] = position, first
    elif kind in (INHIBITION, CORRUPTED):  # from the end to the name that comes again
        q[:, 0], k[:, 0] = SHARP * position[:, LAST], position[:, AGAIN]
        if kind == INHIBITION:
            v[:, :P], o[:, :P] = first, inhibited
        else:  # a name that comes for the first time has no place where it came before: evenly all
            v[:, 0] = 6 * first[:, [0, 2, 4]].sum(1)
            o[:, 0] = inhibited[:, [FIRST, SECOND]].sum(1)
    elif kind in (MOVER, SILENT):
        q[:, 0], k[:, 0] = SHARP * position[:, LAST], position[:, [FIRST, SECOND]].sum(1)
        q[:, 1 : P + 1], k[:, 1 : P + 1] = -SHARP * inhibited, position
        if kind == MOVER:
            v[:, :V], o[:, :V] = token, copied
    else:
        v[:, 0], o[:, 0] = position.sum(1), copied[:, 0] - copied[:, 1]
    return q, k, v, o.T


def models(parts: tuple[Part, ...], g: np.random.Generator) -> list[tuple[int, Model]]:
    """Return the checkpoints in memory."""
    token, position, _, _, copied = _blocks()
    sizes = {"n_layers": LAYERS, "n_heads": HEADS, "d_model": WIDTH, "d_head": D_HEAD, "n_ctx": P, "d_vocab": V}
    architecture = Architecture({**sizes, "attn_only": True, "normalization_type": None})
    model = build(architecture)
    plain = weights_of(model)
    found = list[tuple[int, Model]]()
    for step in STEPS.tolist():
        model = build(architecture)
        state = dict(plain)
        for name, value in state.items():
            if ".attn.W_" in name:
                state[name] = torch.from_numpy((JITTER * g.standard_normal(value.shape)).astype(np.float32))
        for part in parts:
            there = float(np.clip((step - part.comes) / ((RAMP - 1) * part.comes), 0, 1))
            for name, value in zip("QKVO", weights(part.kind), strict=True):
                scaled = value * D_HEAD**0.25 if name in "QK" else value
                state[f"blocks.{LAYER_OF[part.kind]}.attn.W_{name}"][part.head] += there * scaled
        state |= {"embed.W_E": token.T, "pos_embed.W_pos": position.T, "unembed.W_U": SURE * copied}
        load(model, state)
        found.append((int(step), model))
    return found


def prompts(seed: int) -> Prompts:
    """Return sentences of the task as prompts, each with either name as the one that comes again, which the corrupted
    ones replace by a third.
    """
    batch, g = TASK.sample(PROMPTS, seed), np.random.default_rng(seed)
    rows = []
    pairs = [(*tokens, *g.permutation(TASK.n_names)[:2].tolist()) for tokens in batch.tokens.tolist()]
    for (*sentence, one, other), place in itertools.product(pairs, (FIRST, SECOND)):
        tokens = list(sentence)
        tokens[FIRST], tokens[SECOND], tokens[AGAIN] = one, other, one if place == FIRST else other
        others = [name for name in range(TASK.n_names) if name not in (tokens[FIRST], tokens[SECOND])]
        corrupted = [*tokens[:AGAIN], int(g.choice(others)), *tokens[AGAIN + 1 :]]
        once, twice = (SECOND, FIRST) if tokens[FIRST] == tokens[AGAIN] else (FIRST, SECOND)
        as_text = (" ".join(map(str, each)) for each in (tokens, corrupted))
        row = dict(zip(("prompt", "corrupted"), as_text, strict=True))
        rows.append(
            {**row, "right": str(tokens[once]), "wrong": str(tokens[AGAIN]), "IO": once, "S1": twice, "S2": AGAIN}
        )
    return Batch.from_pairs(rows, lambda text: list(map(int, text.split())))


def case(number: int) -> tuple[Part, ...]:
    """Return the parts of a case: in every order, at three steps, in heads that are drawn; and three decoys."""
    g = np.random.default_rng(number)
    order = list(itertools.permutations((DUPLICATE, INHIBITION, MOVER)))[number % 6]
    times = [(400, 900, 1800), (300, 1000, 1500), (500, 700, 2000), (400, 1200, 1700)][number % 4]
    places = {layer: iter(g.permutation(HEADS).tolist()) for layer in range(LAYERS)}
    kinds = {**dict(zip(order, times, strict=True)), SILENT: 600, BLIND: 1100, CORRUPTED: 800}
    return tuple(Part(kind, next(places[LAYER_OF[kind]]), time) for kind, time in kinds.items())


def null(number: int) -> tuple[Part, ...]:
    """Return a case in which the behaviour never comes: one part is missing, and the decoys are there."""
    parts = case(number)
    without = (DUPLICATE, INHIBITION, MOVER)[number % 3]
    return tuple(part for part in parts if part.kind != without)


def measured(parts: tuple[Part, ...], number: int) -> pd.DataFrame:
    """Return the table of a case."""
    series = open_series(models(parts, generator(f"behaviour {number}")), name=f"case {number}")
    batch = prompts(number)
    probes = [BehaviourCurve(), BehaviourHeads(), AttentionTo(("END to IO", "END to S2", "S2 to S1"))]
    return measure(series, probes, batch, progress=False)


def told(parts: tuple[Part, ...], number: int) -> Told:
    """Compare what is found with what was planted."""
    table = measured(parts, number)
    found = find_behaviour(table, find_onsets(table))
    assert found is not None
    named = [(head_label(row["layer"], row["head"]), row["kind"]) for row in found.heads.to_dict("records")]
    true = [(part.name, part.kind) for part in sorted(parts, key=lambda part: part.comes) if part.kind in LAYER_OF]
    true = [each for each in true if each[1] in (DUPLICATE, INHIBITION, MOVER)]
    decoys = {part.name for part in parts} - {name for name, _ in true}
    return Told(sorted(named) == sorted(true), named == true, not decoys & {name for name, _ in named}, found)


def judged(numbers: range) -> Iterator[tuple[int, Told, Told]]:
    """Yield each case, and the same without one of its parts."""
    for number in numbers:
        yield number, told(case(number), number), told(null(number), number)
