"""One transition on a finer grid: closer to the truth, wider where the noise or the batch is."""

import numpy as np
import pytest

from stagewise.statistics._constants import AFTER, BEFORE, WIDEST_IN_STEPS
from stagewise.statistics._noise.residual import KINDS, WHITE
from stagewise.statistics._refinement import ABRUPT, Context, Patch, Refined, around, closer, points, refine, resampled
from stagewise.statistics._scan import bases
from stagewise.statistics._shapes import IN_STEPS, RAMP, RAMP_IN_STEPS, Shapes

STEPS = np.geomspace(1, 3000, 50)
BASIS = bases(tuple(STEPS.tolist()))
TRUE = Shapes(np.array([np.log1p(200.0)]), np.array([0.15]), np.array([0.0]))
START = TRUE._replace(middle=TRUE.middle + 0.15, width=TRUE.width * 2)
KIND = KINDS.index(WHITE)

COVERED = 0.85
"""Lower bound on how often a 95 % interval holds the truth: 90 draws of a 95 % event fall below it once in 10,000."""


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


@pytest.mark.slow
def test_noise_that_is_larger_at_the_transition_makes_wider_intervals() -> None:
    generator, near = np.random.default_rng(1), np.abs(BASIS.u - TRUE.middle[0]) < 0.6
    widths = []
    for level in (np.where(near, 0.06, 0.004), np.full(len(STEPS), 0.02)):
        draws = level * generator.standard_normal((12, len(STEPS)))
        curves = 0.1 + 0.6 * TRUE.at(BASIS.u) + draws
        fits = [refine(Context(curve, BASIS, np.empty((0, len(STEPS))), 1e-6), START, KIND) for curve in curves]
        widths.append(np.mean([np.ptp(one.quantiles(BASIS.u)[1, 1:]) for one in fits]))
    here, everywhere = widths
    assert here > 1.5 * everywhere


@pytest.mark.slow
def test_an_accuracy_of_few_answers_is_covered_though_its_noise_is_largest_half_way() -> None:
    generator, held = np.random.default_rng(0), []
    for _ in range(30):
        curve = generator.binomial(64, 0.02 + 0.96 * TRUE.at(BASIS.u)[0]) / 64
        times = refine(Context(curve, BASIS, np.empty((0, len(STEPS))), 1e-6), START, KIND).quantiles(BASIS.u)
        held += ((times[:, 1] <= TRUE.times()[0]) & (TRUE.times()[0] <= times[:, 2])).tolist()
    assert np.mean(held) >= COVERED


def test_a_logistic_in_the_step_is_covered_though_its_place_and_width_go_together() -> None:
    steps, generator, held = np.arange(150.0) * 20, np.random.default_rng(0), []
    basis, middle = bases(tuple(steps.tolist())), 0.3 * steps[-1]
    start = Shapes(np.log1p([middle * 1.1]), np.array([0.3]), np.array([0.0]))
    clean = 1 / (1 + np.exp(-(steps - middle) / (0.08 * steps[-1])))
    for _ in range(10):
        curve = clean + 0.02 * generator.standard_normal(len(steps))
        middles = refine(Context(curve, basis, np.empty((0, len(steps))), 1e-6), start, KIND).quantiles(basis.u)[1]
        held.append(middles[1] <= np.log1p(middle) <= middles[2])
    assert np.mean(held) >= COVERED


U = np.log1p(np.geomspace(1, 3000, 50))
SHAPE = Shapes(np.array([np.log1p(200.0)]), np.array([0.3]), np.array([0.0]))


@pytest.mark.parametrize("tail", [0.0, RAMP, IN_STEPS, RAMP_IN_STEPS, 2.0])
@pytest.mark.parametrize("width", [1e-4, 0.1, WIDEST_IN_STEPS])
def test_shapes_around_one_are_of_all_families_and_have_their_middles_within_the_run(tail: float, width: float) -> None:
    patches = around(Shapes(SHAPE.middle, np.array([width]), np.array([tail])), U)
    grid = points(patches, U)
    halves = grid.shapes.times()[:, 1]
    assert halves.min() >= U[BEFORE - 1]
    assert halves.max() <= U[-AFTER]
    assert [patch.tail for patch in patches] == [0.0, RAMP, IN_STEPS, RAMP_IN_STEPS, ABRUPT]
    assert set(grid.patch) == set(range(5))
    assert np.isfinite(grid.area).all()


def test_a_patch_closes_in_on_what_is_likely_and_on_its_neighbours() -> None:
    patches = around(SHAPE, U)
    grid = points(patches, U)
    near = (abs(grid.shapes.middle - SHAPE.middle) < 0.1) & (grid.patch == 0)
    weights = near / near.sum()
    first, *rest = closer(patches, grid, weights, 1, 0.0)
    assert first.places[0] < SHAPE.middle[0] - 0.1 < SHAPE.middle[0] + 0.1 < first.places[1]
    assert first.area < patches[0].area / 2
    assert rest == patches[1:]
    assert closer(patches, grid, weights, 1, 1e-4) == [first]


def test_a_patch_that_is_made_wider_stays_within_another() -> None:
    whole = Patch(0.0, (0.0, 4.0), (-1.0, 1.0))
    assert Patch(0.0, (1.0, 2.0), (-1.0, 0.0)).wider(2.0, whole) == Patch(0.0, (0.5, 2.5), (-1.0, 0.5))


def test_points_stand_for_equal_parts_of_their_patch_however_fine() -> None:
    patches = around(SHAPE, U)
    for finer in (1, 2, 4):
        grid = points(patches, U, finer)
        for number, patch in enumerate(patches):
            areas = np.exp(grid.area[grid.patch == number])
            assert patch.shapes(finer).number * areas == pytest.approx(patch.area)
