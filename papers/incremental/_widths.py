"""Which group heads learn first where groups have unequal widths: the flow over a grid, beside three rules; seconds."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from stagewise.papers.incremental._drawing import finish, panels
from stagewise.papers.published import Result, number, table_of
from stagewise.papers.theory.competitive import block_norms
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation, half_times
from stagewise.plot.axes import ordered_colours

STRENGTHS, WIDTHS = (1.2, 1.5, 1.7, 2.0, 2.5, 3.0), (1, 2, 3, 4, 6, 8)
"""Strength of a group of one position, over that of the other; how many positions the other has."""

RULES: dict[str, Callable[[TensorFactorisation], np.ndarray]] = {
    "m sqrt(w)": block_norms,
    "m alone": lambda theory: np.asarray(theory.strengths),
    "m w": lambda theory: np.asarray(theory.strengths) * np.asarray(theory.widths),
}
"""What the first group has most of: the norm of its block, its strength, or its effect when all positions are read."""

SEEDS = range(3)

_UNTIL = 300.0


def figure_widths(seeds: Sequence[int] = SEEDS) -> Result:
    """Draw which of two groups is learned first, by strength and width, and count the cells that each rule gets right.

    Cells in which a rule finds both groups equal do not count for it. The paper's theorems have equal widths.

    Source: derived, beside Theorem 1 of Yüksel et al. (2026), arXiv:2602.19143.
    """
    cells = first_learned(seeds)
    figure, (ax,) = panels(1)
    for first, colour in ordered_colours([0, 1]).items():
        of = cells[cells["first"] == first]
        label = "one position, stronger" if first == 0 else "more positions, weaker"
        ax.plot(of["width"], of["strength"], "o", color=colour, markersize=4, label=label)
    widths = np.linspace(1, max(WIDTHS), 100)
    ax.plot(widths, np.sqrt(widths), color="#888888", linewidth=0.8, label="m = sqrt(w)")
    finish(ax, "which is learned first", "positions of the weaker group", "strength m of the other")
    return Result(figure, table_of([*(_row(name, cells) for name in RULES), _margin_row(cells)]))


def first_learned(seeds: Sequence[int]) -> pd.DataFrame:
    """Return a row a cell and seed: `strength, width, seed, first`, and under each rule's name the group it expects.

    An expected group is missing where the rule finds both equal.
    """
    grid = [(m, w, seed) for m in STRENGTHS for w in WIDTHS for seed in seeds]
    rows = []
    for m, w, seed in grid:
        theory = TensorFactorisation((m, 1.0), (1, w), n_positions=16, n_heads=2, noise=1e-2, seed=seed)
        first = int(np.argmin(half_times(theory, _UNTIL, 1000)))
        rows.append({"strength": m, "width": w, "seed": seed, "first": first, **_expected(theory)})
    return pd.DataFrame(rows)


def _expected(theory: TensorFactorisation) -> dict[str, int | None]:
    scores = {name: rule(theory) for name, rule in RULES.items()}
    return {name: None if np.isclose(*each) else int(each.argmax()) for name, each in scores.items()}


def _row(rule: str, cells: pd.DataFrame) -> dict[str, str]:
    """Return the share of flows that a rule gets right."""
    known = cells.dropna(subset=[rule])
    right = int((known[rule] == known["first"]).sum())
    what = f"share of flows whose first group has the largest {rule}"
    return number(what, "-", f"{right / len(known):.3f}", remark=f"{right} of {len(known)} flows")


def _margin_row(cells: pd.DataFrame) -> dict[str, str]:
    """Return how much larger a block was, at most, that was not learned first."""
    wrong = cells[cells["m sqrt(w)"].notna() & (cells["m sqrt(w)"] != cells["first"])]
    ratios = wrong["strength"] / np.sqrt(wrong["width"])
    largest = float(np.maximum(ratios, 1 / ratios).max()) if len(wrong) else 1.0
    return number("largest ratio of block norms of which the smaller was first", "1", f"{largest:.3f}")
