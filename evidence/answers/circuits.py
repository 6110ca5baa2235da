"""Models into which heads are put, and taken out of, at known steps: their weights are interpolated between none and
those of a head set by hand."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from evidence.answers.case import Case, Change, Truth
from evidence.answers.planting import generator
from stagewise import default_probes, measure, open_series, read_table
from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import TABLE
from stagewise.models import Model, build, load
from stagewise.models import weights as weights_of
from stagewise.tasks import RepeatedTokens

TOKENS, HEADS = 24, 4
TASK = RepeatedTokens(TOKENS, length=12, bos=0)
WIDTH = HEADS * TOKENS
"""The residual stream: the token, the position, the previous token and the copied one, each one-hot."""

SHARP, SURE, JITTER = 40.0, 8.0, 0.02
"""Attention logits of a head times the root of its width; logits of a copied token; deviation of weights that change
from checkpoint to checkpoint."""

EVEN = np.arange(0, 3001, 75)
LATE = 1.25
"""A head is put in between a step and that many times it."""

PREVIOUS, INDUCTION = "previous token", "induction"


class Head(NamedTuple):
    """A head of a kind that is put in from a step on, and taken out from another one on; from -1 on is always."""

    kind: str
    layer: int
    head: int
    comes: float = -1.0
    goes: float = np.inf

    @property
    def name(self) -> str:
        return f"L{self.layer}H{self.head}"

    def there(self, step: float) -> float:
        """Return how much of the head is there."""
        return _ramp(step, self.comes) * (1 - _ramp(step, self.goes))


class Circuit(NamedTuple):
    """Heads in a model, and what is true of it."""

    sentence: str
    n_layers: int
    heads: tuple[Head, ...]
    changes: tuple[Change, ...] = ()
    steps: np.ndarray = EVEN


def _ramp(step: float, start: float) -> float:
    if not np.isfinite(start):
        return 0.0
    return 1.0 if start < 0 else float(np.clip((step - start) / ((LATE - 1) * start), 0, 1))


def at(step: float, *heads: Head, lost: bool = False, also: tuple[Head, ...] = ()) -> Change:
    """Return the change of heads that are put in, or taken out, from a step on."""
    names, others = (frozenset(head.name for head in some) for some in (heads, also))
    return Change(step, step * LATE, names, others, lost)


def _blocks() -> tuple[Tensor, ...]:
    return tuple(torch.eye(WIDTH)[:, start : start + TOKENS] for start in range(0, WIDTH, TOKENS))


def weights(kind: str) -> dict[str, Tensor]:
    """Return W_Q, W_K, W_V and W_O of a head: [d_model, d_head] the first three, [d_head, d_model] the last."""
    token, position, previous, copied = _blocks()
    if kind == PREVIOUS:  # position t asks for key t - 1
        return {"W_Q": SHARP * position.roll(-1, 1), "W_K": position, "W_V": token, "W_O": previous.T}
    # The token asks for keys that it precedes.
    return {"W_Q": SHARP * token, "W_K": previous, "W_V": token, "W_O": copied.T}


def models(circuit: Circuit, g: np.random.Generator) -> list[tuple[int, Model]]:
    """Return the checkpoints in memory."""
    token, position, _, copied = _blocks()
    sizes = {"n_layers": circuit.n_layers, "n_heads": HEADS, "d_model": WIDTH, "d_head": TOKENS, "n_ctx": TASK.n_ctx}
    architecture = Architecture({**sizes, "d_vocab": TOKENS, "attn_only": True, "normalization_type": None})
    found = list[tuple[int, Model]]()
    for step in circuit.steps.tolist():
        model = build(architecture)
        state = weights_of(model)
        for name, value in state.items():
            if ".attn.W_" in name:
                jitter = JITTER * g.standard_normal(value.shape)
                state[name] = torch.from_numpy(jitter.astype(np.float32))
        for head in circuit.heads:
            there = head.there(step)
            for name, value in weights(head.kind).items():
                state[f"blocks.{head.layer}.attn.{name}"][head.head] += there * value
        state |= {"embed.W_E": token.T, "pos_embed.W_pos": position.T[: TASK.n_ctx], "unembed.W_U": SURE * copied}
        load(model, state)
        found.append((int(step), model))
    return found


def _clumps() -> np.ndarray:
    return np.concatenate([[0], *(start + np.arange(0, 300, 25) for start in (300, 1400, 2600))])


P0, I1 = Head(PREVIOUS, 0, 1), Head(INDUCTION, 1, 2)
EARLY, LATER = P0._replace(comes=400), I1._replace(comes=1400)
BOTH_0, BOTH_2 = Head(PREVIOUS, 0, 1, 800), Head(INDUCTION, 2, 0, 800)
OF_FOUR_1, OF_FOUR_3 = Head(PREVIOUS, 1, 3, 400), Head(INDUCTION, 3, 0, 1400)
GOES, COMES = I1._replace(goes=1500), Head(INDUCTION, 1, 0, 1500)
DIES, LIVES = I1._replace(goes=1500), I1._replace(comes=500, goes=1800)
FEW = I1._replace(comes=1300)
TWINS = Head(INDUCTION, 1, 0, 1000), Head(INDUCTION, 1, 3, 1000)

CIRCUITS: Mapping[str, Circuit] = {
    "an induction head": Circuit(
        "A previous-token head is there; the induction head L1H2 is put in between steps 800 and 1000.",
        2, (P0, I1._replace(comes=800)), (at(800, I1, also=(P0,)),),
    ),
    "two heads at two times": Circuit(
        "The previous-token head L0H1 is put in from step 400 to 500, the induction head L1H2 from 1400 to 1750.",
        2, (EARLY, LATER), (at(400, EARLY), at(1400, LATER, also=(EARLY,))),
    ),
    "two heads at once": Circuit(
        "In three layers, a previous-token head L0H1 and an induction head L2H0 are put in between steps 800 and 1000.",
        3, (BOTH_0, BOTH_2), (at(800, BOTH_0, BOTH_2),),
    ),
    "four layers": Circuit(
        "The previous-token head L1H3 is put in from step 400 to 500, the induction head L3H0 from 1400 to 1750.",
        4, (OF_FOUR_1, OF_FOUR_3), (at(400, OF_FOUR_1), at(1400, OF_FOUR_3, also=(OF_FOUR_1,))),
    ),
    "two induction heads": Circuit(
        "A previous-token head is there; the induction heads L1H0 and L1H3 are put in between steps 1000 and 1250.",
        2, (P0, *TWINS), (at(1000, *TWINS, also=(P0,)),),
    ),
    "a swap of heads": Circuit(
        "Between steps 1500 and 1875 the induction head L1H0 takes over from L1H2.",
        2, (P0, GOES, COMES), (at(1500, GOES, COMES),),
    ),
    "a head that dies": Circuit(
        "The induction head L1H2 is there, and is taken out between steps 1500 and 1875.",
        2, (P0, DIES), (at(1500, DIES, lost=True, also=(P0,)),),
    ),
    "a head that comes and dies": Circuit(
        "The induction head L1H2 is put in from step 500 to 625 and taken out from 1800 to 2250.",
        2, (P0, LIVES), (at(500, LIVES, also=(P0,)), at(1800, LIVES, lost=True, also=(P0,))),
    ),
    "one layer": Circuit(
        "The previous-token head L0H1 is put in between steps 800 and 1000.",
        1, (P0._replace(comes=800),), (at(800, P0),),
    ),
    "no circuit": Circuit("Random weights with noise; no head does anything.", 2, ()),
    "no change": Circuit("A previous-token and an induction head are there from the start to the end.", 2, (P0, I1)),
    "no circuit, four layers": Circuit("Random weights with noise; no head does anything.", 4, ()),
    "twelve checkpoints": Circuit(
        "A previous-token head is there; the induction head L1H2 is put in between steps 1300 and 1625.",
        2, (P0, FEW), (at(1300, FEW, also=(P0,)),), np.linspace(0, 3000, 12).round(),
    ),
    "clumped checkpoints": Circuit(
        "A previous-token head is there; the induction head L1H2 is put in between steps 1400 and 1750.",
        2, (P0, LATER), (at(1400, LATER, also=(P0,)),), _clumps(),
    ),
    "logarithmic checkpoints": Circuit(
        "The previous-token head L0H1 is put in from step 100 to 125, the induction head L1H2 from 800 to 1000.",
        2, (P0._replace(comes=100), I1._replace(comes=800)), (at(100, P0), at(800, I1, also=(P0,))),
        np.unique(np.concatenate([[0], np.geomspace(1, 3000, 60).round()])),
    ),
}  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield the planted circuits."""
    for name, circuit in CIRCUITS.items():
        truth = Truth(circuit.changes)
        yield Case(f"circuit: {name}", circuit.sentence, functools.partial(measured, name, circuit), truth)


def measured(name: str, circuit: Circuit, folder: Path) -> pd.DataFrame:
    """Return the table of a circuit by the default probes, measured where it is not there."""
    if not (folder / TABLE).exists():
        series = open_series(models(circuit, generator(name)), name=name)
        batch = TASK.probe_batch(64, 0)
        probes = default_probes(series.architecture, batch, TASK)
        measure(series, probes, batch, save=folder / TABLE, progress=False)
    return read_table(folder)
