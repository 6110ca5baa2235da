"""A flow followed over time, against its own equations and the published sizes."""

import math

import numpy as np
import pytest

from stagewise.papers.theory.cross_sample import CrossSampleRepetition
from stagewise.papers.theory.plateau_flow import plateau
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.papers.theory.trajectories import curvature, first_time, follow, landscape

FLOW = SparseAttention(512, 64)
PATH = follow(FLOW, np.linspace(0, 7000, 1401))


def test_weights_grow_before_attention_does_and_both_before_the_loss_falls() -> None:
    times = PATH["time"].to_numpy()
    moments = [
        first_time(times, PATH["w"].to_numpy(), 1.0),
        first_time(times, PATH["attention"].to_numpy(), 2 / 512),
        first_time(times, -PATH["test_loss"].to_numpy(), -0.1),
    ]
    read_at_a_solvers_steps = [3659, 4000]
    assert moments[:2] == pytest.approx(read_at_a_solvers_steps, rel=4e-3)
    assert moments[2] == pytest.approx(plateau(FLOW), rel=2e-4)


def test_the_weights_overshoot_their_target_and_come_back() -> None:
    assert PATH["w"].max() == pytest.approx(8.316, abs=0.01)
    assert math.sqrt(64) < PATH["w"].iloc[-1] < PATH["w"].max()


def test_the_landscape_is_sharpest_where_the_loss_falls() -> None:
    near = follow(FLOW, np.linspace(5200, 5400, 101))
    largest = curvature(FLOW, near)[:, -1]
    assert near["time"][largest.argmax()] == pytest.approx(plateau(FLOW), rel=0.01)
    start = curvature(FLOW, PATH.iloc[:1])[0]
    assert start == pytest.approx([-FLOW.rate, FLOW.rate], rel=0.07)


def test_a_landscape_is_the_loss_at_every_pair() -> None:
    losses = landscape(FLOW, np.array([0.0, 1.0]), np.array([0.0, 2.0, 4.0]))
    assert losses.shape == (3, 2)
    assert losses[2, 1] == FLOW.loss((1.0, 4.0))
    with pytest.raises(ValueError, match=r"two variables, this flow has w~, w, Da"):
        landscape(CrossSampleRepetition(16, 4), np.zeros(1), np.zeros(1))


@pytest.mark.parametrize(("level", "time"), [(0.0, 0.0), (1.5, 0.75), (2.0, 1.0), (5.0, math.inf)])
def test_a_level_is_reached_between_two_times(level: float, time: float) -> None:
    assert first_time(np.array([0.0, 1.0, 2.0]), np.array([0.0, 2.0, 1.0]), level) == time
