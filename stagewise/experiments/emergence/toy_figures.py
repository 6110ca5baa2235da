"""Figures 1 and 2 of the emergence of sparse attention: the toy model, its reduced flows, and their power laws."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.detection.power_law import fit_log_linear
from stagewise.experiments.emergence.grids import FigureRequest
from stagewise.experiments.emergence.numbers import Result, law_of, number
from stagewise.experiments.emergence.panels import draw_law, panels
from stagewise.experiments.emergence.toy_attention import check_toy, run_toy
from stagewise.plot.colours import ordered_colours
from stagewise.plot.power_law import collapse
from stagewise.sweeping import grid, sweep
from stagewise.theory.cross_sample import CrossSampleRepetition
from stagewise.theory.dynamics import solve
from stagewise.theory.plateau_flow import AbstractPlateauFlow, plateau, plateau_of_descent
from stagewise.theory.sparse_attention import SparseAttention

LENGTHS = (256, 512, 1024, 2048, 4096)
WIDTHS = (16, 32, 64, 128, 256)
COPIES = (1, 2, 4, 8, 16)
SHARES = (0.0, 0.1, 0.2, 0.4)

SHOWN = 8000.0
"""Time up to which losses are drawn: past the plateaus of the flows shown."""


def figure_1(request: FigureRequest) -> Result:
    """Draw the flow's plateaus, the published law against gradient descent, and SGD on the model itself."""
    runs = sgd_runs(request)
    descent = descent_times()
    law = fit_log_linear(descent, "T, d")
    of_sgd = law_of(runs, ("T", "d"))
    flow = plateau(SparseAttention(512, 64))
    figure, (left, middle, right) = panels(3)
    flows = {f"d = {d}": SparseAttention(512, d) for d in (16, 32, 64)}
    loss_curves(left, flows, "reduced flow, T = 512")
    collapse(descent, law, "d", "time (rate * steps)", middle)
    draw_law(right, runs, of_sgd, "d", "SGD steps")
    numbers = [
        number("T_plateau(T=512, d=64), reduced flow", "-", f"{flow:.1f}", "the closed form gives 5134"),
        number("T_plateau(T, d), gradient descent at rate 10", "1.51 T^.99 d^.49 (R2 .999)", law),
        number(
            f"T_plateau(T, d), SGD on the model, {len(runs)} runs", "as the flow (Fig. 9)", of_sgd,
            "smaller T and d" if request.setting == "small" else "",
        ),
        number("SGD steps over the flow's time", "1 (Fig. 9)", sgd_over_flow(runs), "geometric mean"),
    ]  # fmt: skip
    return Result(figure, pd.DataFrame(numbers))


def figure_2(request: FigureRequest) -> Result:
    """Draw how both repetitions shorten the plateau of the flow, and what SGD on the model itself does."""
    runs = sgd_runs(request)
    tied, shared = repetition_times(), cross_sample_times()
    of_ratio, of_share = fit_log_linear(tied, "T / B, d"), fit_log_linear(shared, "d ** 0.5 * T / f")
    free = pd.DataFrame({"B": COPIES, "time": [plateau(SparseAttention(4096, 16, B, "free")) for B in COPIES]})
    of_free = fit_log_linear(free, "B")
    of_sgd = law_of(runs, ("T", "d", "B", "f"))
    figure, (left, middle, right) = panels(3)
    loss_curves(left, {f"B = {B}": SparseAttention(512, 64, B) for B in (1, 2, 4)}, "reduced flow, tied logits")
    loss_curves(middle, {f"p = {p}": CrossSampleRepetition(512, 64, p) for p in SHARES}, "across samples")
    draw_law(right, runs, of_sgd, "B", "SGD steps")
    ratio = of_share.constant * (64**0.5 * 4096) ** of_share.exponents[0] / plateau(SparseAttention(4096, 64))
    numbers = [
        number(
            "T_plateau(T / B, d), reduced flow, T = 4096", "1.51 (T/B)^.99 d^.49", of_ratio, "constant: see PAPERS.md"
        ),
        number("exponent of B, all T logits free (flow, T = 4096)", "-.99", of_free, "the paper ties the B logits"),
        number("exponents, SGD on the model with all its logits", "-.99 for B", of_sgd, "trained here"),
        number("T_plateau, x = sqrt(d) T / f(p, d), T = 4096", "2.15 x^1.02 (R2 .992)", of_share, "2.15 not found"),
        number("that law at p = 0, d = 64 over the flow's own time", "1.99", f"{ratio:.2f}", "should be near 1"),
    ]
    return Result(figure, pd.DataFrame(numbers))


def descent_times() -> pd.DataFrame:
    """Return the plateau of gradient descent at rate 10 on the reduced loss, for the grid of Figure 1."""
    runs = [(T, d, plateau_of_descent(SparseAttention(T, d), 10.0)) for T in LENGTHS for d in WIDTHS]
    return pd.DataFrame(runs, columns=["T", "d", "time"])


def repetition_times() -> pd.DataFrame:
    """Return the plateau of the flow with B copies, for the grid of Figure 2 (left)."""
    runs = [(4096, d, B, plateau(SparseAttention(4096, d, B))) for B in COPIES for d in WIDTHS]
    return pd.DataFrame(runs, columns=["T", "d", "B", "time"])


def cross_sample_times() -> pd.DataFrame:
    """Return the plateau of the flow with a special vector in a share p, for the grid of Figure 2 (right)."""
    flows = [CrossSampleRepetition(4096, d, p) for p in SHARES for d in WIDTHS]
    rows = [(flow.n_positions, flow.d, flow.p, flow.speed_up, plateau(flow)) for flow in flows]
    return pd.DataFrame(rows, columns=["T", "d", "p", "f", "time"])


def sgd_runs(request: FigureRequest) -> pd.DataFrame:
    """Train the toy model by SGD over the grid, and return a row a run, with the interval in which its plateau ends.

    The column f = sqrt(p^2 d + (1 - p)^2) is what repetition across samples speeds the flow up by.

    Raises:
        ValueError: a size of the grid is out of range; nothing was trained.
    """
    budget = {} if request.budget is None else {"budget": request.budget}
    settings: list[dict[str, Any]] = [cell | {"p": float(cell.get("p", 0))} | budget for cell in grid(**request.axes)]
    for cell in settings:
        check_toy(**cell)
    runs = sweep(
        run_toy,
        settings,
        request.folder,
        workers=request.workers,
        cost=lambda cell: cell["T"] * math.sqrt(cell["d"]),
        progress=request.progress,
    )
    return runs.assign(f=np.sqrt(runs["p"] ** 2 * runs["d"] + (1 - runs["p"]) ** 2))


def sgd_over_flow(runs: pd.DataFrame) -> str:
    """Say how long SGD at rate 1 took against the flow (B = 1): the geometric mean over the runs that got there."""
    seen = runs[np.isfinite(runs["hi"])]
    if seen.empty:
        return f"all {len(runs)} runs are censored"
    flow = [plateau(SparseAttention(int(T), int(d))) for T, d in zip(seen["T"], seen["d"], strict=True)]
    ratio = f"{np.exp(np.log(seen['hi'] / flow).mean()):.2f}"
    return ratio if len(seen) == len(runs) else f"{ratio} in {len(seen)} of {len(runs)} runs; the others are censored"


def loss_curves(ax: Axes, flows: Mapping[str, AbstractPlateauFlow], title: str) -> None:
    """Draw the test loss of flows over time."""
    colours = ordered_colours(list(flows))
    for label, flow in flows.items():
        times = np.linspace(0, SHOWN, 1200)
        states = solve(flow, times)
        losses: Sequence[float] = [flow.test_loss(state) for state in states]
        ax.plot(times, losses, color=colours[label], label=label, linewidth=1.4)
    ax.set(xlabel="time", ylabel="test loss", ylim=(0, 0.52), xlim=(0, SHOWN))
    ax.set_title(title, fontsize=9)
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
