"""The figures of incremental learning as sweeps: recipes by figure, one run folder a run, a summary with the stages."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor

from stagewise import folder as run_folder
from stagewise.architecture import full, minimal
from stagewise.experiments import markov
from stagewise.experiments.baselines import shared_baseline
from stagewise.experiments.early_stopping import early_stop
from stagewise.experiments.restricted import with_baselines
from stagewise.init import OneHotInit
from stagewise.measurement import measure
from stagewise.probes import AttentionTo, HeadSpecialisation, KLToReference, Loss, MeanPattern
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.schedule import linear, logarithmic
from stagewise.series import CheckpointSeries
from stagewise.stages import find_stages
from stagewise.tasks import MarkovChain
from stagewise.training import train

SCALES: tuple[float | Literal["xavier"], ...] = ("xavier", 1e-3, 1e-6, 0.0)
"""Initial scales of Figure 4 left. 1e-9 is left out: a float32 model loses it in the first Adam step (`OneHotInit`).
At 0 the heads are one and the same, by symmetry: that is what the figure shows."""

SETTINGS = ("small", "paper")

SIZES: dict[str, tuple[int | None, ...]] = {"small": (200, 600, 2000, 6000), "paper": (600, 2000, 9000, None)}
"""Training sequences of Figure 5; None is fresh data."""

ROUNDING = 8
"""Units of rounding of the largest weight that lie between heads that are one: after 8 steps of Adam those that start
1e-8 apart differ by 3 or 4, those that start 1e-6 apart by 50 or more."""

FIGURES = ("4L", "4R", "5", "6", "8", "13", "15", "17")
"""Those that train. Figure 10 is an ordinary differential equation: `incremental_figures.ode`."""


def base(setting: str = "small", seed: int = 0, n_heads: int = 3, **task: Any) -> Recipe:
    """Return the minimal model's recipe, which every figure but 8 changes in one thing.

    Args:
        setting: "small", that of `markov.recipe`, or "paper": d = 50, T = 20, 9000 sequences, batches of 3000.
        seed: of the chain, the initial weights, the data and the evaluation.
        n_heads: number of heads.
        **task: parameters of the `MarkovChain` other than the setting's.

    Raises:
        ValueError: another setting.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1, 4 to 7. Deviation: W_Q starts in U(-1e-3, 1e-3), theirs
    in U(-1e-9, 1e-9).
    """
    if setting == "small":
        return markov.recipe("minimal", seed, n_heads, **task)
    if setting != "paper":
        raise ValueError(f'setting must be "small" or "paper", got {setting!r}')
    chain = MarkovChain(**{**PAPER, "seed": seed, **task})
    plan = TrainPlan(
        steps=2000,
        batch_size=3000,
        learning_rate=0.08,
        save=linear(25, 2000) | logarithmic(6, 25),
        seeds=Seeds(seed, seed, seed),
    )
    return Recipe(chain, minimal(chain.d_vocab, chain.n_ctx, n_heads), plan)


PAPER: dict[str, Any] = {
    "d_vocab": 50,
    "length": 20,
    "temperature": 0.1,
    "features": "orthogonal",
    "n_sequences": 9000,
}


def recipes(figure: str, setting: str = "small", seed: int = 0) -> dict[str, Recipe]:
    """Return the runs of a figure by name.

    Args:
        figure: one of FIGURES.
        setting: "small" or "paper".
        seed: of everything.

    Raises:
        ValueError: another figure or setting.

    >>> list(recipes("4R"))
    ['m=1.0', 'm=1.3', 'm=1.5', 'm=1.7']
    """
    overlap: dict[str, Any] = {"spans": (4, 4, 4), "stride": 2}
    known = {
        "4L": lambda: {f"scale={scale}": _at_scale(base(setting, seed), scale) for scale in SCALES},
        "4R": lambda: {f"m={m}": base(setting, seed, importance=m) for m in (1.0, 1.3, 1.5, 1.7)},
        "5": lambda: {f"n={n or 'fresh'}": base(setting, seed, n_sequences=n) for n in SIZES[setting]},
        "6": lambda: {"fresh": base(setting, seed, n_sequences=None)},
        "8": lambda: {"reversed": _reversed(setting, seed)},
        "13": lambda: {"alpha=0.7,0.3": base(setting, seed, lag_weights=(0.7, 0.3))},
        "15": lambda: {f"heads={n}": base(setting, seed, n, **overlap) for n in (3, 4)},
        "17": lambda: {"heads=4": base(setting, seed, 4, **overlap)},
    }
    if figure not in known or setting not in SETTINGS:
        raise ValueError(
            f"there are recipes of the figures {', '.join(FIGURES)} in the settings {', '.join(SETTINGS)}; "
            f"got figure {figure!r} in setting {setting!r}"
        )
    return known[figure]()


def _at_scale(recipe: Recipe, scale: float | Literal["xavier"]) -> Recipe:
    init = OneHotInit(query_scale=scale, value_scale="xavier" if scale == "xavier" else 0)
    return dataclasses.replace(recipe, architecture=dataclasses.replace(recipe.architecture, init=init))


def _reversed(setting: str, seed: int) -> Recipe:
    """The farthest group matters most; the paper's own figure is of a full transformer and spans of 8, 4 and 2 lags."""
    if setting == "small":
        return base(setting, seed, reverse=True)
    recipe = base(setting, seed, reverse=True, spans=(8, 4, 2))
    task, plan = recipe.task, dataclasses.replace(recipe.plan, learning_rate=0.003)
    return Recipe(task, full(task.d_vocab, task.n_ctx, n_heads=3, d_model=255, d_mlp=64), plan)


def distinct_heads(series: CheckpointSeries) -> int:
    """Return how many heads of the first layer differ in W_Q by more than rounding at the last checkpoint.

    Fewer than there are means that symmetry was not broken: the run shows nothing of the cooperative phase.
    """
    queries = series.weights(series.steps[-1])["blocks.0.attn.W_Q"]
    rounding = ROUNDING * torch.finfo(queries.dtype).eps * float(queries.abs().max())
    kept: list[Tensor] = []
    for query in queries:
        if all(float((query - other).abs().max()) > rounding for other in kept):
            kept.append(query)
    return max(len(kept), 1)


def run_recipe(recipe: Recipe, folder: Path, cache: Path | None = None, *, progress: bool = True) -> pd.DataFrame:
    """Train a run, or go on with it, measure its checkpoints and write its table.

    Args:
        recipe: on a `MarkovChain`.
        folder: the run folder.
        cache: where the sweep's restricted-context baselines are; None compares with none.
        progress: show bars.

    Raises:
        ValueError: the folder belongs to another recipe.
    """
    series = train(recipe, folder, progress=progress)
    batch = recipe.task.probe_batch(markov.PROBE_SEQUENCES, recipe.plan.seeds.evaluation)
    if cache is not None and isinstance(recipe.task, MarkovChain):
        contexts = markov.group_windows(recipe.task)
        batch = with_baselines(batch, {c: shared_baseline(recipe, c, cache, progress=progress) for c in contexts})
    probes = [Loss(), KLToReference(), AttentionTo(), HeadSpecialisation(), MeanPattern()]
    table = measure(series, probes, batch, folder=folder / "tables" / "parts", progress=progress)
    run_folder.write(folder / run_folder.TABLE, lambda partial: table.to_parquet(partial, index=False))
    return table


def run_sweep(
    sweep: Mapping[str, Recipe], folder: str | Path, *, restricted: bool = False, progress: bool = True
) -> pd.DataFrame:
    """Train and measure every run of a sweep, each in a folder of its name; what is finished is not done again.

    Args:
        sweep: recipes by name.
        folder: holds the run folders, and the shared baselines in `baselines`.
        restricted: whether to train restricted-context baselines to compare with.
        progress: show bars.

    Returns:
        A row a run: `run`, the fields of `EarlyStop`, `stages`, `distinct_heads`, `final_kl` to the truth (nats).

    Raises:
        ValueError: a folder belongs to another recipe.
    """
    folder = Path(folder)
    found: list[dict[str, Any]] = []
    for name, recipe in sweep.items():
        table = run_recipe(recipe, folder / name, folder / "baselines" if restricted else None, progress=progress)
        stages = find_stages(table)
        truth = table[(table["probe"] == "KLToReference") & (table["reference"] == _truth(recipe))]
        series = train(recipe, folder / name, progress=False)
        found.append(
            {
                "run": name,
                **early_stop(table, stages)._asdict(),
                "stages": len(stages),
                "distinct_heads": distinct_heads(series),
                "final_kl": float(truth.sort_values("step")["value"].iloc[-1]),
            }
        )
    summary = pd.DataFrame(found)
    run_folder.write(folder / "summary.csv", lambda partial: summary.to_csv(partial, index=False))
    return summary


def _truth(recipe: Recipe) -> str:
    groups = len(recipe.task.spans) if isinstance(recipe.task, MarkovChain) else 1
    return "A*_1" if groups == 1 else f"A*_1:{groups}"


def run_figure(
    figure: str,
    folder: str | Path,
    setting: str = "small",
    seeds: Sequence[int] = (0,),
    *,
    restricted: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Run all that a figure shows, for every seed, and return the summary of `run_sweep`.

    Args:
        figure: one of FIGURES.
        folder: holds a folder a run, named by what it changes and its seed.
        setting: "small" or "paper".
        seeds: of everything.
        restricted: whether to train the shared baselines; Figure 5 does in any case.
        progress: show bars.

    Raises:
        ValueError: there is no such figure or setting, or a run folder belongs to another recipe.
    """
    sweep = {f"{name}-seed{seed}": recipe for seed in seeds for name, recipe in recipes(figure, setting, seed).items()}
    return run_sweep(sweep, folder, restricted=restricted or figure == "5", progress=progress)
