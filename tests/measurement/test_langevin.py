"""Learning coefficients that are known: of quadratic, degenerate and singular losses."""

import math
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from stagewise.measurement._langevin import Coefficient, Sampler, local_learning_coefficient

pytest.importorskip("devinterp")

WITHIN = 0.10
"""Of the known value; the draws of a chain depend on each other, so that thousands are hundreds."""


def estimate(loss: Callable[[], Tensor], *parameters: Tensor, n: int = 1000, **settings: float | int) -> Coefficient:
    for parameter in parameters:
        parameter.requires_grad_()
    known = {"step_size": 0.1, "draws": 1500, "burn_in": 150, "chains": 3, "localization": 1.0}
    sampler = Sampler(**{**known, **settings})  # type: ignore[arg-type]
    return local_learning_coefficient(lambda draw: loss(), parameters, n, sampler)


def test_of_a_quadratic_it_is_half_the_number_of_parameters() -> None:
    weights = torch.zeros(12)
    found = estimate(lambda: weights.square().sum() / 2, weights)
    assert found.mean == pytest.approx(12 / 2, rel=WITHIN)
    assert found.interval is not None
    assert found.interval[0] < 6.15 < found.interval[1]  # 2.5 % too large by its step size, as its docstring says


def test_of_a_rank_deficient_linear_model_it_is_half_the_rank() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.linalg.qr(torch.randn(500, 4, generator=generator))[0] * 500**0.5
    inputs = inputs @ torch.linalg.qr(torch.randn(12, 4, generator=generator))[0].T  # of rank 4 in 12 dimensions
    weights = torch.randn(12, generator=generator)
    targets = inputs @ weights
    found = estimate(lambda: (inputs @ weights - targets).square().mean() / 2, weights)
    assert found.mean == pytest.approx(4 / 2, rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize("power", [2, 3])
def test_of_an_even_power_it_is_one_over_the_power(power: int) -> None:
    """L = w^2k has 1 / 2k at every temperature: it is homogeneous. So has a sum of ten ten times as much."""
    weights = torch.zeros(10)
    found = estimate(lambda: weights.pow(2 * power).sum(), weights, localization=0.0, draws=4000)
    assert found.mean == pytest.approx(10 / (2 * power), rel=WITHIN)


def reduced_rank(m: int, n: int, h: int, r: int) -> float:
    """Aoyagi and Watanabe (2005), Stochastic complexities of reduced rank regression, main theorem, case 1, even."""
    assert n + r <= m + h
    assert m + r <= n + h
    assert h + r <= m + n
    assert (m + h + n + r) % 2 == 0
    return (-((h + r) ** 2) - m**2 - n**2 + 2 * (h + r) * m + 2 * (h + r) * n + 2 * m * n) / 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden", "rank", "n"),
    [(3, 1, 10**4), *((*each, 10**5) for each in ((3, 1), (2, 0), (4, 2)))],
)
def test_of_reduced_rank_regression_it_is_what_is_known(hidden: int, rank: int, n: int) -> None:
    """Where the loss is flat to second order, weights walk (n beta)^(-1/4) far, in steps of (0.1 / n beta)^(1/2)."""
    size = 4
    first, second, truth = torch.zeros(hidden, size), torch.zeros(size, hidden), torch.zeros(size, size)
    for each in (first, second, truth):
        each.diagonal()[:rank] = 1
    known = reduced_rank(size, size, hidden, rank)
    assert known < hidden * size  # half the number of parameters
    loss = lambda: (second @ first - truth).square().sum() / 2  # noqa: E731
    burn_in = int(4 * math.sqrt(Sampler().temperature_of(n)) / 0.1)
    found = estimate(loss, first, second, n=n, draws=4 * burn_in, burn_in=burn_in, chains=2)
    assert found.mean == pytest.approx(known, rel=WITHIN)


@pytest.mark.slow
def test_what_a_mask_leaves_out_stays_and_does_not_count() -> None:
    weights = torch.zeros(12, requires_grad=True)
    mask = torch.arange(12) < 6
    seen = []

    def loss(draw: torch.Generator | None) -> Tensor:
        seen.append(weights.detach().clone())
        return weights.square().sum() / 2

    sampler = Sampler(step_size=0.1, draws=1500, burn_in=150, chains=3, localization=1.0)
    found = local_learning_coefficient(loss, [weights], 1000, sampler, [mask])
    assert found.mean == pytest.approx(6 / 2, rel=WITHIN)
    moved = torch.stack(seen)
    assert not moved[:, ~mask].any()
    assert moved[5:, mask].abs().amax(0).min() > 0


def test_the_parameters_and_the_random_numbers_of_others_are_as_they_were() -> None:
    weights = torch.randn(5)
    before, state = weights.clone(), torch.random.get_rng_state()
    one = estimate(lambda: weights.square().sum(), weights, draws=5)
    assert torch.equal(weights, before)
    assert weights.grad is None
    assert torch.equal(torch.random.get_rng_state(), state)
    again = estimate(lambda: weights.square().sum(), weights, draws=5)
    assert np.array_equal(one.chains, again.chains)
    assert len(set(one.chains)) == 3
    assert not np.array_equal(one.chains, estimate(lambda: weights.square().sum(), weights, draws=5, seed=9).chains)


def test_samples_are_drawn_by_the_seed() -> None:
    drawn: list[list[int]] = [[], []]
    for numbers in drawn:
        weights = torch.zeros(2, requires_grad=True)

        def loss(draw: torch.Generator | None, numbers: list[int] = numbers, weights: Tensor = weights) -> Tensor:
            if draw is not None:
                numbers.append(int(torch.randint(10**6, (1,), generator=draw)))
            return weights.square().sum()

        local_learning_coefficient(loss, [weights], 100, Sampler(draws=4, burn_in=1, chains=2, sequences=3))
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 10


@pytest.mark.slow
def test_chains_that_have_not_come_where_they_stay_drift() -> None:
    weights = torch.zeros(40)
    slow = estimate(lambda: weights.square().sum() / 2, weights, step_size=1e-3, draws=500, burn_in=0)
    weights = torch.zeros(40)
    settled = estimate(lambda: weights.square().sum() / 2, weights)
    assert slow.drift > 0.5 * slow.mean
    assert abs(settled.drift) < 0.1 * settled.mean


def test_a_step_too_large_is_refused() -> None:
    weights = torch.zeros(3)
    with pytest.raises(ValueError, match="a chain diverged: step_size = 5 is too large"):
        estimate(lambda: weights.square().sum() / 2, weights, step_size=5.0)


def test_a_chain_that_leaves_with_finite_losses_is_refused_too() -> None:
    """Of eight steps beyond the stable size: the loss is large by then, and finite."""
    weights = torch.zeros(3)
    with pytest.raises(ValueError, match="a chain diverged: step_size = 9 is too large"):
        estimate(lambda: weights.square().sum() / 2, weights, step_size=9.0, draws=4, burn_in=4)


def test_one_chain_has_no_interval_and_the_temperature_is_what_is_given() -> None:
    weights = torch.zeros(3)
    assert estimate(lambda: weights.square().sum(), weights, chains=1, draws=3).interval is None
    assert Sampler().temperature_of(1000) == pytest.approx(1000 / math.log(1000))
    assert Sampler(inverse_temperature=7.0).temperature_of(1000) == 7
    with pytest.raises(ValueError, match=r"Sampler\.draws: expected a whole number of at least 1, got 0"):
        Sampler(draws=0)


@pytest.mark.slow
def test_a_stronger_pull_brings_chains_to_rest_sooner() -> None:
    """In flat directions: a quadratic whose curvature is a hundredth of the pull."""
    drifts = []
    for localization in (1.0, 100.0):
        weights = torch.zeros(40)
        curvature = localization / 100 / Sampler().temperature_of(1000)
        found = estimate(
            lambda weights=weights, curvature=curvature: curvature * weights.square().sum() / 2,  # type: ignore[misc]
            weights,
            step_size=0.02,
            draws=400,
            burn_in=200,
            localization=localization,
        )
        drifts.append(found.drift / found.mean)
    assert drifts[0] > 2 * abs(drifts[1])


def test_without_devinterp_nothing_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "devinterp.optim", None)
    weights = torch.zeros(3)
    with pytest.raises(ImportError, match=r"pip install 'stagewise\[llc\]'"):
        estimate(lambda: weights.square().sum(), weights)
