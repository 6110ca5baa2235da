"""Figures 3, 8 and 9 of Scan and Snap: the growth of attention and of the decoder by the formulas; seconds."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.papers.published import Result, number, table_of
from stagewise.papers.scan_and_snap import _theorems as theorems
from stagewise.papers.theory.scan_and_snap import ScanAndSnap
from stagewise.plot.axes import ordered_colours

_ETAS, _SIZES, _RATIOS = (0.5, 1.0, 2.0, 5.0), (10, 100, 1000, 10_000), (1, 2, 5, 10)
"""Rates eta_Y of Figure 3, vocabularies M of Figure 8, ratios eta_Y / eta_Z of Figure 9."""


def figure_3() -> Result:
    """Draw the growth factor of the dominant token over time for four rates of Y, with the phase transitions dotted.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 3: K = 10, M = 1000, eta_Z = 0.5. Its C_0 is not known; 1
    here, so that the height of the axis is no published number.
    """
    figure, (ax,) = panels(1)
    times, rows, colours = np.linspace(0, 700, 701), [], ordered_colours(list(_ETAS))
    for eta in _ETAS:
        theory = ScanAndSnap(M=1000, K=10, eta_y=eta, eta_z=0.5)
        growth = np.exp(2 * theory.growth_integral(times))
        ax.plot(times, growth, color=colours[eta], label=f"eta_Y = {eta:g}")
        ax.axvline(theory.phase_transition_time, color=colours[eta], linestyle=":", linewidth=0.9)
        rows += [
            number(f"chi at step 700, eta_Y = {eta:g}", "falls with eta_Y", f"{growth[-1]:.1f}", remark="C_0 = 1"),
            number(f"phase transition t_0, eta_Y = {eta:g}", "2 K ln M / eta_Y", f"{theory.phase_transition_time:.0f}"),
            number(f"share of chi's growth before t_0, eta_Y = {eta:g}", "most", _share(theory)),
        ]
    finish(ax, "K = 10, M = 1000, eta_Z = 0.5; dotted: phase transitions", "growth factor chi, upper bound")
    ax.set_xlim(0, 700)
    return Result(figure, table_of(rows))


def figure_8() -> Result:
    """Draw h(t) and the decoder's error over time for four sizes of the vocabulary, eta_Y = 1.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 8.
    """
    figure, (left, right) = panels(2)
    times, rows, colours = np.linspace(0, 60, 601), [], ordered_colours(list(_SIZES))
    for M in _SIZES:
        theory = ScanAndSnap(M=M, K=1, eta_y=1.0)
        left.plot(times, M * theory.h(times), color=colours[M], label=f"M = {M}")
        right.plot(times, theory.class_error(times), color=colours[M], label=f"M = {M}")
        for ax in (left, right):
            ax.axvline(theory.accumulation_time, color=colours[M], linestyle=":", linewidth=0.9)
        half = float(np.interp(-0.5, -theory.class_error(times), times))
        rows += [
            number(f"time at which the error is one half, M = {M}", "about ln M", f"{half:.1f}", remark="eta_Y = 1"),
            number(f"ln M, M = {M}", "-", f"{theory.accumulation_time:.1f}"),
        ]
    finish(left, "eta_Y = 1, K = 1; dotted: ln M / eta_Y", "M h(t)")
    finish(right, "", "1 - alpha")
    return Result(figure, table_of(rows))


def figure_9() -> Result:
    """Draw the growth factor over time for four ratios eta_Y / eta_Z at a fixed eta_Y, K = 1, C_0 = 1.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 9, whose caption has the ratio upside down.
    """
    figure, (ax,) = panels(1)
    times, rows, colours = np.linspace(0, 60, 601), [], ordered_colours(list(_RATIOS))
    for ratio in _RATIOS:
        theory = ScanAndSnap(M=1000, K=1, eta_y=1.0, eta_z=1 / ratio)
        growth = np.exp(2 * theory.growth_integral(times))
        ax.plot(times, growth, color=colours[ratio], label=f"eta_Y / eta_Z = {ratio}")
        rows.append(number(f"chi at step 60, eta_Y / eta_Z = {ratio}", "falls with the ratio", f"{growth[-1]:.2f}"))
    ax.axvline(theory.phase_transition_time, color="#888888", linestyle=":", linewidth=0.9)
    finish(ax, "K = 1, M = 1000, C_0 = 1, eta_Y = 1; dotted: phase transition", "growth factor chi, upper bound")
    return Result(figure, table_of(rows))


def figure_theorems() -> Result:
    """Draw the logits of a population with one common token (Theorem 2); give every theorem's numbers."""
    figure, (ax,) = panels(1)
    path = theorems.fates().numpy()
    ax.plot(path[:, 1:], color=ordered_colours(["distinct", "common"])["distinct"], linewidth=0.8)
    ax.plot(path[:, 0], color=ordered_colours(["distinct", "common"])["common"], label="the common token")
    ax.lines[0].set_label("distinct tokens")
    finish(ax, "K = 4 classes of one query, eta_Y = 1, eta_Z = 0.02", "attention logit z", "step of the population")
    return Result(figure, table_of(theorems.rows()))


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with n panels side by side."""
    figure = Figure(figsize=(4.8 * n, 3.8), layout="constrained")
    return figure, list(figure.subplots(1, n, squeeze=False)[0])


def finish(ax: Axes, title: str, name: str, steps: str = "step of batch size 1") -> None:
    """Name the axes of a panel, show its title and legend, and take away the frame's upper half."""
    ax.set(xlabel=steps, ylabel=name)
    ax.set_title(title, fontsize=9, loc="left")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def _share(theory: ScanAndSnap, until: float = 700.0) -> str:
    """Return the share of the logarithmic growth up to a step that lies before the phase transition."""
    before, whole = theory.growth_integral([min(theory.phase_transition_time, until), until])
    return f"{before / whole:.2f}"
