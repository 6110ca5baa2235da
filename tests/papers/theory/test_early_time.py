"""The closed forms against the flows that they approximate."""

import math

import numpy as np
import pytest

from stagewise.papers.theory.cross_sample import CrossSampleRepetition
from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.early_time import blow_up_share, blow_up_time, linearised, linearised_plateau
from stagewise.papers.theory.plateau_flow import AbstractPlateauFlow, plateau
from stagewise.papers.theory.sparse_attention import SparseAttention

FLOWS = [
    *(SparseAttention(T, d) for T in (256, 4096) for d in (16, 64, 256)),
    *(SparseAttention(4096, d, B) for B in (2, 16) for d in (16, 256)),
    *(CrossSampleRepetition(4096, d, p) for p in (0.1, 0.2, 0.4) for d in (16, 256)),
]


def test_the_linearised_flow_holds_for_half_a_unit() -> None:
    flow = SparseAttention(512, 64)
    times = np.linspace(0.05, 0.5, 10) / flow.rate
    states = states_at(flow, times)
    predicted = [linearised(time, flow.rate).w for time in times.tolist()]
    print(f"check 6: w over sinh(rate t) at rate t = .5: {states[-1, 0] / predicted[-1]:.4f}")
    assert states[:, 0] == pytest.approx(predicted, rel=0.03)


def test_the_linearised_loss_is_the_loss_early_on() -> None:
    flow = SparseAttention(512, 64)
    states = states_at(flow, [0.3 / flow.rate])
    lost, predicted = 0.5 - flow.loss(states[0].tolist()), 0.5 - linearised(0.3 / flow.rate, flow.rate).loss
    assert lost == pytest.approx(predicted, rel=0.05)


@pytest.mark.parametrize("flow", FLOWS, ids=repr)
def test_the_plateau_ends_at_the_blow_up(flow: AbstractPlateauFlow) -> None:
    ratio = plateau(flow) / flow.time_scale
    print(f"check 5: {flow}: plateau over closed form {ratio:.3f}")
    assert 0.92 <= ratio <= 1.07


def test_the_blow_up_is_exact_in_the_limit_of_long_sequences_of_wide_tokens() -> None:
    flow = SparseAttention(10_000_000, 100_000)
    assert plateau(flow) * flow.rate == pytest.approx(math.sqrt(math.pi / 2), abs=0.001)
    assert blow_up_time(flow.rate) == pytest.approx(math.sqrt(math.pi / 2) * 1e7 * math.sqrt(1e5))


def test_the_linearised_plateau_is_more_than_three_times_too_long() -> None:
    flow = SparseAttention(512, 64)
    assert linearised_plateau(flow.rate) / plateau(flow) == pytest.approx(3.38, abs=0.01)


def test_a_share_outside_zero_to_one_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1, got 1"):
        linearised_plateau(0.1, share=1.0)


def test_the_flow_has_each_gap_at_its_share_of_the_blow_up_in_that_limit() -> None:
    flow = SparseAttention(10_000_000, 100_000)
    gaps = np.array([0.01, 0.1, 0.5, 2.0])
    times = blow_up_share(gaps) * blow_up_time(flow.rate)
    assert states_at(flow, times)[:, 1] == pytest.approx(gaps, rel=0.01)
