"""Figure 9 of the emergence of sparse attention: SGD on the toy model from random weights, beside its flow."""

from typing import Any

import numpy as np
import pandas as pd

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import finish, panels
from stagewise.papers.emergence.toy_attention import check_toy, run_toy_curve
from stagewise.papers.published import Result, bounds, mean_over, number, table_of
from stagewise.papers.theory.plateau_flow import THRESHOLD, plateau
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.papers.theory.trajectories import first_time, follow
from stagewise.plot.axes import OKABE_ITO
from stagewise.sweeping import parameter_grid, sweep

_SHOWN = 1.6
"""How long SGD is followed, in plateaus of the flow."""


def figure_9(request: FigureRequest) -> Result:
    """Draw the test loss of SGD (rate 1, batch 32, weights N(0, 1 / d)) over that of the flow, T = d, a line a seed.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 9: T = d = 256, five seeds.
    """
    settings: list[dict[str, Any]] = [cell | _length(request, **cell) for cell in parameter_grid(**request.axes)]
    for cell in settings:
        check_toy(**cell)
    runs = sweep(
        run_toy_curve,
        settings,
        request.folder,
        workers=request.workers,
        cost=lambda cell: cell["budget"] * cell["T"] * cell["d"],
        progress=request.progress,
    )
    sizes = runs[["T", "d"]].drop_duplicates().itertuples(index=False, name=None)
    drawn = [(SparseAttention(int(T), int(d)), runs[(runs["T"] == T) & (runs["d"] == d)]) for T, d in sizes]
    figure, axes = panels(len(drawn))
    rows = []
    for ax, (flow, seeds) in zip(axes, drawn, strict=True):
        for i, run in enumerate(seeds.to_dict("records")):
            relative = np.array(run["losses"]) / run["losses"][0] / 2
            ax.plot(run["steps"], relative, color=OKABE_ITO[0], linewidth=0.7, label=None if i else "SGD")
        path = follow(flow, np.linspace(0, _SHOWN * plateau(flow), 600))
        ax.plot(path["time"], path["test_loss"], "--", color=OKABE_ITO[1], label="reduced flow")
        title = f"T = {flow.n_positions}, d = {flow.d}, {len(seeds)} seeds"
        finish(ax, title, xlabel="SGD step; time of the flow", ylabel="test loss, 0.5 at the start", ylim=(0, None))
        rows.append(_ratio(flow, seeds))
    return Result(figure, table_of(rows))


def _length(request: FigureRequest, T: int, d: int, seed: int) -> dict[str, int]:
    steps = request.budget or int(_SHOWN * plateau(SparseAttention(T, d)))
    return {"budget": steps, "every": max(1, steps // 300)}


def _ratio(flow: SparseAttention, seeds: pd.DataFrame) -> dict[str, str]:
    """Return SGD's steps to a fifth of its first loss over the flow's time, the mean over seeds, as a row."""
    what = f"SGD steps over the flow's time, T = {flow.n_positions}, d = {flow.d}"
    levels = [
        first_time(np.array(run["steps"]), -np.array(run["losses"]), -2 * THRESHOLD * run["losses"][0])
        for run in seeds.to_dict("records")
    ]
    ratios = np.array(levels) / plateau(flow)
    seen = ratios[np.isfinite(ratios)]
    mean, lo, hi = mean_over(seen)
    ours = f"{mean:.2f}" if seen.size else "not known"
    return number(what, "1", ours, bounds(lo, hi), f"{len(seen)} of {len(ratios)} seeds reached it")
