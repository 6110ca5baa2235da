"""Long curves in stretches: means, how many each is of, and intervals up to the ends of stretches."""

import numpy as np

from stagewise.statistics._effects._pooling import Stretches

STEPS = np.arange(0.0, 5000.0, 5.0)
STRETCHES = Stretches.of(STEPS, 100)


def test_every_step_is_in_one_of_so_many_stretches_and_the_first_ones_are_short() -> None:
    assert len(STRETCHES.steps) <= 101
    assert STRETCHES.number.sum() == len(STEPS)
    assert (np.diff(STRETCHES.steps) > 0).all()
    assert STRETCHES.number[:3].max() < STRETCHES.number[-3:].max()


def test_means_are_those_of_the_values_of_a_stretch() -> None:
    values = np.random.default_rng(0).standard_normal((2, len(STEPS)))
    means = STRETCHES.means(values)
    for place in (0, 40, len(STRETCHES.steps) - 1):
        np.testing.assert_allclose(means[:, place], values[:, STRETCHES.place == place].mean(1))


def test_deviations_of_means_fall_with_the_root_of_their_number() -> None:
    relative = STRETCHES.relative
    assert relative
    np.testing.assert_allclose(relative[0] / relative[-1], np.sqrt(STRETCHES.number[-1] / STRETCHES.number[0]))


def test_an_interval_reaches_to_the_ends_of_the_stretches_that_it_lies_in() -> None:
    middle = np.log1p(STRETCHES.steps[60])
    (time, lo, hi) = STRETCHES.whole(np.array([[middle, middle - 1e-6, middle + 1e-6]]))[0]
    assert time == middle
    assert lo <= np.log1p(STRETCHES.first[60])
    assert hi >= np.log1p(STRETCHES.last[60])


def test_few_steps_are_stretches_of_one_each() -> None:
    of, values = Stretches.of(STEPS[:50], 100), np.random.default_rng(0).standard_normal((2, 50))
    assert of.relative is None
    np.testing.assert_array_equal(of.means(values), values)
    times = np.log1p([[100.0, 97.0, 103.0]])
    np.testing.assert_array_equal(of.whole(times), times)
