"""Probing: stagewise's engine over a plain script, over its own way by hooks, and over the products it cannot avoid."""

import dataclasses
import functools
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from evidence.bench.plain_probing import probe
from evidence.bench.timing import Row, Work, cpu_seconds, peak_memory, ratio, row, timed_in_turn
from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.checkpoints.series import CheckpointSeries, State, open_series
from stagewise.init import GaussianInit
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import usable
from stagewise.papers.incremental import markov
from stagewise.probe import AbstractProbe
from stagewise.probes import (
    Composition,
    EffectiveSupport,
    HeadAblation,
    HeadAttribution,
    ParticipationRatio,
    RestrictedContextKL,
)
from stagewise.probes.default_probes import default_probes
from stagewise.recipe import Recipe, TrainPlan
from stagewise.schedules import linear
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens
from stagewise.training import train

CONTEXTS, NARROW = (1, 4, 16), (1, 2, 3)
EFFECTS = (HeadAblation(kinds=("mean",)), RestrictedContextKL(CONTEXTS))
AGREE = 1e-4
"""Largest difference of a KL or a change of loss from the plain script's."""

MEDIUM = {"n_layers": 4, "n_heads": 8, "d_model": 256, "d_head": 32, "d_mlp": 1024, "act_fn": "gelu"}
SEQUENCES, VOCAB = 64, 64
MEDIUM_VOCAB, MEDIUM_LENGTH = 128, 86
"""With half of it again, 128 positions."""
LINEAR = 1.05

MAIN_JOB = 20
"""Checkpoints of the main job that are measured at a time: what is done once a measurement is little of it."""


def medium() -> Iterator[Row]:
    """4 layers of 8 heads, width 256: all default probes, all mean ablations and three restricted contexts."""
    task, series = _medium()
    batch = usable(task.probe_batch(SEQUENCES, 0))
    probes = probes_with(series.architecture, batch, *EFFECTS)
    model = models.build(series.architecture, 0)
    check(measure(series, probes, batch, progress=False), probe(model, batch, CONTEXTS))
    lean, plain = ours(series, probes, batch), functools.partial(probe, model, batch, CONTEXTS)
    yield ratio("probing, 4L8H d256: plain script over stagewise", timed_in_turn(plain, lean, 5), 4, "higher")
    products = _products(model, batch)
    name = "probing, 4L8H d256: stagewise over the products that no plan avoids"
    yield ratio(name, timed_in_turn(lean, products, 5), 1.3)


def medium_memory() -> Iterator[Row]:
    """What both hold at most, beyond what they held when the model was there."""
    ours, plain = (peak_memory(side) for side in (_our_side, _plain_side))
    held = [each.peak - each.prepared for each in (ours, plain)]
    note = f"{held[0] / 1e6:.0f} to {held[1] / 1e6:.0f} MB beyond the model"
    yield row("probing, 4L8H d256: peak memory over the plain script's", [held[0] / held[1]], 0.5, note=note)


def main_job() -> Iterator[Row]:
    """The checkpoints of `stagewise run markov`: by the plain script, and with every edit by hooks."""
    recipe = markov.recipe("minimal")
    # With the recipe's own init values are 0 at first, and an edit changes nothing.
    series = fresh_series(dataclasses.replace(recipe.architecture, init=GaussianInit(0.3)), tuple(range(MAIN_JOB)))
    batch = usable(recipe.task.probe_batch(400, 0))
    probes = probes_with(series.architecture, batch, HeadAblation(kinds=("mean",)), RestrictedContextKL(NARROW))
    built = [models.holding(series.architecture, series.load(step)) for step in series.steps]

    def plain() -> object:
        return [probe(model, batch, NARROW) for model in built]

    check(measure(series, probes, batch, progress=False).query("step == 0"), probe(built[0], batch, NARROW))
    pairs = timed_in_turn(plain, ours(series, probes, batch), 5)
    yield ratio("probing, main job: plain script over stagewise", pairs, 4, "higher")
    probes = default_probes(recipe.architecture, batch, recipe.task)
    lean, by_hooks = (
        functools.partial(measure, series, probes, batch, by_hooks=way, progress=False) for way in (False, True)
    )
    yield ratio("probing, main job: by hooks over stagewise", timed_in_turn(by_hooks, lean, 5), 4, "higher")


def workers() -> Iterator[Row]:
    """Wall time of 48 checkpoints in one process over two."""
    with tempfile.TemporaryDirectory() as scratch:
        task = RepeatedTokens(VOCAB, length=48)
        architecture = full(VOCAB, task.n_ctx, n_layers=2, n_heads=4, d_model=64, d_mlp=256)
        plan = TrainPlan(steps=47, batch_size=8, save=linear(1, 47))
        train(Recipe(task, architecture, plan), Path(scratch), progress=False)
        series, batch = open_series(scratch), usable(task.probe_batch(SEQUENCES, 0))
        probes = default_probes(architecture, batch, task)
        one, two = (functools.partial(measure, series, probes, batch, workers=n, progress=False) for n in (1, 2))
        pairs = timed_in_turn(one, two, 5)
    yield ratio("probing, 48 checkpoints: one worker over two", pairs, 1.8, "higher", "wall")


def growth() -> Iterator[Row]:
    """Exponents of measuring time in checkpoints, in sequences, and in heads (without ablations)."""
    task = RepeatedTokens(VOCAB, length=24)
    small = full(VOCAB, task.n_ctx, n_layers=2, n_heads=4, d_model=32, d_mlp=64)
    batch = usable(task.probe_batch(32, 0))
    probes = default_probes(small, batch, task)
    yield _exponent(
        "checkpoints, 12 to 400", (12, 50, 400), [(_series(small, n), probes, batch) for n in (12, 50, 400)]
    )
    sizes = (64, 256, 1024)
    batches = [usable(task.probe_batch(n, 0)) for n in sizes]
    yield _exponent("sequences, 64 to 1024", sizes, [(_series(small, 2), probes, each) for each in batches])
    wide = {heads: _of_heads(task, heads) for heads in (8, 96, 384)}
    looking = [each for each in probes if not isinstance(each, HeadAblation)]
    yield _exponent("heads, 8 to 384", tuple(wide), [(_series(each, 2), looking, batch) for each in wide.values()])


ROWS = (medium, medium_memory, main_job, workers, growth)


def _medium() -> tuple[RepeatedTokens, CheckpointSeries]:
    task = RepeatedTokens(MEDIUM_VOCAB, length=MEDIUM_LENGTH)
    sizes = {**MEDIUM, "n_ctx": task.n_ctx, "d_vocab": MEDIUM_VOCAB}
    return task, fresh_series(Architecture(sizes, GaussianInit(0.05)))


def fresh_series(architecture: Architecture, steps: tuple[int, ...] = (0,)) -> CheckpointSeries:
    """Return a series of fresh models, each of its own seed, in memory, as the plain script's is."""
    states = {step: _fresh(architecture, step) for step in steps}
    return CheckpointSeries("run", architecture, steps, states.__getitem__)


def _fresh(architecture: Architecture, step: int) -> State:
    return models.weights(models.build(architecture, step))


def _series(architecture: Architecture, checkpoints: int) -> CheckpointSeries:
    state = _fresh(architecture, 0)
    return CheckpointSeries("run", architecture, tuple(range(checkpoints)), lambda step: state)


def _of_heads(task: RepeatedTokens, heads: int) -> Architecture:
    config = {"n_layers": heads // 8, "n_heads": 8, "d_model": 64, "d_head": 8, "d_mlp": 64, "act_fn": "relu"}
    return Architecture({**config, "n_ctx": task.n_ctx, "d_vocab": VOCAB})


def probes_with(architecture: Architecture, batch: Batch, *effects: AbstractProbe) -> list[AbstractProbe]:
    """Return the default probes with others in the place of those that edit, and what the plain script also reads."""
    edited = (HeadAblation, HeadAttribution, RestrictedContextKL)
    others = [each for each in default_probes(architecture, batch) if not isinstance(each, edited)]
    of_heads_below = [Composition()] if architecture.n_layers > 1 else []
    return [*others, EffectiveSupport(), ParticipationRatio(), *of_heads_below, *effects]


def ours(series: CheckpointSeries, probes: Sequence[AbstractProbe], batch: Batch) -> Work:
    """Return what measures a series."""
    return functools.partial(measure, series, probes, batch, progress=False)


def _our_side() -> Work:
    task, series = _medium()
    batch = usable(task.probe_batch(SEQUENCES, 0))
    probes = probes_with(series.architecture, batch, *EFFECTS)
    measure(series, probes, batch[:2], progress=False)
    return ours(series, probes, batch)


def _plain_side() -> Work:
    task, series = _medium()
    batch = usable(task.probe_batch(SEQUENCES, 0))
    model = models.build(series.architecture, 0)
    probe(model, batch[:2], CONTEXTS)
    return functools.partial(probe, model, batch, CONTEXTS)


def check(table: object, plain: object) -> None:
    """Hold ablations and contexts to the plain script's."""
    rows = table.query("probe == 'HeadAblation' and control == 'head'")  # type: ignore[attr-defined]
    kls = torch.tensor(rows.query("quantity == 'kl'").sort_values(["layer", "head"])["value"].to_numpy())
    expected = plain["ablation kl"].double()  # type: ignore[index]
    torch.testing.assert_close(kls, expected, atol=AGREE, rtol=AGREE)
    contexts = torch.tensor(table.query("probe == 'RestrictedContextKL'")["value"].to_numpy())  # type: ignore[attr-defined]
    torch.testing.assert_close(contexts, plain["context kl"].double(), atol=AGREE, rtol=AGREE)  # type: ignore[index]


def _products(model: models.Model, batch: Batch) -> Work:
    """Return the matrix products alone: of the clean pass, and of what each edit changes behind it."""
    cfg, length = model.cfg, batch.tokens.shape[1]
    d, width, hidden = cfg.d_model, cfg.n_heads * cfg.d_head, int(cfg.d_mlp or 0)
    random = functools.partial(torch.randn, generator=torch.Generator().manual_seed(0))
    W_QKV, W_O, W_in, W_out = random(d, 3 * width), random(width, d), random(d, hidden), random(hidden, d)
    W_U, x = random(d, cfg.d_vocab), random(len(batch) * length, d)
    heads = random(len(batch) * cfg.n_heads, length, cfg.d_head)
    last = int(batch.scored.sum())
    scored = random(len(batch) * cfg.n_heads, last // len(batch), cfg.d_head)

    def mlp(rows: Tensor) -> None:
        rows @ W_in @ W_out

    def layer(rows: Tensor, queries: Tensor) -> None:
        x @ W_QKV
        queries @ heads.mT @ heads
        rows @ W_O
        mlp(rows)

    def behind(first: int) -> None:
        for number in range(first, cfg.n_layers):
            layer(*((x[:last], scored) if number == cfg.n_layers - 1 else (x, heads)))
        x[:last] @ W_U

    def products() -> None:
        with torch.no_grad():
            behind(0)
            for _ in CONTEXTS:
                behind(0)
            for number in range(cfg.n_layers):
                for _ in range(cfg.n_heads):
                    mlp(x[:last] if number == cfg.n_layers - 1 else x)
                    behind(number + 1)

    return products


def _exponent(
    name: str, sizes: Sequence[int], arguments: Sequence[tuple[CheckpointSeries, Sequence[AbstractProbe], Batch]]
) -> Row:
    """Return the slope of the logarithm of CPU time from the first size to the last; least and largest of its parts."""
    times = []
    for series, probes, batch in arguments:
        work = ours(series, probes, batch)
        work()
        start = cpu_seconds()
        work()
        times.append(cpu_seconds() - start)
    pairs = list(zip(sizes, times, strict=True))
    slopes = [_slope(*pairs[i], *pairs[i + 1]) for i in range(len(pairs) - 1)]
    note = "CPU " + ", ".join(f"{seconds:.1f}" for seconds in times) + " s"
    value = _slope(*pairs[0], *pairs[-1])
    return Row(f"exponent of measuring time in {name}", value, min(slopes), max(slopes), LINEAR, note=note)


def _slope(small: int, before: float, large: int, after: float) -> float:
    return math.log(after / before) / math.log(large / small)
