"""How much the steps at which stages end differ between draws of the chain."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from stagewise.findings.stages import find_stages
from stagewise.measurement.engine import measure
from stagewise.papers.incremental import markov
from stagewise.papers.incremental._drawing import finish, panels
from stagewise.papers.incremental._draws import WITHIN, share_below
from stagewise.papers.incremental._summary import boundaries
from stagewise.papers.published import Result, over_some, table_of
from stagewise.papers.running import run_each
from stagewise.probes import KLToReference
from stagewise.recipe import Recipe
from stagewise.training import train

STEPS, SEQUENCES = {"small": 900, "paper": 700}, 400
"""Of a run, past the end of its second stage, by setting; and those measured on."""

OVER_OURS = (330 / 240, 575 / 407)
"""The published ends of stages 1 and 2 over the mean of three draws at the paper's size (Figure 1)."""


def recipe_of(seed: int, setting: str = "small") -> Recipe:
    """Return Figure 1's run of a draw of the chain, up to its third stage."""
    return markov.recipe("minimal", seed, setting=setting, plan={"steps": STEPS[setting]})


def figure_ends(
    folder: Path, setting: str = "small", seeds: Sequence[int] = range(3), *, workers: int = 1, progress: bool = True
) -> Result:
    """Train a model on each draw of the chain, and draw where its first and its second stage end.

    Args:
        folder: holds the run folders.
        setting: "small" or "paper", Figure 1's size.
        seeds: of the draws, and of everything else of their runs.
        workers: processes, of one thread each.
        progress: show bars.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 6, whose draw of the chain is not known.
    """
    cases = [{"seed": seed} for seed in seeds]
    found = run_each(functools.partial(_ends, folder=folder, setting=setting), cases, workers, progress=progress)
    ends = np.array(found)
    figure, (ax,) = panels(1)
    for i, marker in enumerate("os"):
        ax.plot(list(seeds), ends[:, i], marker, color="#888888", markersize=4, label=f"end of stage {i + 1}")
    finish(ax, f"{len(ends)} draws", "draw of the chain", "step")
    return Result(figure, table_of(end_rows(ends)))


def end_rows(ends: Float[np.ndarray, "draw 2"]) -> list[dict[str, str]]:
    """Return the rows of both ends in steps, over their mean, and of draws that end sooner than the paper's does.

    An end is nan where the stage has none, which counts as later than any.
    """
    over_mean = ends / np.nanmean(ends, axis=0) if np.isfinite(ends).any(0).all() else ends
    return [
        *(over_some(f"end of stage {i + 1}, step", "-", ends[:, i], within=WITHIN) for i in range(2)),
        *(over_some(f"end of stage {i + 1} over its mean", "-", over_mean[:, i], within=WITHIN) for i in range(2)),
        *(
            share_below(f"end of stage {i + 1} over its mean", published, over_mean[:, i])
            for i, published in enumerate(OVER_OURS)
        ),
    ]


def _ends(case: Mapping[str, Any], folder: Path, setting: str, progress: bool) -> list[float]:
    """Return the steps at which a draw's first and second stage end; nan where one does not."""
    recipe = recipe_of(case["seed"], setting)
    series = train(recipe, folder / f"ends-seed{case['seed']}", progress=progress)
    batch = recipe.task.probe_batch(SEQUENCES, recipe.plan.seeds.evaluation)
    ended = boundaries(find_stages(measure(series, [KLToReference()], batch, progress=False)))
    return [float(ended[stage]["step"]) if stage in ended else float("nan") for stage in (1, 2)]
