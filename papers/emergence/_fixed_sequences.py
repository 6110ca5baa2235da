"""How many pairs emerge from fixed sequences at a large rate? Recall at a third party's setting."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stagewise.architecture import Architecture
from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import draw_curves, panels
from stagewise.papers.emergence._runs import FITTED, measured, run_path, until_learned
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.emergence_times import find_emergence_times
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.published import Result, number, table_of
from stagewise.papers.running import run_each
from stagewise.probes import Accuracy
from stagewise.recipe import Recipe
from stagewise.schedules import linear
from stagewise.sweeping import parameter_grid
from stagewise.table import select

BUDGET, SEQUENCES, BATCH, RATE = 2000, 10_000, 128, 1e-2

PUBLISHED = "below 1000 at 32 pairs"


def figure_fixed(request: FigureRequest) -> Result:
    """Train recall on fixed sequences for each number of pairs and width; draw test accuracy of the first seed.

    Two attention-only layers, Adam at 1e-2, 10,000 sequences. The source leaves open the batch (128 here), the heads
    (one), and the weights' initialisation (token embeddings N(0, 1), sinusoids).

    Source: Liu (2026), Sparse attention 6: in-context associative recall,
    https://kindxiaoming.github.io/blog/2026/sparse-attention-6
    """
    cases = parameter_grid(**request.axes)
    recipes = [_recipe(case, request.budget or BUDGET) for case in cases]
    one = functools.partial(_accuracy, request=request)
    tables = run_each(one, list(zip(cases, recipes, strict=True)), request.workers, progress=request.progress)
    figure, (ax,) = panels(1)
    first = [(case, table) for case, table in zip(cases, tables, strict=True) if case["seed"] == cases[0]["seed"]]
    draw_curves(ax, [(f"{case['N_pairs']} pairs, width {case['width']}", table) for case, table in first])
    ax.set(ylabel="test accuracy", ylim=(0, 1), title=f"{SEQUENCES:,} sequences, seed {cases[0]['seed']}")
    told = [emerged(_name(case), PUBLISHED, table) for case, table in zip(cases, tables, strict=True)]
    return Result(figure, table_of(told))


def emerged(what: str, published: str, accuracy: pd.DataFrame) -> dict[str, str]:
    """Return the middle of the steps between which accuracy is .5, or that it never is, and the last accuracy."""
    times = find_emergence_times(accuracy, "Accuracy", "accuracy", FITTED)
    lo, hi = float(times["lo"].item()), float(times["hi"].item())
    last = f"accuracy {accuracy['value'].iloc[-1]:.3f} at step {accuracy['step'].iloc[-1]}"
    if math.isinf(hi):
        return number(what, published, "never", remark=last)
    return number(what, published, f"{(lo + hi) / 2:g}", remark=f"({lo:g}, {hi:g}]; {last}")


def _name(case: Mapping[str, Any]) -> str:
    return f"steps to accuracy .5, {case['N_pairs']} pairs, width {case['width']}, seed {case['seed']}"


def _recipe(case: Mapping[str, Any], budget: int) -> Recipe:
    base = recall_recipe(int(case["N_pairs"]), int(case["N_tokens"]), seed=int(case["seed"]), budget=budget)
    width = int(case["width"])
    config = {**base.architecture.config, "d_model": width, "d_head": width}
    save = linear(50, min(budget, 500)) | linear(100, budget)
    plan = dataclasses.replace(base.plan, batch_size=BATCH, learning_rate=RATE, save=save)
    task: Any = base.task
    return Recipe(dataclasses.replace(task, n_sequences=SEQUENCES), Architecture(config, LinearInit("normal")), plan)


def _accuracy(run: tuple[Mapping[str, Any], Recipe], request: FigureRequest, progress: bool) -> pd.DataFrame:
    case, recipe = run
    folder = run_path("fixed", request.folder / "runs", **case, budget=recipe.plan.steps)
    table = measured(recipe, folder, [Accuracy()], log=until_learned(recipe), progress=progress)
    return select(table, "Accuracy", "accuracy")
