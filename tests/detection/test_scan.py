"""The scan for one more transition: its squares are those of a regression, its best fit is the planted one."""

import numpy as np
import pytest

from stagewise.detection.curve_noise import KINDS, Noise
from stagewise.detection.scan import bases, coefficients, design, floors, scanned, smooth_fits, transition_fits, whiten

STEPS = tuple(np.arange(0.0, 1200, 40).tolist())
BASIS = bases(STEPS)
GENERATOR = np.random.default_rng(0)


def test_the_squares_left_are_those_of_a_regression_on_all_columns() -> None:
    noise, other = Noise(0.4, 0.0), BASIS.transitions[[5]]
    curve, transitions = GENERATOR.standard_normal(len(STEPS)), BASIS.transitions[[20, 40]]
    columns = design(BASIS.coarse[:3], other)
    squares = scanned(curve[None], whiten(columns, noise), transitions)[0]
    for b in range(3):
        for s in range(2):
            stack = np.concatenate([columns[b], transitions[[s]]])
            residual = noise.whitened(curve - coefficients(curve, stack, noise) @ stack)
            assert squares[b, s] == pytest.approx((residual**2).sum())


def test_a_column_beside_the_others_is_as_if_it_had_been_there() -> None:
    noise, other = Noise(0.7, 1.2), BASIS.transitions[[9]]
    together = whiten(design(BASIS.coarse[:3], other), noise)
    later = whiten(design(BASIS.coarse[:3], other[:0]), noise).beside(other)
    assert np.abs(later.columns) == pytest.approx(np.abs(together.columns), abs=1e-9)


def test_a_planted_transition_is_the_best_fit_and_a_smooth_curve_needs_none() -> None:
    noise = 0.01 * GENERATOR.standard_normal((2, len(STEPS)))
    curves = np.array([0.6 * BASIS.transitions[30], 0.5 * BASIS.coarse[4]]) + noise
    null = smooth_fits(curves, BASIS, floors(curves))
    one = transition_fits(curves, BASIS, floors(curves), null.kind)
    gain = one.likelihood - null.likelihood
    assert gain[0] > 20 > gain[1]
    halves = BASIS.shapes.times()[:, 1]
    assert halves[one.shape[0]] == pytest.approx(halves[30], abs=0.1)
    assert one.correlation.tolist() == [KINDS[kind].correlation for kind in one.kind]
