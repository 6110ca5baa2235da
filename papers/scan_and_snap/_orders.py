"""Scan and Snap: the constants behind Theorem 1's orders, and Assumption 2 on the paper's own small data; seconds."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.integrate import solve_ivp

from stagewise.papers.published import Result, number, table_of
from stagewise.papers.scan_and_snap._theorems import competition, population_ascent
from stagewise.papers.scan_and_snap._theory_figures import finish, panels
from stagewise.papers.tasks import SequenceClasses, syn_medium, syn_small
from stagewise.papers.theory.scan_and_snap import ScanAndSnap
from stagewise.plot.axes import ordered_colours

SIZES = (100, 1000, 10_000, 1_000_000)
"""Vocabularies M over which an order's constant must not grow."""

_TIMES = 400


class Constants(NamedTuple):
    """The largest gamma over its order: before t_0', from t_0 on as printed, and with M within the logarithm."""

    early: float
    late: float
    with_size: float


class Correlation(NamedTuple):
    """Assumption 2 of some classes: K |lambda_1(E)|, K^2 / M, and the share of steps at which xi is positive."""

    largest: float
    crowding: float
    competing: float


def constants(M: int, K: int = 10, eta_y: float = 0.5) -> Constants:
    """Return the constants of Theorem 1's orders of gamma, which have none in print.

        gamma = O(S), S = eta_Y t / K, until t_0' = K ln M / eta_Y;   O(ln(S) / S) from 2 (1 + d') K ln M / eta_Y on

    with d' = ln ln M / ln M. The last constant is of ln(M S) / S in place of ln(S) / S,
    which Lemma 9 has, from which the theorem follows.

    Source: Tian et al. (2023), arXiv:2305.16380, Theorem 1 and Lemma 9.
    """
    theory = ScanAndSnap(M=M, K=K, eta_y=eta_y)
    early = np.geomspace(1, theory.accumulation_time, _TIMES)
    start = theory.phase_transition_time * (1 + np.log(np.log(M)) / np.log(M))
    late = np.geomspace(start, 1e4 * start, _TIMES)
    before, after = (eta_y * times / K for times in (early, late))
    gamma = theory.gamma(late) * after
    return Constants(
        float((theory.gamma(early) / before).max()),
        float((gamma / np.log(after)).max()),
        float((gamma / np.log(M * after)).max()),
    )


def lemma_6(M: int) -> float:
    """Return h(t) by its equation over h by solving its differential equation, where they differ most.

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 6 of the appendix.
    """
    theory = ScanAndSnap(M=M, K=1, eta_y=1.0)
    times = np.linspace(1, 4 * theory.accumulation_time, 50)
    solved = solve_ivp(
        lambda _, u: M / (M - 1 + np.exp(u)), (0, times[-1]), [0.0], "LSODA", times, rtol=1e-10, atol=1e-12
    )
    ratios = M * theory.h(times) / solved.y[0]
    return float(ratios[np.abs(ratios - 1).argmax()])


def correlation(task: SequenceClasses, steps: int = 60) -> Correlation:
    """Return how far classes are from the weak correlation that Assumption 2 asks for, and what follows all the same.

    F^T F = I + E; |lambda_1(E)| < 1 / K and K^2 << M are assumed. Eqn 9 then has xi > 0: the population's xi over
    steps, eta_Y = 10 eta_Z, says whether it is.

    Source: Tian et al. (2023), arXiv:2305.16380, Assumption 2.
    """
    f = torch.nn.functional.normalize(task.distribution(), dim=1)
    largest = torch.linalg.eigvalsh(f @ f.T - torch.eye(task.n_classes)).abs().max().item()
    _, *path = (competition(weights, task) for weights in population_ascent(task, 1.0, 0.1, steps))
    return Correlation(task.n_classes * largest, task.n_classes**2 / task.d_vocab, float(np.mean(np.array(path) > 0)))


def figure_orders() -> Result:
    """Draw the constants over the size of the vocabulary, and how far classes of the paper's data correlate."""
    figure, (left, right) = panels(2)
    found = {M: constants(M) for M in SIZES}
    names = {"early": "O(S) until t_0'", "late": "O(ln(S) / S) from t_0 on", "with_size": "O(ln(M S) / S) from t_0 on"}
    colours = ordered_colours(list(names))
    for name, label in names.items():
        left.semilogx(SIZES, [getattr(each, name) for each in found.values()], "o-", color=colours[name], label=label)
    finish(left, "K = 10, eta_Y = 0.5, S = eta_Y t / K", "largest gamma, over its order", "size M of the vocabulary")
    tasks = {"Syn-Small": syn_small(), **{f"Syn-Medium, K = {2 * n}": syn_medium(n) for n in (1, 3, 5, 10)}}
    data = {name: correlation(task) for name, task in tasks.items()}
    classes = [task.n_classes for task in tasks.values()]
    right.loglog(classes, [each.largest for each in data.values()], "o", color="#888888", label="K |lambda_1(E)|")
    right.axhline(1, color="#bbbbbb", linewidth=0.8, label="Assumption 2 below")
    finish(right, "the paper's own data", "K |lambda_1(E)|", "classes K")
    return Result(figure, table_of([*_constant_rows(found), *_data_rows(data)]))


def _constant_rows(found: dict[int, Constants]) -> list[dict[str, str]]:
    rows = []
    for M, each in found.items():
        rows += [
            number(f"Theorem 1: gamma over eta_Y t / K, until t_0', M = {M}", "O(1)", f"{each.early:.6f}"),
            number(f"Theorem 1: gamma over its late order as printed, M = {M}", "O(1)", f"{each.late:.2f}"),
            number(f"Lemma 9: gamma over its late order, M = {M}", "O(1)", f"{each.with_size:.2f}"),
            number(f"Lemma 6: h by its equation over the equation solved, M = {M}", "1", f"{lemma_6(M):.6f}"),
        ]
    return rows


def _data_rows(data: dict[str, Correlation]) -> list[dict[str, str]]:
    rows = []
    for name, each in data.items():
        rows += [
            number(f"Assumption 2: K times the largest eigenvalue of E, {name}", "below 1", f"{each.largest:.2f}"),
            number(f"Assumption 2: K^2 / M, {name}", "far below 1", f"{each.crowding:.2f}"),
            number(f"Eqn 9: share of steps at which xi is positive, {name}", "1", f"{each.competing:.3f}"),
        ]
    return rows
