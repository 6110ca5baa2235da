"""The scan for one more transition: its squares are those of a regression, its best fit is the planted one."""

import numpy as np
import pytest

from stagewise.statistics import Noise
from stagewise.statistics._noise.residual import KINDS, log_likelihood
from stagewise.statistics._scan import (
    Scan,
    Target,
    bases,
    coefficients,
    design,
    smooth_fit,
    transition_fit,
    whiten,
)

STEPS = tuple(np.arange(0.0, 1200, 40).tolist())
BASIS = bases(STEPS)
GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("exponent", [None, 0.0, 1.0])
def test_the_squares_left_are_those_of_a_regression_on_all_columns(exponent: float | None) -> None:
    noise, other = Noise(0.4, 0.0), BASIS.transitions[[5]]
    curve, transitions = GENERATOR.standard_normal(len(STEPS)), BASIS.transitions[[20, 40]]
    growths = BASIS.shapes.take([20, 40]).growths(BASIS.u, exponent)
    squares = Scan(whiten(BASIS.coarse[:3], other, noise), noise.whitened(transitions), growths).squares(curve)
    for b in range(3):
        for s in range(2):
            begins = other[:0] if growths is None else growths[[s]]
            stack = np.concatenate([design(BASIS.coarse[b], other), begins, transitions[[s]]])
            residual = noise.whitened(curve - coefficients(curve, stack, noise) @ stack)
            assert squares[b, s] == pytest.approx((residual**2).sum())


def test_the_grids_fit_beside_others_is_that_of_a_scan_of_all_its_transitions() -> None:
    others, target = BASIS.transitions[[9, 33]], Target.of(GENERATOR.standard_normal(len(STEPS)), BASIS)
    fit = transition_fit(target, Noise(0.7, 1.2), others)
    scan = Scan(whiten(BASIS.coarse, others, fit.noise), fit.noise.whitened(BASIS.transitions))
    squares = scan.squares(target.curve) + target.floor
    likelihood = log_likelihood(squares, len(STEPS), fit.noise.correlation)
    assert fit.likelihood == pytest.approx(likelihood.max())
    assert likelihood[fit.background, fit.shape] == pytest.approx(likelihood.max())


def test_a_background_or_transition_that_is_there_already_explains_no_more() -> None:
    other = BASIS.transitions[[9]]
    columns = whiten(np.concatenate([BASIS.coarse[:2], other]), other, KINDS[0])
    assert (columns.own[2] == 0).all()
    curve = GENERATOR.standard_normal(len(STEPS))
    squares = Scan(columns, KINDS[0].whitened(BASIS.transitions[[9, 30]])).squares(curve)
    assert squares[:, 0] == pytest.approx(columns.remaining(KINDS[0].whitened(curve)))
    assert (squares[:2, 1] < squares[:2, 0]).all()


def test_a_planted_transition_is_the_best_fit_and_a_smooth_curve_needs_none() -> None:
    noise = 0.01 * GENERATOR.standard_normal((2, len(STEPS)))
    curves = np.array([0.6 * BASIS.transitions[30], 0.5 * BASIS.coarse[4]]) + noise
    targets, none = [Target.of(curve, BASIS) for curve in curves], np.empty((0, len(STEPS)))
    null = [smooth_fit(target, none) for target in targets]
    one = [transition_fit(target, fit.noise, none) for target, fit in zip(targets, null, strict=True)]
    gain = [fit.likelihood - without.likelihood for fit, without in zip(one, null, strict=True)]
    assert gain[0] > 20 > gain[1]
    halves = BASIS.shapes.times()[:, 1]
    assert halves[one[0].shape] == pytest.approx(halves[30], abs=0.1)


def test_a_thinned_grid_shares_the_transitions_of_the_whole() -> None:
    whole, thin = bases(STEPS), bases(STEPS, 3)
    assert thin.transitions is whole.transitions is bases(STEPS, 1).transitions
    assert thin.coarse.tolist() == whole.coarse[::3].tolist()
    np.testing.assert_array_equal(whole.transitions, whole.shapes.at(whole.u))
