"""Curves: what a densified stretch adds is taken out again."""

import numpy as np
import pytest

from stagewise.schedules import linear, logarithmic
from stagewise.statistics import Curve
from stagewise.statistics._curve import thinned

SCHEDULES = {
    "linear": linear(15, 901),
    "log and linear": linear(15, 901) | logarithmic(6, 15),
    "log": logarithmic(10, 10_000) | {0},
}


def curve(steps: list[int]) -> Curve:
    return Curve(np.array(steps, float), np.log1p(steps), np.random.default_rng(0).standard_normal((3, len(steps))))


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_stays_as_it_is_and_what_a_densified_stretch_adds_is_taken_out(name: str) -> None:
    steps = sorted(SCHEDULES[name])
    assert thinned(curve(steps)).steps.tolist() == steps
    dense = thinned(curve(sorted({*steps, *range(100, 300, 3)}))).steps
    assert (np.diff(dense) >= 0.5 * np.maximum.accumulate(np.diff(dense)))[:-1].all()
    assert {*dense[dense < 100], *dense[dense >= 330]} == {step for step in steps if not 100 <= step < 330}


def test_resamples_are_taken_with_their_checkpoints() -> None:
    whole = curve([0, 1, 2, 3])
    part = whole.take([0, 3])
    assert part.steps.tolist() == [0, 3]
    assert part.resamples is not None
    assert whole.resamples is not None
    assert (part.resamples == whole.resamples[:, [0, 3]]).all()
