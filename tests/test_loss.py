"""Losses and divergences against loops over probabilities."""

import math

import pytest
import torch

from stagewise.loss import (
    ScoredPredictions,
    cross_entropy,
    divergence,
    kl_divergence,
    mean_scored,
    prediction_loss,
)

FLOAT32 = 1e-6
"""Sums of a few float32 numbers of order one."""

P = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
Q = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(1)).log_softmax(-1)


def test_cross_entropy_is_minus_the_log_probability_of_the_target() -> None:
    targets = torch.randint(5, (3, 4), generator=torch.Generator().manual_seed(2))
    loss = cross_entropy(P, targets)
    for row in range(3):
        for position in range(4):
            assert loss[row, position] == -P[row, position, targets[row, position]]


def test_divergence_is_the_sum_over_tokens() -> None:
    divergence = kl_divergence(P, Q)
    for row in range(3):
        for position in range(4):
            pairs = zip(P[row, position].tolist(), Q[row, position].tolist(), strict=True)
            expected = sum(math.exp(p) * (p - q) for p, q in pairs)
            assert divergence[row, position].item() == pytest.approx(expected, abs=FLOAT32)


def test_divergence_is_zero_from_itself_and_positive_otherwise() -> None:
    assert kl_divergence(P, P).abs().max() < FLOAT32
    assert (kl_divergence(P, Q) > 0).all()


def test_divergence_of_certain_laws_is_finite_where_it_should_be() -> None:
    certain, half = torch.tensor([1.0, 0.0, 0.0]).log(), torch.tensor([0.5, 0.5, 0.0]).log()
    assert kl_divergence(certain, half).item() == pytest.approx(math.log(2), abs=FLOAT32)
    assert kl_divergence(half, half).item() == pytest.approx(0, abs=FLOAT32)
    assert kl_divergence(half, certain).item() == math.inf


def test_the_mean_is_over_the_scored_positions_of_each_sequence() -> None:
    values = torch.arange(24.0).view(2, 3, 4)
    scored = torch.tensor([[True, False, True, False], [False, False, False, True]])
    expected = [
        [(values[0, j, 0] + values[0, j, 2]) / 2 for j in range(3)],
        [values[1, j, 3] for j in range(3)],
    ]
    assert torch.equal(mean_scored(values, scored), torch.tensor(expected))


def test_what_is_not_scored_may_be_anything() -> None:
    values = torch.tensor([[1.0, math.nan, math.inf, 3.0]])
    assert mean_scored(values, torch.tensor([[True, False, False, True]])).tolist() == [2.0]


def test_the_loss_and_the_divergence_of_tokens_are_cross_entropy_and_kl() -> None:
    targets = torch.randint(5, (3, 4), generator=torch.Generator().manual_seed(2))
    assert torch.equal(prediction_loss(P, targets), cross_entropy(P, targets))
    assert torch.equal(divergence(P, Q, regression=False), kl_divergence(P, Q))


def test_the_loss_and_the_divergence_of_vectors_are_those_of_gaussians_of_unit_variance() -> None:
    from torch.distributions import Independent, Normal
    from torch.distributions import kl_divergence as of_distributions

    one, other = (Independent(Normal(outputs, 1.0), 1) for outputs in (P, Q))
    torch.testing.assert_close(divergence(P, Q, regression=True), of_distributions(one, other))
    constant = 5 / 2 * math.log(2 * math.pi)
    torch.testing.assert_close(prediction_loss(P, Q), -one.log_prob(Q) - constant)


def test_logits_far_from_zero_are_compared_as_their_probabilities() -> None:
    logits = (torch.randn(6, 4, 50, generator=torch.Generator().manual_seed(3)) * 8).round() / 8  # exact beside 512
    targets, scored = torch.zeros(6, 4, dtype=torch.int64), torch.ones(6, 4, dtype=torch.bool)
    clean = ScoredPredictions.of(logits.log_softmax(-1)[scored], targets, scored)
    loss, kl = clean.compare([(logits + 512).flatten(0, 1)])
    expected = cross_entropy(logits.log_softmax(-1), targets).mean(1)
    torch.testing.assert_close(loss, expected, atol=FLOAT32, rtol=0.0)
    torch.testing.assert_close(kl, torch.zeros(6), atol=FLOAT32, rtol=0.0)


@pytest.mark.parametrize("regression", [False, True])
def test_repeated_predictions_are_compared_one_time_after_the_other(regression: bool) -> None:
    generator = torch.Generator().manual_seed(3)
    targets = Q if regression else torch.randint(5, (3, 4), generator=generator)
    scored = torch.tensor([[True, True, False, True], [False, True, False, False], [True, True, True, True]])
    clean, others = (
        ScoredPredictions.of(P[scored], targets, scored),
        torch.randn(2, int(scored.sum()), 5, generator=generator),
    )
    loss, kl = clean.repeated(2).compare([others.flatten(0, 1)])
    expected = [clean.compare([each]) for each in others]
    torch.testing.assert_close(loss, torch.cat([each[0] for each in expected]))
    torch.testing.assert_close(kl, torch.cat([each[1] for each in expected]))
