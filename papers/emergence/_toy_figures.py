"""Figures 1 and 2 of the emergence of sparse attention: the toy model, its reduced flows, and their power laws."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._numbers import law_numbers, law_of
from stagewise.papers.emergence._panels import draw_law, finish, log_log, panels, put_above
from stagewise.papers.emergence.toy_attention import check_toy, run_toy
from stagewise.papers.law_plots import collapse
from stagewise.papers.power_law import PowerLaw, fit_log_linear
from stagewise.papers.published import Result, bounds, mean_over, number, table_of
from stagewise.papers.theory.cross_sample import CrossSampleRepetition
from stagewise.papers.theory.plateau_flow import AbstractPlateauFlow, plateau, plateau_of_descent
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.papers.theory.trajectories import first_time, follow
from stagewise.plot.axes import ordered_colours
from stagewise.sweeping import parameter_grid, sweep

_LENGTHS = (256, 512, 1024, 2048, 4096)
_WIDTHS = (16, 32, 64, 128, 256)
_COPIES = (1, 2, 4, 8, 16)
_SHARES = (0.0, 0.1, 0.2, 0.4)

_SHARED = tuple((4096, d, p) for p in _SHARES for d in _WIDTHS)
"""T, d and p of Figure 2 (right)."""

_SHOWN = 8000.0
"""Time up to which losses are drawn: past the plateaus of the flows shown."""


def figure_1(request: FigureRequest) -> Result:
    """Draw the flow's plateaus, the published law against gradient descent, and SGD on the model itself."""
    runs = _sgd_runs(request)
    descent = _descent_times()
    law = fit_log_linear(descent, "T, d")
    of_sgd = law_of(runs, ("T", "d"))
    figure, (losses, inside, middle, right) = panels(4)
    _loss_curves(losses, {f"d = {d}": SparseAttention(512, d) for d in (16, 32, 64)}, "reduced flow, T = 512")
    path = follow(SparseAttention(512, 64), np.linspace(0, _SHOWN, 1601))
    _weights_and_attention(inside, path)
    collapse(descent, law, "d", "time (rate * steps)", middle)
    draw_law(right, runs, of_sgd, "d", "SGD steps")
    put_above(middle, "gradient descent on the reduced loss")
    put_above(right, "SGD on the model")
    flow = plateau(SparseAttention(512, 64))
    small = "smaller T and d" if request.setting == "small" else ""
    rows = [
        number("T_plateau(T=512, d=64), reduced flow, time", "-", f"{flow:.1f}", remark="the closed form gives 5134"),
        *moments(path),
        *law_numbers("T_plateau(T, d), gradient descent at rate 10", "1.51 T^.99 d^.49 (R2 .999)", law),
        *law_numbers("T_plateau(T, d), SGD on the model", "as the flow", of_sgd, small),
        sgd_over_flow(runs),
    ]
    return Result(figure, table_of(rows))


def figure_2(request: FigureRequest) -> Result:
    """Draw how both repetitions shorten the plateau of the flow, and what SGD on the model itself does.

    Raises:
        ValueError: a size of the grid is out of range, or the flow of one never ends its plateau, as at p = 1; nothing
            was trained.
    """
    settings = _sgd_settings(request)
    flow = cross_sample_times(dict.fromkeys((cell["T"], cell["d"], cell["p"]) for cell in settings if cell["B"] == 1))
    runs = _sgd_runs(request)
    tied, shared = _repetition_times(), cross_sample_times()
    of_ratio, of_share = fit_log_linear(tied, "T / B, d"), fit_log_linear(shared, "x")
    free = pd.DataFrame({"B": _COPIES, "time": [plateau(SparseAttention(4096, 16, B, "free")) for B in _COPIES]})
    copied, special = runs[runs["p"] == 0], runs[runs["B"] == 1]
    of_copies, of_special = law_of(copied, ("T", "d", "B")), law_of(special, ("x",))
    figure, (left, middle, right, last) = panels(4)
    plateaus(left, tied, "B", of_ratio, "reduced flow, tied logits, T = 4096")
    plateaus(middle, shared, "p", of_share, "reduced flow, across samples, T = 4096")
    draw_law(right, copied, of_copies, "B", "SGD steps")
    draw_law(last, special, of_special, "p", "SGD steps")
    put_above(right, "SGD on the model, copies in the sequence")
    put_above(last, "SGD on the model, repetition across samples")
    ratio = of_share.constant * (64**0.5 * 4096) ** of_share.exponents[0] / plateau(SparseAttention(4096, 64))
    rows = [
        *law_numbers("T_plateau(T / B, d), reduced flow, T = 4096", "1.51 (T/B)^.99 d^.49", of_ratio),
        *law_numbers(
            "T_plateau(B), all T logits free, flow, T = 4096", "B^-.99", fit_log_linear(free, "B"),
            "the paper ties the B logits",
        ),
        *law_numbers("T_plateau, SGD on the model with all its logits", "B^-.99", of_copies),
        *law_numbers("T_plateau, x = sqrt(d) T / f(p, d), T = 4096", "2.15 x^1.02 (R2 .992)", of_share),
        number("that law at p = 0, d = 64 over the flow's own time", "1.99", f"{ratio:.2f}", remark="should be near 1"),
        *law_numbers("T_plateau of x, SGD on the model, B = 1", "as the flow", of_special),
        *law_numbers("T_plateau of x, reduced flow at the sizes of these runs", "-", fit_log_linear(flow, "x")),
        *(sgd_over_flow(special[special["p"] == p], p) for p in sorted(special["p"].unique())),
    ]  # fmt: skip
    return Result(figure, table_of(rows))


def moments(path: pd.DataFrame) -> list[dict[str, str]]:
    """Return when weights, attention and loss of a followed flow reach half-way marks, as rows of numbers.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 1b: w and alpha over time; it prints no numbers.
    """
    times, weights, attention = (path[name].to_numpy() for name in ("time", "w", "attention"))
    reached = {
        "w reaches 1": first_time(times, weights, 1.0),
        "attention has doubled": first_time(times, attention, 2 * attention[0]),
        "attention is one half": first_time(times, attention, 0.5),
        "w is largest": float(times[weights.argmax()]),
    }
    rows = [number(f"time at which {what}, T = 512, d = 64", "-", f"{time:.0f}") for what, time in reached.items()]
    return [*rows, number("largest w (target sqrt(d) = 8)", "above sqrt(d)", f"{weights.max():.2f}")]


def _descent_times() -> pd.DataFrame:
    """Return the plateau of gradient descent at rate 10 on the reduced loss, for the grid of Figure 1."""
    runs = [(T, d, plateau_of_descent(SparseAttention(T, d), 10.0)) for T in _LENGTHS for d in _WIDTHS]
    return pd.DataFrame(runs, columns=["T", "d", "time"])


def _repetition_times() -> pd.DataFrame:
    """Return the plateau of the flow with B copies, for the grid of Figure 2 (left)."""
    runs = [(4096, d, B, plateau(SparseAttention(4096, d, B))) for B in _COPIES for d in _WIDTHS]
    return pd.DataFrame(runs, columns=["T", "d", "B", "time"])


def cross_sample_times(sizes: Iterable[tuple[int, int, float]] = _SHARED) -> pd.DataFrame:
    """Return the plateau of the flow with a special vector in a share p, for sizes (T, d, p)."""
    flows = [CrossSampleRepetition(int(T), int(d), float(p)) for T, d, p in sizes]
    rows = [(flow.n_positions, flow.d, flow.p, flow.speed_up, plateau(flow)) for flow in flows]
    return _with_x(pd.DataFrame(rows, columns=["T", "d", "p", "f", "time"]))


def _sgd_runs(request: FigureRequest) -> pd.DataFrame:
    """Train the toy model by SGD over the grid, and return a row a run, with the interval in which its plateau ends.

    The column f = sqrt(p^2 d + (1 - p)^2) is what repetition across samples speeds the flow up by.

    Raises:
        ValueError: a size of the grid is out of range; nothing was trained.
    """
    runs = sweep(
        run_toy,
        _sgd_settings(request),
        request.folder,
        workers=request.workers,
        cost=lambda cell: cell["T"] * math.sqrt(cell["d"]),
        progress=request.progress,
    )
    return _with_x(runs.assign(f=np.sqrt(runs["p"] ** 2 * runs["d"] + (1 - runs["p"]) ** 2)))


def _sgd_settings(request: FigureRequest) -> list[dict[str, Any]]:
    """Return the settings of the runs, a cell of the grid each.

    Raises:
        ValueError: a size is out of range.
    """
    budget = {} if request.budget is None else {"budget": request.budget}
    settings: list[dict[str, Any]] = [cell | budget for cell in cells(request.axes)]
    for cell in settings:
        check_toy(**cell)
    return settings


def _with_x(times: pd.DataFrame) -> pd.DataFrame:
    """Add x = sqrt(d) T / f, of which the plateau is a power."""
    return times.assign(x=np.sqrt(times["d"]) * times["T"] / times["f"])


def cells(axes: Mapping[str, tuple[int | float, ...]]) -> list[dict[str, Any]]:
    """Return the cells of a grid with repetition in context alone (every B), then across samples alone (every p > 0).

    >>> cells({"T": (8,), "B": (1, 2), "p": (0, 0.5)})
    [{'T': 8, 'B': 1, 'p': 0.0}, {'T': 8, 'B': 2, 'p': 0.0}, {'T': 8, 'B': 1, 'p': 0.5}]
    """
    copies, shares = axes.get("B", (1,)), axes.get("p", (0,))
    others = {name: values for name, values in axes.items() if name not in ("B", "p")}
    kinds = dict.fromkeys([*((B, 0.0) for B in copies), *((1, float(p)) for p in shares if p != 0)])
    return [cell | {"B": B, "p": p} for B, p in kinds for cell in parameter_grid(**others)]


def sgd_over_flow(runs: pd.DataFrame, p: int | float = 0) -> dict[str, str]:
    """Return how long SGD at rate 1 took against the flow (B = 1, one p): the geometric mean over the runs."""
    what = "SGD steps over the flow's time, B = 1" + (f", p = {p:g}" if p else "")
    single = runs[(runs["B"] == 1) & (runs["p"] == p)]
    seen = single[np.isfinite(single["hi"])]
    remark = f"{len(seen)} of {len(single)} runs, geometric mean" + "; the others are censored" * (
        len(seen) < len(single)
    )
    flow = [plateau(CrossSampleRepetition(int(T), int(d), float(p))) for T, d in zip(seen["T"], seen["d"], strict=True)]
    mean, lo, hi = np.exp(mean_over(np.log(seen["hi"].to_numpy() / flow)))
    return number(what, "1", f"{mean:.2f}" if len(seen) else "not known", bounds(lo, hi), remark)


def _loss_curves(ax: Axes, flows: Mapping[str, AbstractPlateauFlow], title: str) -> None:
    """Draw the test loss of flows over time."""
    colours = ordered_colours(list(flows))
    times = np.linspace(0, _SHOWN, 1200)
    for label, flow in flows.items():
        ax.plot(times, follow(flow, times)["test_loss"], color=colours[label], label=label, linewidth=1.4)
    finish(ax, title, xlabel="time", ylabel="test loss", ylim=(0, 0.52), xlim=(0, _SHOWN))


def _weights_and_attention(ax: Axes, path: pd.DataFrame) -> None:
    """Draw w over its target and the attention on the relevant token over time (Figure 1b)."""
    target = path["w"] / math.sqrt(64)
    colours = ordered_colours(["w / sqrt(d)", "attention"])
    for (label, colour), values in zip(colours.items(), (target, path["attention"]), strict=True):
        ax.plot(path["time"], values, color=colour, label=label, linewidth=1.4)
    finish(ax, "weights before attention, T = 512, d = 64", xlabel="time", xlim=(0, path["time"].iloc[-1]))


def plateaus(ax: Axes, times: pd.DataFrame, by: str, law: PowerLaw, title: str) -> None:
    """Draw plateau against d, a colour a value of `by`, with the law dashed."""
    colours = ordered_colours(list(times[by].unique()))
    for value, rows in times.groupby(by):
        ax.plot(rows["d"], rows["time"], "o", color=colours[value], markersize=4, label=f"{by} = {value:g}")
        ax.plot(rows["d"], law.predict(rows), "--", color=colours[value], linewidth=0.9)
    log_log(ax, times["d"])
    finish(ax, title, xlabel="d", ylabel="plateau, time")
