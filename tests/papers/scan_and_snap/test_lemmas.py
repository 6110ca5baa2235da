"""Lemmas 3 to 9 beside other ways to the same numbers."""

import numpy as np
import pytest
from scipy.optimize import brentq

from stagewise.papers.scan_and_snap._lemmas import by_steps, gap, lemma_3, lemma_4, lemma_5, roots, stages
from stagewise.papers.theory.scan_and_snap import ScanAndSnap

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize("seed", range(3))
def test_velocities_are_those_of_the_gradient(seed: int) -> None:
    assert lemma_3(seed) == pytest.approx(0, abs=1e-13)
    assert lemma_4(seed, h=0.02 * (1 + seed)) == pytest.approx(0, abs=1e-13)


def test_descent_follows_its_recursion() -> None:
    assert lemma_5(eta=1.0, steps=30) == pytest.approx(0, abs=1e-12)


def test_the_first_steps_are_by_hand() -> None:
    """h*(1) = eta / M, and h*(2) = h*(1) + eta / (M - 1 + e^eta)."""
    (h,) = by_steps(10, [0.5], 2)
    assert h.tolist() == pytest.approx([0, 0.05, 0.05 + 0.5 / (9 + np.exp(0.5))])


def test_steps_are_ahead_of_the_flow_and_come_back_to_it() -> None:
    (h,) = by_steps(50, [1.0], 2000)
    ahead = gap(50, h, 1.0)
    assert ahead.least >= 0
    assert ahead.most <= 2
    assert ahead.at == sorted(ahead.at, reverse=True)
    theory = ScanAndSnap(M=50, K=1, eta_y=1.0)
    late = h[: int(theory.accumulation_time) + 1]
    assert (theory.h(np.arange(len(late)) + ahead.behind) >= late - 1e-12).all()


def test_roots_are_those_of_the_equation() -> None:
    for M in (100, 10_000):
        found, log = roots(M), np.log(M)
        high = brentq(lambda u, M=M: u - np.log((M - 1) * u), 2, 50)
        assert 1 + found.omega_1 * np.log(log) / log == pytest.approx(high / log)
        low = M ** (found.omega_0 / M**0.99 / log - 1)
        assert np.exp(low) == pytest.approx((M - 1) * low)
        assert found.holds == 1
        assert 0.5 < found.c < 2


def test_both_stages_hold_at_their_times_and_not_between() -> None:
    assert stages(1000).holds == (1.0, 1.0)
    theory = ScanAndSnap(M=1000, K=10, eta_y=0.5)
    u = 1000 * theory.h(1.5 * theory.accumulation_time / 10)
    assert np.exp(u) < 999 * u, "not yet the second"
