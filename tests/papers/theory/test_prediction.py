"""A theory's table overlays a measured one."""

import math

import numpy as np
import pytest

from stagewise import plot
from stagewise.papers.theory.dynamics import solve, states_at
from stagewise.papers.theory.plateau_flow import plateau
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.table import select

FLOW = SparseAttention(64, 16, n_copies=2)


def test_the_predicted_loss_crosses_its_threshold_at_the_plateaus_end() -> None:
    end = plateau(FLOW)
    table = solve(FLOW, [0, int(end), int(end) + 1])
    losses = select(table, "Loss", "squared_error")["value"].tolist()
    assert losses[0] == 0.5
    assert losses[1] > 0.1 > losses[2]


def test_all_copies_together_end_with_all_the_attention() -> None:
    mass = select(solve(FLOW, [0, 5000]), "AttentionTo", "mass", relation="relevant")["value"]
    w, gap = states_at(FLOW, [5000.0])[0]
    late = 2 / (2 + 62 * math.exp(-gap))
    assert mass.tolist() == pytest.approx([2 / 64, late])
    assert late * w == pytest.approx(math.sqrt(16), rel=0.01)  # what the outputs need


def test_a_rate_of_ten_is_ten_times_faster() -> None:
    slow, fast = solve(FLOW, [0, 1000]), solve(FLOW, [0, 100], rate=10.0)
    assert slow["value"].tolist() == pytest.approx(fast["value"].tolist())


def test_it_is_drawn_over_a_measured_loss() -> None:
    table = solve(FLOW, range(0, 400, 20), run="measured")
    ax = plot.loss_curve(table, theory=solve(FLOW, range(0, 400, 20)))
    measured, theory = (line.get_ydata() for line in ax.get_lines()[:2])
    assert np.asarray(measured).tolist() == np.asarray(theory).tolist()
