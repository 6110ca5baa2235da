"""Repetition across samples: its flow is gradient flow, and without repetition the flow of two variables."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from stagewise.papers.theory.cross_sample import CrossSampleRepetition
from stagewise.papers.theory.plateau_flow import hessian, plateau
from stagewise.papers.theory.sparse_attention import SparseAttention

SHARES = (0.0, 0.1, 0.2, 0.4)


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("state", [(0.0, 0.0, 0.0), (0.5, 2.0, 1.5), (1.0, 4.0, 8.0)])
def test_the_velocity_descends_the_loss(state: tuple[float, float, float], p: float) -> None:
    flow = CrossSampleRepetition(64, 16, p)
    slope = approx_fprime(state, flow.loss, 1e-7)
    assert flow.velocity(state) == pytest.approx((-slope).tolist(), abs=1e-7)


@pytest.mark.parametrize(("n_positions", "d"), [(256, 16), (512, 64)])
def test_without_repetition_it_is_the_flow_of_two_variables(n_positions: int, d: int) -> None:
    two, three = plateau(SparseAttention(n_positions, d)), plateau(CrossSampleRepetition(n_positions, d, 0.0))
    print(f"check 4: at p = 0 three variables take {three:.2f}, two {two:.2f}")
    assert three == pytest.approx(two, rel=1e-4)


def test_repetition_shortens_the_plateau_as_computed_independently() -> None:
    times = [plateau(CrossSampleRepetition(512, 64, p)) for p in SHARES]
    assert times == pytest.approx([5319, 4186, 2894, 1737], abs=2)


def test_one_exponent_fits_all_widths_and_shares() -> None:
    flows = [CrossSampleRepetition(4096, d, p) for p in SHARES for d in (16, 32, 64, 128, 256)]
    x, y = np.log([1 / flow.rate for flow in flows]), np.log([plateau(flow) for flow in flows])
    slope, r_squared = np.polyfit(x, y, 1)[0], np.corrcoef(x, y)[0, 1] ** 2
    print(f"check 4: x^{slope:.4f}, R2 {r_squared:.4f}")
    assert 1.00 <= slope <= 1.03
    assert r_squared > 0.99


def test_the_first_curvatures_are_zero_and_plus_and_minus_the_rate() -> None:
    flow = CrossSampleRepetition(512, 10_000, 0.2)
    curvatures = np.linalg.eigvalsh(hessian(flow, (0.0, 0.0, 0.0)))
    assert curvatures / flow.rate == pytest.approx([-1, 0, 1], abs=0.02)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.4, 1.0])
def test_the_linear_speed_up_is_that_of_the_first_curvatures(p: float) -> None:
    flow = CrossSampleRepetition(4096, 64, p)
    least, _, largest = np.linalg.eigvalsh(hessian(flow, (0.0, 0.0, 0.0)))
    assert np.sqrt(-least * largest) * np.sqrt(64) * 4096 == pytest.approx(flow.linear_speed_up, rel=1e-3)
    assert flow.linear_speed_up**2 - flow.speed_up**2 == pytest.approx(2 * p * (1 - p))


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_a_share_outside_zero_to_one_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match=f"between 0 and 1; got {p}"):
        CrossSampleRepetition(64, 16, p)


def test_in_one_dimension_the_special_vector_makes_no_difference() -> None:
    one = plateau(SparseAttention(64, 1))
    assert [plateau(CrossSampleRepetition(64, 1, p)) for p in (0.0, 0.5)] == pytest.approx([one, one], rel=1e-4)


@pytest.mark.parametrize(("n_positions", "d"), [(1, 4), (64, 0)])
def test_a_single_position_or_no_dimension_is_refused(n_positions: int, d: int) -> None:
    with pytest.raises(ValueError, match=f"at least 2.*d positive, got {n_positions} and {d}"):
        CrossSampleRepetition(n_positions, d)
