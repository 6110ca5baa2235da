"""Noise that fades over steps: drawn as it is, and minima of densified runs with it."""

import numpy as np
import pytest

from stagewise.schedules import linear
from stagewise.statistics import Curve, turning_point
from stagewise.statistics._fading import Fading, Stretch, noise_like


def noise_of(number: int, seed: int, deviation: float, fading: float) -> np.ndarray:
    """Noise at so many steps that fades over some of them."""
    noise = np.zeros(number)
    generator, kept = np.random.default_rng(seed), np.exp(-1 / fading)
    for i in range(1, number):
        noise[i] = kept * noise[i - 1] + deviation * np.sqrt(1 - kept**2) * generator.standard_normal()
    return noise


def curve(steps: list[int], seed: int = 0, deviation: float = 0.01, fading: float = 4.0) -> Curve:
    """A valley with its minimum at step 200, with noise that fades over a few steps."""
    every = np.arange(max(steps) + 1)
    values = np.log((every + 1) / 201) ** 2 + 0.2 + noise_of(len(every), seed, deviation, fading)
    return Curve(np.array(steps, float), values[steps])


def test_the_noise_of_draws_is_that_of_the_residuals() -> None:
    steps = np.sort(np.random.default_rng(1).choice(2000, 600, replace=False)).astype(float)
    one = curve(list(range(2001)), deviation=0.5).values
    quiet = curve(list(range(2001)), deviation=0.0).values
    residual = (one - quiet)[steps.astype(int)]
    draws = noise_like(Stretch(steps, residual, np.ones((600, 1))), None, np.random.default_rng(2), 100)
    assert draws.std() == pytest.approx(residual.std(), rel=0.1)
    near = np.flatnonzero(np.diff(steps) == 2)
    correlation = (draws[:, near] * draws[:, near + 1]).mean() / draws.var()
    assert correlation == pytest.approx(np.exp(-2 / 4), abs=0.1)


@pytest.mark.parametrize("kind", [Fading(8.0, 3.0, True), Fading(8.0, 0.0, True), Fading(4.0, 2.0, False)])
def test_noise_that_swings_is_drawn_so(kind: Fading) -> None:
    steps = np.arange(0.0, 600.0, 3.0)
    factor = np.linalg.cholesky(kind.correlations(steps))
    noise = factor @ np.random.default_rng(0).standard_normal((len(steps), 3))
    first, *others = (Stretch(steps, values, np.ones((len(steps), 1))) for values in noise.T)
    draws = noise_like(first, others[0], np.random.default_rng(1), 200)
    for distance in (1, 3, 6):
        correlation = (draws[:, distance:] * draws[:, :-distance]).mean() / draws.var()
        assert correlation == pytest.approx(kind.correlations(steps)[0, distance], abs=0.15)


def test_an_exact_curve_has_hardly_any_noise() -> None:
    steps = np.arange(0.0, 40.0, 2.0)
    draws = noise_like(Stretch(steps, 3 - steps, np.vander(steps, 3)), None, np.random.default_rng(0), 50)
    assert np.abs(draws).max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("fading", [0.3, 15.0])
def test_the_minimum_of_a_densified_curve_lies_in_its_interval(fading: float) -> None:
    every = np.log1p(np.arange(901))
    first, second, third = (1 / (1 + np.exp((np.log1p(at) - every) / 0.1)) for at in (40, 200, 450))
    shape, steps = 2.7 - 1.7 * first - 0.7 * second + 0.4 * third, sorted({*linear(15, 901), *range(256, 361, 3)})
    truth, turns = 200 + int(shape[200:450].argmin()), []
    for seed in range(30):
        values = shape + noise_of(901, seed, 0.005, fading)
        turns.append(turning_point(Curve(np.array(steps, float), values[steps])))
    assert sum(one.lo <= truth <= one.hi for one in turns) >= 27


def test_finer_checkpoints_narrow_the_interval_around_the_minimum() -> None:
    # Noise that fades within a step: of slower noise every fifteenth step tells almost as much as all of them.
    coarse, widths = sorted(linear(15, 901)), []
    for seed in range(3):
        wide = turning_point(curve(coarse, seed, fading=0.3))
        narrow = turning_point(curve(sorted({*coarse, *range(60, 500, 3)}), seed, fading=0.3))
        assert wide.lo <= 200 <= wide.hi
        assert narrow.lo <= 200 <= narrow.hi
        assert narrow.p_value < 0.01
        widths.append((narrow.hi - narrow.lo, wide.hi - wide.lo))
    finer, coarser = np.sum(widths, axis=0)
    assert finer < 0.5 * coarser
