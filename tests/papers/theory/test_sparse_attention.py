"""The reduced flow against the published numbers, its own loss, and gradient descent on all parameters."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime

from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.plateau_flow import hessian, plateau, plateau_of_descent
from stagewise.papers.theory.sparse_attention import SparseAttention

LENGTHS = (256, 512, 1024, 2048, 4096)
WIDTHS = (16, 32, 64, 128, 256)
COPIES = (1, 2, 4, 8, 16)


def fit(times: list[float], *columns: list[float]) -> tuple[float, list[float], float]:
    """Least squares on logarithms: constant, exponents, R^2."""
    design = np.column_stack([np.ones(len(times)), *(np.log(column) for column in columns)])
    target = np.log(times)
    solved, *_ = np.linalg.lstsq(design, target, rcond=None)
    residual = target - design @ solved
    return float(np.exp(solved[0])), solved[1:].tolist(), 1 - residual.var() / target.var()


def full_descent(n_positions: int, d: int, n_copies: int, rate: float) -> float:
    """The plateau of gradient descent on all T logits and d x d weights, on the population loss; no reduction."""
    target = torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(0))).Q
    logits = torch.zeros(n_positions, requires_grad=True)
    weights = torch.zeros(d, d, requires_grad=True)
    for step in range(100_000):
        attention = logits.softmax(0)
        seen = attention[-n_copies:].sum()
        noise = (attention[:-n_copies] ** 2).sum() * (weights**2).sum()
        loss = (noise + ((seen * weights - target) ** 2).sum()) / (2 * d)
        if loss.item() <= 0.1:
            return rate * step
        slopes = torch.autograd.grad(loss, (logits, weights))
        with torch.no_grad():
            logits -= rate * slopes[0]
            weights -= rate * slopes[1]
    raise AssertionError("still on the plateau")


@pytest.mark.parametrize(
    ("n_positions", "d", "time", "tolerance"), [(512, 64, 5319, 5), (256, 64, 2695, 3), (256, 256, 5429, 5)]
)
def test_the_plateau_is_as_long_as_computed_independently(
    n_positions: int, d: int, time: float, tolerance: float
) -> None:
    found = plateau(SparseAttention(n_positions, d))
    print(f"check 1: T_plateau(T={n_positions}, d={d}) = {found:.1f}, computed independently {time} +- {tolerance}")
    assert found == pytest.approx(time, abs=tolerance)


@pytest.mark.parametrize("state", [(0.0, 0.0), (2.0, 1.5), (8.0, 9.0)])
@pytest.mark.parametrize("n_copies", [1, 4])
def test_the_velocity_descends_the_loss(state: tuple[float, float], n_copies: int) -> None:
    flow = SparseAttention(64, 16, n_copies)
    slope = approx_fprime(state, flow.loss, 1e-7)
    assert flow.velocity(state) == pytest.approx((-slope).tolist(), abs=1e-7)


def test_gradient_descent_at_rate_ten_gives_the_published_law_of_figure_1() -> None:
    runs = [(T, d, plateau_of_descent(SparseAttention(T, d), 10.0)) for T in LENGTHS for d in WIDTHS]
    lengths, widths, times = (list(map(float, column)) for column in zip(*runs, strict=True))
    constant, (of_length, of_width), r_squared = fit(times, lengths, widths)
    print(f"check 2: {constant:.3f} T^{of_length:.4f} d^{of_width:.4f}, R2 {r_squared:.6f}")
    assert 1.48 <= constant <= 1.54
    assert 0.98 <= of_length <= 0.995
    assert 0.48 <= of_width <= 0.50
    assert r_squared > 0.9995


def test_tied_logits_give_the_published_exponent_of_t_over_b() -> None:
    runs = [(4096 / B, d, plateau(SparseAttention(4096, d, B))) for B in COPIES for d in WIDTHS]
    ratios, widths, times = (list(map(float, column)) for column in zip(*runs, strict=True))
    _, (of_ratio, of_width), r_squared = fit(times, ratios, widths)
    print(f"check 3: tied logits, (T/B)^{of_ratio:.4f} d^{of_width:.4f}, R2 {r_squared:.6f}")
    assert 0.99 <= of_ratio <= 1.0
    assert 0.48 <= of_width <= 0.51
    assert r_squared > 0.9995


def test_separate_logits_give_an_exponent_of_minus_a_half() -> None:
    times = [plateau(SparseAttention(4096, 16, B, logits="free")) for B in COPIES]
    _, (exponent,), _ = fit(times, list(COPIES))
    print(f"check 3: separate logits, flow at T = 4096, B^{exponent:.3f}")
    assert exponent == pytest.approx(-0.5, abs=0.03)


@pytest.mark.slow
def test_gradient_descent_on_all_parameters_gives_minus_a_half_too() -> None:
    times = [full_descent(4096, 16, B, rate=10.0) for B in COPIES]
    _, (exponent,), _ = fit(times, list(COPIES))
    print(f"check 3: gradient descent on all parameters at T = 4096, B^{exponent:.3f}")
    assert exponent == pytest.approx(-0.5, abs=0.03)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("n_copies", [1, 2, 4, 8])
def test_gradient_descent_on_all_parameters_is_the_flow_of_free_logits(n_copies: int) -> None:
    flow = plateau(SparseAttention(128, 16, n_copies, logits="free"))
    assert full_descent(128, 16, n_copies, rate=1.0) == pytest.approx(flow, rel=0.01)


def test_the_first_curvatures_are_plus_and_minus_the_rate() -> None:
    low, high = np.linalg.eigvalsh(hessian(SparseAttention(512, 64), (0.0, 0.0)))
    rate = 1 / (math.sqrt(64) * 512)
    print(f"check 6: first curvatures over 1 / (sqrt(d) T): {low / rate:.4f}, {high / rate:.4f}")
    assert [-low, high] == pytest.approx([rate, rate], rel=0.07)


def test_weights_move_before_attention_before_the_loss() -> None:
    flow = SparseAttention(512, 64)
    times = np.arange(0, 12_000.0)
    states = states_at(flow, times)
    attention = np.array([flow.attention(state) for state in states.tolist()])
    losses = np.array([flow.loss(state) for state in states.tolist()])
    weights_at_one, attention_doubled, loss_fell = (
        float(times[np.argmax(reached)]) for reached in (states[:, 0] >= 1, attention >= 2 / 512, losses <= 0.25)
    )
    print(
        f"check 7: w = 1 at {weights_at_one:g}, attention doubled at {attention_doubled:g}, loss .25 at {loss_fell:g}"
    )
    assert (weights_at_one, attention_doubled) == pytest.approx((3659, 4000), abs=12)
    assert weights_at_one < attention_doubled < loss_fell


def test_the_weights_overshoot_and_come_back() -> None:
    states = states_at(SparseAttention(512, 64), np.arange(0, 20_000.0))
    w = states[:, 0]
    print(f"check 7: w is at most {w.max():.3f}, at {w.argmax()}, and {w[-1]:.3f} at the end; sqrt(d) = 8")
    assert w.max() == pytest.approx(8.316, abs=0.005)
    assert w.argmax() == pytest.approx(6009, abs=5)
    assert 8 < w[-1] < w.max()


def test_the_landscape_is_sharpest_where_the_loss_drops() -> None:
    flow = SparseAttention(512, 64)
    times = np.arange(4500, 6500.0)
    states = states_at(flow, times)
    sharpness = [np.linalg.eigvalsh(hessian(flow, state))[-1] for state in states.tolist()]
    print(f"check 7: sharpest at {times[np.argmax(sharpness)]:g}, plateau until {plateau(flow):.1f}")
    assert times[np.argmax(sharpness)] == pytest.approx(plateau(flow), rel=0.01)
    sharpest = torch.from_numpy(states[np.argmax(sharpness)])
    by_autograd = torch.autograd.functional.hessian(lambda state: _loss(state, 512, 64), sharpest)
    assert max(sharpness) == pytest.approx(torch.linalg.eigvalsh(by_autograd)[-1].item(), rel=1e-5)


def _loss(state: torch.Tensor, n_positions: int, d: int) -> torch.Tensor:
    w, gap = state
    alpha = 1 / (1 + (n_positions - 1) * torch.exp(-gap))
    loss: torch.Tensor = ((1 - alpha) ** 2 * w**2 / (d * (n_positions - 1)) + (alpha * w - d**0.5) ** 2 / d) / 2
    return loss


def test_at_equilibrium_the_weights_rest() -> None:
    flow = SparseAttention(512, 64, 4)
    gap = 6.0
    w = flow.equilibrium(flow.attention((0.0, gap)))
    assert flow.velocity((w, gap))[0] == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(("n_positions", "d", "n_copies"), [(4, 8, 4), (4, 8, 5), (4, 8, 0), (4, 0, 1), (1, 4, 1)])
def test_parameters_without_a_meaning_are_refused(n_positions: int, d: int, n_copies: int) -> None:
    with pytest.raises(ValueError, match=f"n_copies={n_copies}, n_positions={n_positions}"):
        SparseAttention(n_positions, d, n_copies)


def test_an_unknown_kind_of_logits_is_refused() -> None:
    with pytest.raises((ValueError, TypeError), match="logits"):
        SparseAttention(8, 8, 1, "loose")  # type: ignore[arg-type]
