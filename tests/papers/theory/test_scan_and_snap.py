"""Scan and Snap's formulas against their differential equations, their limits, and the simulated model."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from stagewise.papers.scan_and_snap._theorems import decoder_errors
from stagewise.papers.theory import scan_and_snap
from stagewise.papers.theory.dynamics import solve
from stagewise.papers.theory.scan_and_snap import (
    ScanAndSnap,
    common_velocity,
    distinct_velocity,
    growth_bounds,
    growth_factor,
    relative_gain,
)

ODE = 1e-6
"""Relative accuracy of the numerical integration."""

PAPER = ScanAndSnap(M=1000, K=10, eta_y=0.5, eta_z=0.5)
SMALL = ScanAndSnap(M=34, K=2, eta_y=1.0, eta_z=3.0, C_0=0.2)
both = pytest.mark.parametrize("theory", [PAPER, SMALL], ids=["paper", "small"])


def integrate(slope: Callable[[float, np.ndarray], np.ndarray], times: np.ndarray) -> np.ndarray:
    solved = solve_ivp(slope, (0, times[-1]), [0.0], t_eval=times, rtol=1e-9, atol=1e-14, method="LSODA")
    return np.asarray(solved.y[0])


@both
def test_h_solves_its_equation(theory: ScanAndSnap) -> None:
    times = np.array([0.01, 1, 10, 30, 100, 1000])
    h = integrate(lambda _, h: theory.eta_y / (theory.M - 1 + np.exp(theory.M * h)), times)
    np.testing.assert_allclose(theory.h(times), h, rtol=ODE)


@both
def test_h_starts_as_a_line_and_has_all_its_digits_there(theory: ScanAndSnap) -> None:
    assert theory.h(0.0) == 0
    assert theory.h(1e-9) == pytest.approx(theory.eta_y * 1e-9 / theory.M, rel=1e-7)


@both
def test_the_growth_integral_solves_equation_13(theory: ScanAndSnap) -> None:
    times = np.geomspace(0.1, 2000, 9)
    slope = lambda t, b: theory.eta_z * theory.gamma(t) * np.exp(-4 * b) / theory.C_0  # noqa: E731
    np.testing.assert_allclose(theory.growth_integral(times), integrate(slope, times), rtol=1e-5)


def test_growth_at_700_steps_is_that_of_the_formula_with_c_0_equal_to_one() -> None:
    upper = [ScanAndSnap(1000, 10, eta, 0.5).growth_bounds(700, f=0.5)[1].item() for eta in (0.5, 1.0, 2.0, 5.0)]
    assert upper == pytest.approx([45.2, 34.7, 26.3, 18.0], abs=0.05)


def test_gamma_rises_as_a_line_and_falls_after_the_phase_transition() -> None:
    early = np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(PAPER.gamma(early), PAPER.eta_y * early / PAPER.K, rtol=0.05)
    peak = np.arange(1, 2000)[PAPER.gamma(np.arange(1, 2000)).argmax()]
    assert PAPER.accumulation_time / 2 < peak < PAPER.phase_transition_time
    late = PAPER.phase_transition_time * np.array([200, 2000])
    expected = PAPER.K * np.log(PAPER.eta_y * late / PAPER.K * PAPER.M) / (PAPER.eta_y * late)
    np.testing.assert_allclose(PAPER.gamma(late), expected, rtol=0.01)


@both
def test_the_critical_point_is_approached_as_one_over_t_from_above(theory: ScanAndSnap) -> None:
    late = theory.phase_transition_time * np.array([10, 100, 1000, 10_000])
    over = theory.class_error(late) / theory.late_class_error(late)
    assert (np.diff(over) < 0).all()
    assert over[-1] == pytest.approx(1, abs=1e-3)
    assert over[-1] > 1


@both
def test_gamma_stays_within_its_bound_and_reaches_it_early_and_late(theory: ScanAndSnap) -> None:
    times = np.geomspace(1e-3, 1e5, 400) * theory.phase_transition_time
    share = theory.gamma(times) / theory.gamma_bound(times)
    assert (share < 1).all()
    assert share[0] == pytest.approx((1 - 1 / theory.M) ** 2, rel=0.01)
    assert share[-1] == pytest.approx(1, abs=1e-3)


def test_the_phase_transition_is_at_two_k_log_m_over_eta() -> None:
    assert PAPER.phase_transition_time == pytest.approx(2 * 10 * np.log(1000) / 0.5)


@pytest.mark.slow
def test_the_simulated_decoder_follows_h_for_long() -> None:
    # Check T8: attention frozen, classes disjoint, one population step a unit of time.
    recorded = {800: 0.0324, 1200: 0.0199}
    errors = decoder_errors(tuple(recorded))
    assert errors == pytest.approx(recorded, rel=0.02)
    np.testing.assert_allclose(list(errors.values()), PAPER.class_error(list(errors)), rtol=0.02)


def test_distinct_and_common_tokens_move_as_theorem_2_says() -> None:
    # One common token (0), two distinct ones a class; g as in Theorem 1 with arbitrary gamma, iota and beta.
    generator = np.random.default_rng(0)
    f = np.zeros((3, 7))
    for n in range(3):
        f[n, [0, 1 + 2 * n, 2 + 2 * n]] = generator.uniform(0.2, 1, 3)
        f[n] /= np.linalg.norm(f[n])
    gamma, iota, beta = 0.7, generator.uniform(size=3), generator.uniform(size=(3, 3)) * (1 - np.eye(3))
    g = gamma * (iota[:, None] * f - beta @ f)
    moves = f * (g - f * (f * g).sum(1, keepdims=True))  # Lemma 1, exact
    xi = gamma * (beta * (f @ f.T)).sum(1)
    assert (xi > 0).all()
    for n, own in enumerate(moves):
        distinct = [1 + 2 * n, 2 + 2 * n]
        np.testing.assert_allclose(own[distinct], distinct_velocity(f[n, distinct], xi[n]))
    assert moves[:, 0].sum() == pytest.approx(common_velocity(f[:, 0], xi))


def test_growth_and_gain_are_one_and_none_at_the_start() -> None:
    assert growth_factor(0.3, 0.3) == 1
    assert growth_factor(np.log(3) / 2, 0.0) == pytest.approx(3)
    assert relative_gain(0.1, 0.1) == 0
    lower, upper = growth_bounds(0.7, 0.5)
    assert (lower, upper) == pytest.approx((np.exp(0.35), np.exp(1.4)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"M": 1}, "at least two tokens and a class, got M=1"),
        ({"K": 0}, "K=0"),
        ({"eta_y": 0.0}, r"eta_y must be positive, got 0\.0"),
        ({"C_0": -1.0}, "C_0 must be positive"),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScanAndSnap(**{"M": 10, "K": 2, "eta_y": 1.0, **changes})


def test_an_entry_of_a_unit_vector_is_at_most_one() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        growth_bounds(1.0, 1.5)


def test_the_theory_needs_numpy_and_scipy_alone() -> None:
    tree = ast.parse(Path(scan_and_snap.__file__).read_text(encoding="utf8"))
    froms = {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    plain = {
        alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    own = {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) if "stagewise" in str(node.module)
    }
    assert own == {"stagewise.table", "stagewise.papers.theory.dynamics"}
    assert froms | plain <= {"numpy", "scipy", "stagewise", *sys.stdlib_module_names}


def test_predicted_loss_and_growth_are_those_of_the_closed_forms() -> None:
    paper = ScanAndSnap(M=40, K=4, eta_y=2.0)
    steps = [0, 1, 10, 100, 1000]
    table = solve(paper, steps)
    loss, growth = (table[table["probe"] == probe]["value"] for probe in ("Loss", "GrowthFactor"))
    np.testing.assert_allclose(loss, -np.log(1 - paper.class_error(np.array(steps))), rtol=1e-5)
    assert loss.iloc[0] == pytest.approx(np.log(40))
    np.testing.assert_allclose(growth, growth_bounds(paper.growth_integral(np.array(steps)), 1.0)[1], rtol=1e-4)
