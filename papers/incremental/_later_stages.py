"""The flow of the heads beside a transformer on the regression, through its later stages too; four minutes."""

import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stagewise.papers.incremental._drawing import finish, panels
from stagewise.papers.incremental._regression import regression_recipe, sgd, theory, train_and_measure
from stagewise.papers.published import Result, bounds, mean_over, number, table_of
from stagewise.papers.running import run_each
from stagewise.papers.tasks import MarkovRegression
from stagewise.papers.theory.competitive import plateau_losses
from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation
from stagewise.papers.theory.trajectories import first_time
from stagewise.plot.axes import ordered_colours
from stagewise.table import select

STEPS, EVERY = 6000, 50

_NOISE = 1e-2
"""Of the initial logits: large enough that all three stages of these seeds end within the steps."""


class Stages(NamedTuple):
    """When a loss passes half-way from each plateau to the next, in steps, and its level there: a stage an entry."""

    steps: list[float]
    levels: list[float]


def figure_regression(
    folder: str | Path, seeds: Sequence[int] = range(3), *, workers: int = 1, progress: bool = True
) -> Result:
    """Train the heads by plain SGD on sampled contexts, a run a seed, and draw their loss over that of the flow.

    A stage ends where the loss is half-way from its plateau to the next one.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Proposition 1: the population loss is the flow's.
    """
    cases = [{"seed": seed} for seed in seeds]
    tables = run_each(functools.partial(_loss_of, folder=Path(folder)), cases, workers, progress=progress)
    figure, (ax,) = panels(1)
    colours, found = ordered_colours([*seeds]), []
    for case, loss in zip(cases, tables, strict=True):
        task, flow = _case(case["seed"])
        times = sgd().learning_rate * loss["step"].to_numpy()
        predicted = np.asarray(flow.loss(flow.heads(states_at(flow, times))))
        ax.plot(loss["step"], loss["value"], color=colours[case["seed"]], label=f"seed {case['seed']}")
        ax.plot(loss["step"], predicted, "--", color=colours[case["seed"]], linewidth=0.9, label="_flow")
        levels = plateau_losses(flow)
        steps = loss["step"].to_numpy(dtype=float)
        found.append((stages(steps, loss["value"].to_numpy(dtype=float), levels), stages(steps, predicted, levels)))
    finish(ax, f"d = {task.dim}, groups of two, three heads; dashed: the flow", "step of SGD", "loss")
    return Result(figure, table_of([*_step_rows(found), *_level_rows(found)]))


def _loss_of(case: Mapping[str, Any], folder: Path, progress: bool) -> pd.DataFrame:
    """Train and measure a seed; return the rows of its loss."""
    task, flow = _case(case["seed"])
    recipe = regression_recipe(task, flow, sgd(STEPS, EVERY))
    table = train_and_measure(recipe, folder / f"regression-seed{case['seed']}", progress=progress)
    return select(table, "Loss", "squared_error")


def _case(seed: int) -> tuple[MarkovRegression, TensorFactorisation]:
    task = MarkovRegression(seed=seed)
    return task, theory(task, noise=_NOISE, seed=seed)


def stages(steps: np.ndarray, losses: np.ndarray, levels: np.ndarray) -> Stages:
    """Return where a loss passes half-way between plateaus, and where it falls least, in ln(step), in between.

    Args:
        steps: of the losses, ascending.
        losses: at each of them.
        levels: of the plateaus, from `plateau_losses`: the first is the loss at the start, the last zero.
    """
    middles = [(high + low) / 2 for high, low in itertools.pairwise(levels)]
    passed = [first_time(steps, -losses, -middle) for middle in middles]
    falls = -np.gradient(losses, np.log1p(steps))
    plateaus = []
    for start, stop in itertools.pairwise(passed):
        within = np.flatnonzero((steps > start) & (steps < stop))
        plateaus.append(float(losses[within[falls[within].argmin()]]) if within.size else np.nan)
    return Stages(passed, plateaus)


def _step_rows(found: Sequence[tuple[Stages, Stages]]) -> list[dict[str, str]]:
    rows = []
    for i in range(len(found[0][0].steps)):
        ratios = np.array([run.steps[i] / flow.steps[i] for run, flow in found])
        seen = ratios[np.isfinite(ratios)]
        mean, lo, hi = np.exp(mean_over(np.log(seen)))
        remark = f"{len(seen)} of {len(ratios)} seeds" if len(seen) < len(ratios) else f"{len(ratios)} seeds"
        what = f"steps of SGD over the flow's, end of stage {i + 1}"
        rows.append(number(what, "1", f"{mean:.3f}" if len(seen) else "never", bounds(lo, hi), remark))
    return rows


def _level_rows(found: Sequence[tuple[Stages, Stages]]) -> list[dict[str, str]]:
    rows = []
    for i in range(len(found[0][0].levels)):
        ratios = [run.levels[i] / flow.levels[i] for run, flow in found]
        mean, lo, hi = mean_over(ratios)
        what = f"loss on plateau {i + 1}, over the flow's"
        rows.append(number(what, "1", f"{mean:.3f}", bounds(lo, hi), f"{len(ratios)} seeds"))
    return rows
