"""Uneven curves: what a densified stretch adds is taken out again, and its noise fades over steps."""

import numpy as np
import pandas as pd
import pytest

from stagewise.detection.turning_points import turn
from stagewise.detection.uneven import noise_like, thinned
from stagewise.plan import linear, logarithmic

SCHEDULES = {
    "linear": linear(15, 901),
    "log and linear": linear(15, 901) | logarithmic(6, 15),
    "log": logarithmic(10, 10_000) | {0},
}


def curve(steps: list[int], seed: int = 0, deviation: float = 0.01, fading: float = 4.0) -> pd.DataFrame:
    """A valley with its minimum at step 200, with noise that fades over a few steps."""
    every = np.arange(max(steps) + 1)
    noise = np.zeros(len(every))
    generator, kept = np.random.default_rng(seed), np.exp(-1 / fading)
    for i in range(1, len(every)):
        noise[i] = kept * noise[i - 1] + deviation * np.sqrt(1 - kept**2) * generator.standard_normal()
    values = np.log((every + 1) / 201) ** 2 + 0.2 + noise
    return pd.DataFrame({"step": steps, "value": values[steps]})


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_stays_as_it_is_and_what_a_densified_stretch_adds_is_taken_out(name: str) -> None:
    steps = sorted(SCHEDULES[name])
    assert thinned(curve(steps))["step"].tolist() == steps
    dense = thinned(curve(sorted({*steps, *range(100, 300, 3)})))["step"].to_numpy()
    assert (np.diff(dense) >= 0.5 * np.maximum.accumulate(np.diff(dense)))[:-1].all()
    assert {*dense[dense < 100], *dense[dense >= 330]} == {step for step in steps if not 100 <= step < 330}


def test_the_noise_of_draws_is_that_of_the_residuals() -> None:
    steps = np.sort(np.random.default_rng(1).choice(2000, 600, replace=False)).astype(float)
    one = curve(list(range(2001)), deviation=0.5)["value"].to_numpy()
    quiet = curve(list(range(2001)), deviation=0.0)["value"].to_numpy()
    residual = (one - quiet)[steps.astype(int)]
    draws = noise_like(steps, residual, 0, np.random.default_rng(2), 400)
    assert draws.std() == pytest.approx(residual.std(), rel=0.1)
    near = np.flatnonzero(np.diff(steps) == 2)
    correlation = (draws[:, near] * draws[:, near + 1]).mean() / draws.var()
    assert correlation == pytest.approx(np.exp(-2 / 4), abs=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_finer_checkpoints_narrow_the_interval_around_the_minimum(seed: int) -> None:
    coarse = sorted(linear(15, 901))
    wide = turn(curve(coarse, seed))
    narrow = turn(curve(sorted({*coarse, *range(60, 500, 3)}), seed))
    assert wide.lo <= 200 <= wide.hi
    assert narrow.lo - 3 <= 200 <= narrow.hi + 3
    assert narrow.hi - narrow.lo < 0.8 * (wide.hi - wide.lo)
    assert narrow.p_value < 0.01
