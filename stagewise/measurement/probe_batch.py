"""The fixed probe batch: what of a task's sequences is measured on, and the lines that say what is left out."""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints import read_json, run_folder
from stagewise.checkpoints.run_folder import RESTRICTED, SHARED
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.recipe import Recipe
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import RepeatedTokens
from stagewise.tasks.pairs import Pairs
from stagewise.tasks.windows import window_positions, window_scored

_OF_BASELINES = 5 * 10**7
"""Log-probabilities of windows that are in memory at once."""

_SEQUENCES = 64
"""Sequences of the probe batch of checkpoints that were trained elsewhere, which may be large."""

_PROMPTS = 128
"""Prompts of a behaviour."""

_RUN_SEQUENCES = 400
"""Sequences of the probe batch of a run: 95 % intervals of a small model's loss are then about 0.05 nats wide."""

_NUMBERS = 10**7
"""Log-probabilities of one pass that are worth having; with a large vocabulary the batch is smaller."""

_RUN_NUMBERS = 6 * 2**20
"""The same of a run: 96 windows of 64 positions and 1024 tokens."""

THE_BASE = "the base"
"""The reference that a model is whose training went on: what it predicts."""

_FEWEST = 8
"""Sequences that a relation starts in at least, or half of all: the interval of a mean over fewer says little."""

_BY_TOKENS = ("duplicate token", "induction")
"""Relations whose distance the tokens decide."""

_MOSTLY = 0.5
"""Part of a relation's queries that have a key at one offset, from which on a head of this offset is taken for one."""

_FEW = 2
"""A relation of fewer than every second position is taken for one of so many: single tokens are no repeated stretch."""

_MORE = "`stagewise measure --sequences N`, or sequences=N in Python, takes more"


def _restricted_log_probs(series: CheckpointSeries, batch: Batch) -> Float[Tensor, "batch pos token"]:
    """Return the last restricted-context checkpoint's log-probabilities, nats; uniform ones at unscored positions."""
    context, d_vocab = series.architecture.config["n_ctx"], series.architecture.config["d_vocab"]
    model = series.model(series.steps[-1])
    log_probs = torch.full((*batch.tokens.shape, d_vocab), -math.log(d_vocab))
    at_once = max(1, _OF_BASELINES // (batch.tokens.shape[1] * context * d_vocab))
    for rows in torch.split(torch.arange(len(batch)), at_once):
        part = batch[rows]
        positions, scored = window_positions(part, context), window_scored(part, window_positions(part, context))
        sequence = positions.sequence[:, None].expand_as(positions.position)
        predicted, _ = models.clean_pass(model, part.tokens[sequence, positions.position], hooks=())
        log_probs[rows[sequence[scored]], positions.position[scored]] = predicted[scored]
    return log_probs


def _linked_baselines(folder: Path) -> dict[int, Path]:
    """Return the shared baselines that a run folder refers to, by context; none where it refers to none."""
    if not (folder / SHARED).exists():
        return {}
    links = read_json(folder / SHARED, "restore it, or delete it to compare with no baselines")
    baselines = {int(c): folder / path for c, path in links.items()}
    if missing := [str(path) for path in baselines.values() if not path.exists()]:
        raise FileNotFoundError(
            f"{folder / SHARED} refers to missing baselines: {', '.join(missing)}. Put them back, run the "
            "figure's command again, or delete that file to compare with none"
        )
    return baselines


class ProbeBatch(NamedTuple):
    """A probe batch, and lines that say on how many sequences it measures, and which relations on fewer."""

    batch: Batch
    notes: tuple[str, ...]


def load_batch(recipe: Recipe, folder: str | Path) -> Batch:
    """Return the fixed probe batch of a run, with the restricted-context models of its folder among the references.

    Raises:
        FileNotFoundError: the folder refers to shared ones that are not there.
    """
    return batch_of_run(recipe, Path(folder)).batch


def batch_of_run(recipe: Recipe, folder: Path, sequences: int | None = None) -> ProbeBatch:
    """Return the batch of `load_batch`, or of so many sequences, and its notes."""
    usual = _sequences(recipe.architecture, recipe.task.n_ctx, _RUN_SEQUENCES, _RUN_NUMBERS)
    batch, notes = _sampled_batch(recipe.task, sequences, usual, recipe.plan.seeds.evaluation)
    own = {int(path.name): path for path in (folder / RESTRICTED).glob("[0-9]*")}
    folders = {**_linked_baselines(folder), **own}
    contexts = {f"trained c={c}": c for c in sorted(folders) if run_folder.is_finished(folders[c])}
    trained = {name: _restricted_log_probs(open_series(folders[c]), batch) for name, c in contexts.items()}
    return ProbeBatch(batch.with_references(trained, contexts), notes)


def series_batch(series: CheckpointSeries, task: AbstractTask | None = None) -> Batch:
    """Return the fixed probe batch of a series that was trained elsewhere; None takes `RepeatedTokens` of its size."""
    return batch_of_series(series, task or RepeatedTokens.for_series(series)).batch


def batch_of_series(series: CheckpointSeries, task: AbstractTask, sequences: int | None = None) -> ProbeBatch:
    """Return the batch of `series_batch`, or of so many sequences, and its notes."""
    # A prompt has one prediction.
    positions, most = (1, _PROMPTS) if isinstance(task, Pairs) else (task.n_ctx, _SEQUENCES)
    usual = _sequences(series.architecture, positions, most, _NUMBERS)
    batch, notes = _sampled_batch(task, sequences, usual, seed=0)
    begins = None if series.source is None else series.source.begins
    return ProbeBatch(batch if begins is None else _with_base(batch, series, begins), notes)


def _with_base(batch: Batch, series: CheckpointSeries, begins: int) -> Batch:
    """Return the batch with what the model predicts that a post-training began from among its references."""
    model = models.holding(series.architecture, series.load(begins))
    at_once = max(1, _OF_BASELINES // (batch.tokens.shape[1] * series.architecture.n_outputs))
    log_probs = [models.clean_pass(model, tokens, hooks=())[0] for tokens in torch.split(batch.tokens, at_once)]
    return batch.with_references({THE_BASE: torch.cat(log_probs)})


def _sequences(architecture: Architecture, positions: int, most: int, numbers: int) -> int:
    """Return how many sequences a probe batch has: those whose predictions are so many numbers, from 8 up to `most`."""
    return max(8, min(most, numbers // (positions * architecture.n_outputs)))


def _sampled_batch(task: AbstractTask, asked: int | None, usual: int, seed: int) -> ProbeBatch:
    """Draw the probe batch of a task: sequences with a scored prediction, and relations that enough of them have."""
    if asked is not None and asked < 1:
        raise ValueError(f"a probe batch has at least one sequence, got sequences={asked}")
    sample, alike = parted(task.probe_batch(asked or usual, seed))
    batch = usable(sample)
    notes = []
    if task.available is not None:
        more = "" if asked or len(sample) >= task.available else f": {_MORE}"
        notes.append(f"measured on {len(batch)} of {task.available} sequences{more}")
    if len(batch) < len(sample):
        notes.append(f"{len(sample) - len(batch)} of {len(sample)} sequences have no scored prediction: left out")
    return ProbeBatch(batch, (*notes, *alike, *_of_relations(sample[sample.scored.any(1)], batch.relations)))


def parted(batch: Batch) -> ProbeBatch:
    """Return a batch in which relations that agree in every sequence are one, "A or B", as no head can be told to be
    of either, and lines that say so.
    """
    agreeing = defaultdict[bytes, list[str]](list)
    for name, keys in batch.relations.items():
        agreeing[keys.numpy().tobytes()].append(name)
    notes = tuple(
        f"{' and '.join(map(repr, names))} are the same keys in every sequence: told as one; sequences in which they "
        "differ would part them"
        for names in agreeing.values()
        if len(names) > 1
    )
    relations = {" or ".join(names): batch.relations[names[0]] for names in agreeing.values()}
    alike = tuple(
        f"{name!r} is mostly {offset} tokens back: a head that attends so far back would be taken for one of it; "
        "sequences in which the distance differs would part them"
        for name in _BY_TOKENS
        if name in batch.relations and (offset := _one_offset(batch.relations[name]))
    )
    return ProbeBatch(dataclasses.replace(batch, relations=relations) if notes else batch, (*notes, *alike))


def _one_offset(keys: Bool[Tensor, "batch query key"]) -> int:
    """Return the offset at which most queries of a relation have a key; 0 where there is none, or few queries."""
    queries = max(int(keys.any(-1).sum()), keys[..., 0].numel() // _FEW)
    at = [int(keys.diagonal(-offset, 1, 2).sum()) for offset in range(keys.shape[-1])]
    return max(range(len(at)), key=at.__getitem__) if max(at) >= _MOSTLY * queries else 0


def usable(batch: Batch) -> Batch:
    """Return the sequences with a scored prediction, all if there are none, and the relations that enough of them have.

    Some windows of a text, for instance, hold no token twice, and so no key of the relation `duplicate token`. They
    stay, and `Reading.exists` leaves them out of the means of this relation alone.
    """
    scored = batch.scored.any(1)
    if bool(scored.any()) and not bool(scored.all()):
        batch = batch[scored]
    enough = min(_FEWEST, (len(batch) + 1) // 2)
    relations = {name: mask for name, mask in batch.relations.items() if int(batch.starts(name).sum()) >= enough}
    return dataclasses.replace(batch, relations=relations)


def _of_relations(batch: Batch, kept: Mapping[str, object]) -> Sequence[str]:
    """Say which relations start in some sequences only: they are averaged over these, or left out."""
    names = defaultdict[tuple[int, bool], list[str]](list)
    for name in batch.relations:
        if (number := int(batch.starts(name).sum())) < len(batch):
            names[number, name in kept].append(repr(name))
    return [
        f"{' and '.join(each)} in {number} of {len(batch)} sequences: "
        + ("averaged over these" if is_kept else "too few, left out")
        for (number, is_kept), each in names.items()
    ]
