"""One transition on a finer grid: closer to the truth, wider where the noise or the batch is."""

import numpy as np
import pytest

from stagewise.detection.curve_noise import KINDS, WHITE
from stagewise.detection.refinement import Context, Refined, around, refine, resampled
from stagewise.detection.scan import bases
from stagewise.detection.shapes import Shapes

STEPS = np.geomspace(1, 3000, 50)
BASIS = bases(tuple(STEPS.tolist()))
TRUE = Shapes(np.array([np.log1p(200.0)]), np.array([0.15]), np.array([0.0]))
START = TRUE._replace(middle=TRUE.middle + 0.15, width=TRUE.width * 2)
KIND = KINDS.index(WHITE)


def context(noise: float) -> Context:
    draws = noise * np.random.default_rng(0).standard_normal(len(STEPS))
    return Context(0.1 + 0.6 * TRUE.at(BASIS.u)[0] + draws, BASIS, np.empty((0, len(STEPS))), 1e-6)


def refined(noise: float) -> Refined:
    return refine(context(noise), START, KIND)


def test_the_best_shape_is_close_to_the_planted_one_and_the_weights_sum_to_one() -> None:
    fit = refined(0.01)
    assert fit.best.times()[0] == pytest.approx(TRUE.times()[0], abs=0.05)
    assert fit.weights.sum() == pytest.approx(1)


def test_more_noise_makes_wider_intervals_that_hold_the_truth() -> None:
    sharp, blurred = (refined(noise).quantiles(BASIS.u) for noise in (0.005, 0.05))
    for times in (sharp, blurred):
        assert (times[:, 1] <= TRUE.times()[0]).all()
        assert (times[:, 2] >= TRUE.times()[0]).all()
    assert (np.diff(blurred[:, 1:]) > np.diff(sharp[:, 1:])).all()


def test_resamples_that_move_the_transition_move_its_times() -> None:
    fit = refined(0.005)
    moved = [TRUE._replace(middle=TRUE.middle + shift).at(BASIS.u)[0] for shift in (-0.05, 0.05)]
    shifts = resampled(context(0.005), fit, KIND, 0.1 + 0.6 * np.array(moved))
    assert shifts[1, 1] - shifts[0, 1] == pytest.approx(0.1, abs=0.06)
    assert np.ptp(fit.quantiles(BASIS.u, shifts)[1, 1:]) > np.ptp(fit.quantiles(BASIS.u)[1, 1:])


def test_shapes_around_one_have_their_middles_within_the_run() -> None:
    halves = around(START, BASIS.u, 3.0).times()[:, 1]
    assert halves.min() >= BASIS.u[1]
    assert halves.max() <= BASIS.u[-3]
