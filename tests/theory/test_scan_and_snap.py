"""Scan and Snap's formulas against their differential equations, their limits, and the simulated model."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from stagewise.experiments.scan_and_snap.yz_model import Counts, attention, forward, step, zeros
from stagewise.tasks import syn_small
from stagewise.theory import scan_and_snap
from stagewise.theory.dynamics import predict
from stagewise.theory.scan_and_snap import ScanAndSnap, growth_bounds, growth_factor, relative_gain

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


def test_the_phase_transition_is_at_two_k_log_m_over_eta() -> None:
    assert PAPER.phase_transition_time == pytest.approx(2 * 10 * np.log(1000) / 0.5)


RECORDED = {100: 0.8838, 200: 0.3030, 400: 0.0848, 800: 0.0324, 1200: 0.0199}
"""Error of the simulated decoder after so many steps."""


@pytest.mark.parametrize("last", [400, pytest.param(1200, marks=pytest.mark.slow)])
def test_the_simulated_decoder_follows_h(last: int) -> None:
    # Check T8: attention frozen, classes disjoint, one population step a unit of time.
    counts = Counts(torch.eye(10, 1000)[None], torch.full((1, 10), 500), torch.arange(100, 110)[None])
    weights, error = zeros(1, 1000), {}
    for t in range(last + 1):
        if t in RECORDED:
            error[t] = 1 - forward(weights, counts)[0, range(10), range(100, 110)].exp().mean().item()
        weights.y.add_(step(weights, counts).ascent.y, alpha=0.5)
    assert error == pytest.approx({t: e for t, e in RECORDED.items() if t <= last}, rel=0.02)
    np.testing.assert_allclose(list(error.values()), PAPER.class_error(list(error)), rtol=0.02)


def population(rate_y: float, rate_z: float, until: float) -> tuple[float, np.ndarray, tuple[float, float]]:
    """Follow Syn-Small's population until chi reaches `until`: chi, r(t) / (r(0) chi) by token, Theorem 3's bounds."""
    task = syn_small()
    counts = Counts(task.distribution()[None], task.queries[None], task.labels[None])
    *others, dominant = task.distinct_tokens[0].tolist()
    weights, swept, chi = zeros(1, 34, torch.float64), 0.0, 1.0
    start = attention(weights.z, counts.context, counts.query)[0, 0]
    while chi < until:
        f = attention(weights.z, counts.context, counts.query)[0, 0]
        f = f / f.norm()
        residual = -forward(weights, counts)[0, 0].exp()
        residual[task.labels[0]] += 1
        g = weights.y[0] @ residual
        swept += rate_z * ((g[dominant] / f[dominant] - f @ g) / task.n_classes).item()  # xi, at the dominant token
        ascent = step(weights, counts).ascent
        weights.y.add_(ascent.y, alpha=rate_y)
        weights.z.add_(ascent.z, alpha=rate_z)
        chi = growth_factor(weights.z[0, task.queries[0], dominant].item(), 0.0).item()
    now = attention(weights.z, counts.context, counts.query)[0, 0]
    gains = [relative_gain(c[dominant].numpy(), c[others].numpy()) for c in (now, start)]
    lower, upper = growth_bounds(swept, (start / start.norm())[dominant].item())
    return chi, gains[0] / (gains[1] * chi), (float(lower), float(upper))


def test_gains_grow_by_the_growth_factor_where_the_decoder_is_quasi_static() -> None:
    # Check T9.
    chi, ratio, (lower, upper) = population(rate_y=4.0, rate_z=0.04, until=1.1)
    assert ratio == pytest.approx(1.0, abs=0.01)
    assert lower <= chi <= upper


def test_gains_fall_behind_the_growth_factor_where_both_rates_are_equal() -> None:
    # Check T9; the bounds of Eqn 12 hold all the same.
    chi, ratio, (lower, upper) = population(rate_y=0.2, rate_z=0.2, until=2.3)
    assert ratio.min() < 0.7
    assert ratio.max() < 1
    assert lower <= chi <= upper


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
    assert own == {"stagewise.table", "stagewise.theory.dynamics"}
    assert froms | plain <= {"numpy", "scipy", "stagewise", *sys.stdlib_module_names}


def test_the_predicted_loss_is_that_of_the_closed_form() -> None:
    paper = ScanAndSnap(M=40, K=4, eta_y=2.0)
    steps = [0, 1, 10, 100, 1000]
    table = predict(paper, steps)
    assert set(table["probe"] + " " + table["quantity"]) == {"Loss cross_entropy"}
    np.testing.assert_allclose(table["value"], -np.log(1 - paper.class_error(np.array(steps))), rtol=1e-5)
    assert table["value"].iloc[0] == pytest.approx(np.log(40))
