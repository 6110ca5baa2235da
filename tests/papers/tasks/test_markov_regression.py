"""The regression variant, held to its definition and to the tensor that its population loss factorises."""

from typing import Any

import pytest
import torch

from stagewise.loss import mean_scored, prediction_loss
from stagewise.papers.tasks.markov_regression import MarkovRegression

TASK = MarkovRegression(dim=4, spans=(2, 1), n_lags=5, importance=3.0, seed=2)
SAMPLING = 0.05
"""Relative error of a mean over 20,000 samples, with a margin."""


def test_targets_are_the_groups_sums_through_their_matrices() -> None:
    batch = TASK.sample(7, seed=1)
    first, second = TASK.feature_matrices()
    inputs = batch.tokens
    expected = (inputs[:, -1] + inputs[:, -2]) @ first.T + inputs[:, -3] @ second.T
    torch.testing.assert_close(batch.targets[:, -1], expected)
    assert batch.scored.int().tolist() == [[0, 0, 0, 0, 1]] * 7


def test_relations_are_the_lags_of_each_group_from_the_last_position_on() -> None:
    relations = TASK.sample(2, seed=0).relations
    assert relations["I(1)"][0].nonzero().tolist() == [[4, 3], [4, 4]]
    assert relations["I(2)"][1].nonzero().tolist() == [[4, 2]]


def test_each_reference_leaves_the_groups_that_it_does_not_know() -> None:
    batch = TASK.probe_batch(20_000, seed=0)
    assert batch.nested_references == ("A*_1", "A*_1:2")
    losses = {
        name: mean_scored(prediction_loss(outputs, batch.targets), batch.scored).mean().item()
        for name, outputs in batch.references.items()
    }
    # Half the square of what is left of the target: widths times squared strengths, 2 * 9 and 1.
    assert losses == {
        "zero": pytest.approx(0.5 * (2 * 9 + 1), rel=SAMPLING),
        "A*_1": pytest.approx(0.5, rel=SAMPLING),
        "A*_1:2": pytest.approx(0, abs=1e-10),
    }


def test_features_are_orthogonal_with_the_strengths_as_norms() -> None:
    flat = TASK.feature_matrices().flatten(1)
    torch.testing.assert_close(flat @ flat.T, torch.diag(torch.tensor(TASK.strengths) ** 2), atol=1e-5, rtol=0)
    assert TASK.strengths == (3.0, 1.0)


def test_inputs_are_white_at_every_pair_of_lags() -> None:
    inputs = TASK.sample(20_000, seed=0).tokens.flatten(1)
    torch.testing.assert_close(inputs.T @ inputs / len(inputs), torch.eye(20), atol=SAMPLING, rtol=0)


def test_predicting_nothing_costs_half_the_square_of_the_target_tensor() -> None:
    targets = TASK.sample(20_000, seed=3).targets[:, -1]
    assert 0.5 * targets.square().sum(1).mean().item() == pytest.approx(0.5 * (2 * 9 + 1), rel=SAMPLING)


def test_noise_adds_its_variance_to_every_entry() -> None:
    noisy = MarkovRegression(dim=4, noise=0.5, seed=2).sample(20_000, seed=3)
    clean = torch.einsum("loi,nli->no", MarkovRegression(dim=4, seed=2).lag_matrices(), noisy.tokens.flip(1))
    assert (noisy.targets[:, -1] - clean).var().item() == pytest.approx(0.25, rel=SAMPLING)


def test_a_seed_repeats_and_another_does_not() -> None:
    assert torch.equal(TASK.sample(3, seed=5).tokens, TASK.sample(3, seed=5).tokens)
    assert not torch.equal(TASK.sample(3, seed=5).tokens, TASK.sample(3, seed=6).tokens)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"spans": (5, 4)}, r"spans must be one positive number of lags a group, 8 \(n_lags\) at most in all"),
        ({"importance": 0.0}, "importance must be positive, got 0.0"),
        ({"n_sequences": 0}, "n_sequences: expected a whole number of at least 1, or null, got 0"),
        ({"dim": 1, "spans": (1, 1)}, r"there are at most dim\^2 = 1 matrices"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarkovRegression(**parameters)


def test_no_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="the number of sequences must be positive, got 0"):
        TASK.sample(0, seed=0)
