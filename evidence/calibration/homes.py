"""Is a batch at home, and does a head look at a fixed offset: small models of eight kinds of sequences, really trained.

Every model reads a batch of its own kind and one of each other kind; the thresholds lie between what the two show.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from evidence.calibration.onsets import Job
from evidence.calibration.rows import Row, share
from stagewise.checkpoints.series import open_series
from stagewise.criteria import DEFAULT
from stagewise.findings.batch_familiarity import BatchFamiliarity, familiarity_of
from stagewise.measurement.engine import measure
from stagewise.probes import Loss, LossByPosition, OffsetProfile
from stagewise.table import select
from stagewise.task import Batch

VOCABULARY, LENGTH = 32, 32
STEPS, SIZE, RATE = 400, 64, 3e-3
SEQUENCES = 64
"""Of a probe batch, as `analyse` takes."""

Random = torch.Generator


def _copies(n: int, g: Random) -> Tensor:
    """A random half, and the same again."""
    half = torch.randint(VOCABULARY, (n, LENGTH // 2), generator=g)
    return torch.cat([half, half], 1)


def _table(order: int, n: int, g: Random) -> Tensor:
    """Each token follows from the one `order` back by a fixed permutation, but for one in ten."""
    permutation = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(order))
    tokens = torch.randint(VOCABULARY, (n, LENGTH), generator=g)
    for at in range(order, LENGTH):
        surprise = torch.rand(n, generator=g) < 0.1
        tokens[:, at] = torch.where(surprise, tokens[:, at], permutation[tokens[:, at - order]])
    return tokens


def _progressions(n: int, g: Random) -> Tensor:
    start, stride = torch.randint(VOCABULARY, (2, n, 1), generator=g)
    values: Tensor = (start + stride * torch.arange(LENGTH)) % VOCABULARY
    return values


def _sorted(n: int, g: Random) -> Tensor:
    return torch.randint(VOCABULARY, (n, LENGTH), generator=g).sort(1).values


def _zipf(n: int, g: Random) -> Tensor:
    """Independent tokens, of frequency 1 / rank."""
    return torch.multinomial(1 / torch.arange(1.0, VOCABULARY + 1), n * LENGTH, True, generator=g).view(n, LENGTH)


def _periods(n: int, g: Random) -> Tensor:
    """Random words of two to eight tokens, each sequence one of them again and again."""
    words, length = torch.randint(VOCABULARY, (n, 8), generator=g), torch.randint(2, 9, (n, 1), generator=g)
    return words.gather(1, torch.arange(LENGTH) % length)


def _questions(n: int, g: Random) -> Tensor:
    """Random tokens of which the last one alone can be predicted: it is the first one again."""
    tokens = torch.randint(VOCABULARY, (n, LENGTH), generator=g)
    tokens[:, -1] = tokens[:, 0]
    return tokens


KINDS: dict[str, Callable[[int, Random], Tensor]] = {
    "copies": _copies,
    "bigrams": lambda n, g: _table(1, n, g),
    "three back": lambda n, g: _table(3, n, g),
    "progressions": _progressions,
    "sorted": _sorted,
    "Zipf": _zipf,
    "periods": _periods,
    "questions": _questions,
}
OFFSETS = {"copies": LENGTH // 2 - 1, "three back": 2}
"""Kinds that a head solves which looks at one offset, two back or farther."""

NEAR = {"bigrams", "sorted", "Zipf"}
"""Kinds in which nothing two back or farther helps."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    yield "home of trained models", _homes


def _trained(kind: str, seed: int) -> list[tuple[int, Any]]:
    """Return a small HookedTransformer at its first and at its last step."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    sizes = {"n_layers": 2, "d_model": 64, "d_head": 16, "n_heads": 4, "n_ctx": LENGTH, "d_vocab": VOCABULARY}
    cfg = HookedTransformerConfig(**sizes, attn_only=True, seed=seed)
    first, model = HookedTransformer(cfg), HookedTransformer(cfg)
    optimiser, g = torch.optim.AdamW(model.parameters(), lr=RATE), Random().manual_seed(seed)
    for _ in range(STEPS):
        optimiser.zero_grad()
        model(KINDS[kind](SIZE, g), return_type="loss").backward()
        optimiser.step()
    return [(0, first), (STEPS, model)]


def _read(models: list[tuple[int, Any]], kind: str, seed: int) -> pd.DataFrame:
    batch = Batch.from_tokens(KINDS[kind](SEQUENCES, Random().manual_seed(10_000 + seed)))
    probes = [Loss(), LossByPosition(), OffsetProfile()]
    return measure(open_series(models), probes, batch, resamples=100, progress=False)


def _homes(repetitions: int) -> list[Row]:
    own: dict[str, list[BatchFamiliarity]] = {}
    other: dict[str, list[BatchFamiliarity]] = {}
    peaks: dict[str, list[pd.DataFrame]] = {}
    torch.set_num_threads(1)
    for seed in range(max(repetitions // 20, 1)):
        for kind in KINDS:
            models = _trained(kind, seed)
            for read in KINDS:
                table = _read(models, read, seed)
                if (home := familiarity_of(table, VOCABULARY)) is None:
                    raise ValueError(f"no loss was measured of {kind}")
                (own if read == kind else other).setdefault(kind, []).append(home)
                print(
                    f"  {kind}, on {read}: {home.verdict}, {home.first - home.guess:+.2f} {home.last - home.guess:+.2f}"
                )
                if read == kind:
                    peaks.setdefault(kind, []).append(select(table, "OffsetProfile", "peak"))
    return [*_verdicts(own, other), *_offsets(peaks)]


def _verdicts(own: dict[str, list[BatchFamiliarity]], other: dict[str, list[BatchFamiliarity]]) -> Iterator[Row]:
    for kind in KINDS:
        yield share(f"at home, on its own kind: {kind}", [not home.foreign for home in own[kind]], 1.0, "higher")
    for kind in KINDS:
        yield share(f"foreign, on seven other kinds: {kind}", [home.foreign for home in other[kind]], 0.5, "higher")


def _offsets(peaks: dict[str, list[pd.DataFrame]]) -> Iterator[Row]:
    for kind, tables in peaks.items():
        first = [value >= DEFAULT.named for rows in tables for value in rows.loc[rows["step"] == 0, "value"]]
        last = [(rows.loc[rows["step"] > 0, "value"] >= DEFAULT.named).tolist() for rows in tables]
        yield share(f"heads named by an offset before training: {kind}", first, 0.0, "lower")
        if kind in OFFSETS:
            yield share(f"models with a head at the offset: {kind}", [any(heads) for heads in last], 1.0, "higher")
        elif kind in NEAR:
            yield share(
                f"heads named by an offset for nothing: {kind}", [hit for heads in last for hit in heads], 0.05, "lower"
            )
