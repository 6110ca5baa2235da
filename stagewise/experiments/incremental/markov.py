"""Incremental learning of a high-order Markov chain: train, probe every checkpoint, find the stages, report."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stagewise.architecture import Architecture, OneHotInit, full, minimal
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.series import open_series
from stagewise.detection.stages import Stages, find_stages, stages_of
from stagewise.experiments.incremental.restricted_context import restricted_recipe, train_restricted, with_baselines
from stagewise.experiments.incremental.shared_baselines import linked_baselines
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe
from stagewise.probes import (
    AttentionEntropy,
    AttentionTo,
    HeadAblation,
    HeadSpecialisation,
    KLToReference,
    Loss,
    MeanPattern,
    OffsetProfile,
    PatternClusters,
    RestrictedContextKL,
    ValueAlignment,
)
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.schedule import linear, logarithmic
from stagewise.sweeping import worker_pool
from stagewise.task import Batch
from stagewise.tasks import MarkovChain
from stagewise.training import train

PROBE_SEQUENCES = 400
SETTINGS = ("small", "paper")

_PAPER = {"d_vocab": 50, "length": 20, "temperature": 0.1, "features": "orthogonal", "n_sequences": 9000}
_SMALL_FULL = {"d_vocab": 16, "spans": (3, 3, 3), "length": 12, "importance": 1.6, "temperature": 1 / 6}


class Size(NamedTuple):
    """How large a preset is: parameters of its chain, sizes of its model, and its training at a constant rate.

    Args:
        task: parameters of the `MarkovChain` other than the defaults.
        model: arguments of its architecture's function.
        steps: number of updates.
        batch_size: sequences an update.
        learning_rate: of AdamW.
        save_every: steps between checkpoints; the first ones are log-spaced.
    """

    task: dict[str, Any]
    model: dict[str, Any]
    steps: int
    batch_size: int
    learning_rate: float
    save_every: int


SIZES = {
    ("minimal", "small"): Size({}, {}, 900, 512, 0.08, 15),
    # 1e-6 stands for the paper's 1e-9, which float32 loses; its own Figure 4 left has both at the same steps.
    ("minimal", "paper"): Size(_PAPER, {"init": OneHotInit(1e-6)}, 1200, 3000, 0.08, 10),
    ("full", "small"): Size(_SMALL_FULL, {}, 1000, 256, 0.004, 20),
    ("full", "paper"): Size(_PAPER | {"spans": (4, 4, 4)}, {"d_model": 255, "d_mlp": 64}, 2000, 3000, 0.003, 20),
}
"""By preset and setting. Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2."""

PRESETS = tuple(dict.fromkeys(preset for preset, _ in SIZES))


def recipe(
    preset: str = "minimal",
    seed: int = 0,
    n_heads: int = 3,
    setting: str = "small",
    model: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    **task: Any,
) -> Recipe:
    """Return the recipe of a preset.

    Args:
        preset: "minimal", the one-layer architecture of Figure 1, or "full", one block of an ordinary transformer.
        seed: of the chain, the initial weights, the data and the evaluation.
        n_heads: number of heads.
        setting: "small", for two cores, or "paper".
        model: arguments of `architecture.minimal` or `architecture.full` other than the preset's.
        plan: fields of the `TrainPlan` other than the preset's.
        **task: parameters of the `MarkovChain` other than the preset's.

    Raises:
        ValueError: an unknown preset or setting, or a parameter out of range.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2. Deviations: those of `architecture.full`; the
    minimal model's W_Q starts in U(-1e-6, 1e-6) at the paper's size, in U(-1e-3, 1e-3) at the small one, theirs in
    U(-1e-9, 1e-9).
    """
    if preset not in PRESETS:
        raise ValueError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    if setting not in SETTINGS:
        raise ValueError(f"there is no setting {setting!r}; there are {', '.join(SETTINGS)}")
    size = SIZES[preset, setting]
    chain = MarkovChain(**{"seed": seed, **size.task, **task})
    build = minimal if preset == "minimal" else full
    fields = {
        "steps": size.steps,
        "batch_size": size.batch_size,
        "learning_rate": size.learning_rate,
        "seeds": Seeds(seed, seed, seed),
        **(plan or {}),
    }
    saved = linear(size.save_every, fields["steps"]) | logarithmic(6, size.save_every)
    architecture = build(chain.d_vocab, chain.n_ctx, n_heads=n_heads, **{**size.model, **(model or {})})
    return Recipe(chain, architecture, TrainPlan(**{"save": saved, **fields}))


def group_windows(task: MarkovChain) -> list[int]:
    """Return the contexts that hold groups 1, 1 to 2, ...: the restricted contexts to compare with.

    >>> group_windows(MarkovChain(spans=(2, 3)))
    [2, 5]
    """
    return sorted(set(itertools.accumulate((lags[-1] for lags in task.groups), max)))


def few_probes(task: MarkovChain, architecture: Architecture) -> list[AbstractProbe]:
    """Return what stages, heads and figures are made of, at one pass a checkpoint."""
    chosen: list[AbstractProbe] = [Loss(), KLToReference(), AttentionTo(), HeadSpecialisation(), MeanPattern()]
    if architecture.config.get("normalization_type", "LN") is None:
        features = {f"A*_{k}": matrix for k, matrix in enumerate(task.feature_matrices(), start=1)}
        chosen.append(ValueAlignment(features))
    return chosen


def probes(task: MarkovChain, architecture: Architecture) -> list[AbstractProbe]:
    """Return everything there is to measure on this task."""
    contexts = sorted({1, *group_windows(task), min(task.window + task.spans[-1], task.n_ctx)})
    return [
        *few_probes(task, architecture),
        RestrictedContextKL(tuple(contexts)),
        HeadAblation(),
        PatternClusters(),
        AttentionEntropy(),
        OffsetProfile(),
    ]


def probe_batch(recipe: Recipe, folder: Path) -> Batch:
    """Return the fixed probe batch, with the restricted-context models whose training is over among its references.

    They are those in the run folder and the shared ones that it refers to.

    Raises:
        FileNotFoundError: the folder refers to a shared one that is not there.
    """
    batch = recipe.task.probe_batch(PROBE_SEQUENCES, recipe.plan.seeds.evaluation)
    own = {int(path.name): path for path in (folder / "restricted").glob("[0-9]*")}
    there = {c: path for c, path in {**linked_baselines(folder), **own}.items() if run_folder.is_finished(path)}
    return with_baselines(batch, dict(sorted(there.items())))


def measure_run(recipe: Recipe, folder: Path, *, progress: bool = True) -> pd.DataFrame:
    """Measure every checkpoint of a run folder and write its table; an interrupted measurement goes on."""
    task = recipe.task
    if not isinstance(task, MarkovChain):
        raise ValueError(f"this measures runs of MarkovChain, {folder} is one of {type(task).__name__}")
    return measure(
        open_series(folder),
        probes(task, recipe.architecture),
        probe_batch(recipe, folder),
        folder=folder / "tables" / "parts",
        save=folder / run_folder.TABLE,
        progress=progress,
    )


def run(recipe: Recipe, folder: str | Path, *, restricted: bool = True, progress: bool = True) -> Stages:
    """Train, probe every checkpoint, find the stages and write `report.html`; return the stages.

    The restricted-context models train beside the full one in another process. What a killed run had finished is not
    done again.

    Args:
        recipe: from `recipe`, or one with another architecture or plan.
        folder: the run folder.
        restricted: whether to train restricted-context models, one for each number of groups.
        progress: show bars.

    Raises:
        ValueError: the folder belongs to another recipe.
    """
    from stagewise.reporting.page import report

    folder = Path(folder)
    run_folder.claim(folder, recipe)
    contexts = group_windows(recipe.task) if restricted and isinstance(recipe.task, MarkovChain) else []
    with worker_pool(1) as pool:
        baselines = [
            pool.submit(train_restricted, restricted_recipe(recipe, context), folder / "restricted" / str(context))
            for context in contexts
        ]
        train(recipe, folder, progress=progress)
        for baseline in baselines:
            baseline.result()
    table = measure_run(recipe, folder, progress=progress)
    stages = stages_of(table, folder=folder) or find_stages(table)
    report(folder)
    return stages
