"""Figures 6, 7, 8 and 10 of the emergence of sparse attention: the reduced flow seen from inside; seconds."""

import math

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import finish, panels
from stagewise.papers.published import Result, number, table_of
from stagewise.papers.theory.cross_sample import CrossSampleRepetition
from stagewise.papers.theory.early_time import linearised, linearised_plateau
from stagewise.papers.theory.plateau_flow import plateau
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.papers.theory.trajectories import curvature, first_time, follow, landscape
from stagewise.plot.axes import OKABE_ITO, ordered_colours

_SHARES = (0.0, 0.1, 0.2, 0.4)

_FINE = 801
"""Times at which a flow is read."""


def figure_6(request: FigureRequest) -> Result:
    """Draw the reduced loss over (w, Da) at T = 256, d = 64, with the flow's way through it.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 6.
    """
    flow = SparseAttention(256, 64)
    path = _dense_near(flow, plateau(flow), until=4.0)
    w, gap = np.linspace(0, 1.25 * path["w"].max(), 121), np.linspace(0, 1.1 * path["Da"].max(), 121)
    losses = landscape(flow, w, gap)
    figure, (ax,) = panels(1)
    filled = ax.contourf(w, gap, losses, levels=np.linspace(0, 0.6, 25), extend="max", cmap="cividis")
    figure.colorbar(filled, ax=ax, label="loss")
    ax.plot(path["w"], path["Da"], color="white", linewidth=2)
    ax.plot(path["w"], path["Da"], color=OKABE_ITO[4], linewidth=1.2)
    ax.axvline(math.sqrt(64), color="white", linewidth=0.8, linestyle=":")
    finish(ax, "T = 256, d = 64; dotted: w = sqrt(d)", xlabel="w", ylabel="Da, logit of the relevant token")
    rows = [
        number("T_plateau(T=256, d=64), time", "-", f"{plateau(flow):.1f}"),
        number("largest w on the way (target sqrt(d) = 8)", "above sqrt(d)", f"{path['w'].max():.2f}"),
        number("w and Da at the end of the plateau", "-", _at_plateau(flow, path)),
        number("loss at the start, and at four plateaus", "0.5, near 0", _ends(path)),
    ]
    return Result(figure, table_of(rows))


def figure_7(request: FigureRequest) -> Result:
    """Draw w, Da and the loss of the flow beside the linearised flow at d = 512, T = 512.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 7; its T is not recorded in what we read.
    """
    flow = SparseAttention(512, 512)
    times = np.linspace(0, 1.02 * plateau(flow), _FINE)
    path = follow(flow, times)
    linear = pd.DataFrame([linearised(time, flow.rate) for time in times])
    figure, axes = panels(3)
    for ax, name, theory, label in zip(
        axes, ("w", "Da", "loss"), ("w", "gap", "loss"), ("w", "Da", "loss"), strict=True
    ):
        ax.plot(flow.rate * times, path[name], color=OKABE_ITO[0], label="flow")
        ax.plot(flow.rate * times, linear[theory], "--", color=OKABE_ITO[1], label="linearised")
        ax.axvline(math.sqrt(math.pi / 2), color="#888888", linewidth=0.8, linestyle=":")
        top = 1.1 * float(linear[theory].max()) if name != "loss" else 0.55
        finish(ax, "", xlabel="rate * time (dotted: blow-up)", ylabel=label, ylim=(0, 3 * top if name == "Da" else top))
    deviation = np.abs(linear["w"] / path["w"].where(path["w"] > 0) - 1).fillna(0).to_numpy()
    within = first_time(flow.rate * times, deviation, 0.03)
    rows = [
        number("rate * time until which w agrees within 3 %", "early", f"{within:.2f}"),
        number("rate * time of the plateau's end", "-", f"{flow.rate * plateau(flow):.3f}", remark="blow-up 1.253"),
        number("linearised over exact w, at the plateau's end", "-", _last_ratio(linear, path, plateau(flow))),
        number("plateau of Equation 6 over the flow's", "1", f"{linearised_plateau(flow.rate) / plateau(flow):.2f}"),
    ]
    return Result(figure, table_of(rows))


def figure_8(request: FigureRequest) -> Result:
    """Draw the equilibrium of w for each attention, w beside it over time, and the Hessian's extreme eigenvalues.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 8: T = 512, d = 64.
    """
    flow = SparseAttention(512, 64)
    end = plateau(flow)
    path = _dense_near(flow, end, until=2.2)
    path["equilibrium"] = [flow.equilibrium(attention) for attention in path["attention"]]
    eigenvalues = curvature(flow, path)
    figure, (left, middle, right) = panels(3)
    attention = np.geomspace(1 / 512, 1, 200)
    left.plot(attention, [flow.equilibrium(each) for each in attention], color=OKABE_ITO[0])
    left.set_xscale("log")
    finish(left, "equilibrium of w", xlabel="attention", ylabel="w at which w' = 0")
    for label, colour in ordered_colours(["w", "equilibrium"]).items():
        middle.plot(path["time"], path[label], color=colour, label=label)
    finish(middle, "w follows its equilibrium late", xlabel="time", ylabel="w")
    for name, at in (("largest", -1), ("smallest", 0)):
        right.plot(path["time"], eigenvalues[:, at], color=OKABE_ITO[at], label=name)
    right.axvline(end, color="#888888", linewidth=0.8, linestyle=":")
    finish(right, "dotted: end of the plateau", xlabel="time", ylabel="Hessian's eigenvalues")
    rows = [
        number("largest Hessian eigenvalue", "at the drop", eigenvalues.max().item()),
        number("time of it; plateau's end", "the same", f"{path['time'][eigenvalues[:, -1].argmax()]:.0f}; {end:.0f}"),
        number("smallest Hessian eigenvalue", "negative, at the drop", eigenvalues.min().item()),
        number("eigenvalues at the start", "± 1 / (sqrt(d) T) = 2.44e-4", _pair(eigenvalues[0])),
        number("largest eigenvalue at the end (1 / d = 0.0156)", "1 / d", eigenvalues[-1, -1].item()),
        *(number(f"w over its equilibrium at {n} plateaus", "1 late", _late(path, n * end)) for n in (1, 1.1, 1.5)),
        number("w over its equilibrium at twice the plateau", "1", _late(path, 2 * end)),
        number("equilibrium by its formula over where w' = 0, where they differ most", "1", f"{_worst(flow):.6f}"),
    ]
    return Result(figure, table_of(rows))


def figure_10(request: FigureRequest) -> Result:
    """Draw w~, w and alpha over time for four shares p of sequences with the special vector, T = 512, d = 64.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 10.
    """
    flows = {p: CrossSampleRepetition(512, 64, p) for p in _SHARES}
    figure, axes = panels(4)
    colours, rows, base = ordered_colours(list(_SHARES)), [], plateau(flows[0.0])
    for p, flow in flows.items():
        path = follow(flow, np.linspace(0, 1.3 * base, _FINE))
        for ax, name in zip(axes, ("w~", "w", "attention", "test_loss"), strict=True):
            ax.plot(path["time"], path[name], color=colours[p], label=f"p = {p:g}")
        end, linear = plateau(flow), f"{flow.linear_speed_up:.2f} by the flow's linear terms"
        rows += [
            number(f"T_plateau at p = {p:g}, time", "-", f"{end:.0f}", remark="test loss 0.1, p = 0 in the test"),
            number(f"speed-up at p = {p:g}", f"{flow.speed_up:.2f} (linearised)", f"{base / end:.2f}", remark=linear),
        ]
    for ax, label in zip(axes, ("w~, the special direction", "w, the others", "attention", "test loss"), strict=True):
        finish(ax, "T = 512, d = 64", xlabel="time", ylabel=label)
    return Result(figure, table_of(rows))


def _dense_near(flow: SparseAttention, end: float, until: float) -> pd.DataFrame:
    """Follow a flow for so many plateaus, with two times in a thousandth of one where it falls."""
    times = np.union1d(np.linspace(0, until * end, _FINE // 2), np.linspace(0.97 * end, 1.03 * end, 121))
    return follow(flow, times)


def _at_plateau(flow: SparseAttention, path: pd.DataFrame) -> str:
    end = follow(flow, [0.0, plateau(flow)]).iloc[-1]
    return f"w = {end['w']:.2f}, Da = {end['Da']:.2f}"


def _ends(path: pd.DataFrame) -> str:
    return f"{path['loss'].iloc[0]:.2f}, {path['loss'].iloc[-1]:.4f}"


def _last_ratio(linear: pd.DataFrame, path: pd.DataFrame, end: float) -> str:
    at = int(np.searchsorted(path["time"], end)) - 1
    return f"{linear['w'][at] / path['w'][at]:.2f}"


def _late(path: pd.DataFrame, time: float) -> str:
    at = int(np.searchsorted(path["time"], time))
    return f"{path['w'][at] / path['equilibrium'][at]:.3f}"


def _worst(flow: SparseAttention) -> float:
    """Return w_inf of the formula over the w that its own equation leaves where it is, over attentions from 1 / T."""
    gaps = np.linspace(0, 14, 30)
    zeros = [brentq(lambda w, gap=gap: flow.velocity((w, gap))[0], 0, 1e4) for gap in gaps]
    ratios = np.array([flow.equilibrium(flow.attention((0.0, gap))) for gap in gaps]) / zeros
    return float(ratios[np.abs(ratios - 1).argmax()])


def _pair(eigenvalues: np.ndarray) -> str:
    return ", ".join(f"{value:.2e}" for value in eigenvalues)
