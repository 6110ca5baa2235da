"""Sparse regression: one vector matters, its copies and its special value are as many as asked for."""

import dataclasses

import pytest
import torch

from stagewise.loss import divergence
from stagewise.papers.tasks import SparseRegression
from stagewise.task import Batch

FIXED = SparseRegression(n_positions=6, d=4, n_copies=2)
RANDOM = dataclasses.replace(FIXED, positions="random", marked=True)
both = pytest.mark.parametrize("task", [FIXED, RANDOM], ids=["fixed", "random"])


def relevant_vectors(task: SparseRegression, batch: Batch) -> torch.Tensor:
    """The relevant positions' vectors [batch copy feature]."""
    mask = batch.relations["relevant"][:, -1]
    return batch.tokens[mask][:, : task.d].view(len(batch), -1, task.d)


@both
def test_the_target_is_the_teachers_image_of_the_relevant_vector(task: SparseRegression) -> None:
    batch = task.sample(50, seed=1)
    vectors = relevant_vectors(task, batch)
    assert vectors.shape[1] == 2
    assert torch.equal(vectors[:, 0], vectors[:, 1])
    assert torch.allclose(batch.targets[:, -1], vectors[:, 0] @ task.teacher().T, atol=1e-6)
    assert batch.scored.sum(1).tolist() == [1] * 50
    assert batch.scored[:, -1].all()


@both
def test_vectors_have_unit_size_on_average_and_do_not_repeat_elsewhere(task: SparseRegression) -> None:
    batch = dataclasses.replace(task, n_copies=1, n_positions=9).sample(4000, seed=0)
    vectors = batch.tokens[..., : task.d]
    assert (vectors**2).sum(-1).mean(0).tolist() == pytest.approx([1.0] * 9, abs=0.06)
    assert len(vectors.flatten(0, 1).unique(dim=0)) == 4000 * 9


def test_the_mark_is_on_the_relevant_vectors_and_their_positions_vary() -> None:
    batch = RANDOM.sample(300, seed=0)
    assert batch.tokens.shape == (300, 6, 5)
    assert torch.equal(batch.tokens[..., -1].bool(), batch.relations["relevant"][:, -1])
    share = batch.relations["relevant"][:, -1].float().mean(0)
    assert share.tolist() == pytest.approx([1 / 3] * 6, abs=0.1)


@both
def test_the_solution_answers_exactly_and_zero_leaves_half_the_square_of_the_teacher(task: SparseRegression) -> None:
    batch = task.probe_batch(20_000, seed=0)
    assert batch.nested_references == ("W*",)
    assert not batch.references["zero"].any()
    torch.testing.assert_close(batch.references["W*"], batch.targets, atol=1e-5, rtol=0)
    left = divergence(batch.references["W*"], batch.references["zero"], regression=True)[:, -1].mean().item()
    assert left == pytest.approx((task.teacher() ** 2).sum().item() / (2 * task.d), rel=0.05)


@pytest.mark.parametrize("n_copies", [1, 3])
def test_the_ridge_predictor_is_the_best_linear_map_of_the_mean_vector(n_copies: int) -> None:
    task = dataclasses.replace(FIXED, n_copies=n_copies)
    batch = task.probe_batch(20_000, seed=0)
    mean, targets = batch.tokens.mean(1), batch.targets[:, -1]
    fitted = mean @ torch.linalg.lstsq(mean, targets).solution
    ridge = batch.references["ridge"][:, -1]
    errors = [((outputs - targets) ** 2).sum(-1).mean().item() for outputs in (fitted, ridge)]
    assert errors[1] == pytest.approx(errors[0], rel=0.01)
    assert (ridge - fitted).square().mean() < 0.01 * fitted.square().mean()
    assert not batch.references["ridge"][:, :-1].any()


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_the_special_vector_comes_in_a_share_p_of_training_and_never_in_tests(p: float) -> None:
    task = dataclasses.replace(FIXED, p=p)
    special = torch.eye(4)[0]
    share = (relevant_vectors(task, task.sample(2000, seed=0))[:, 0] == special).all(-1).float().mean()
    assert share.item() == pytest.approx(p, abs=0.04)
    assert not (relevant_vectors(task, task.probe_batch(200, seed=0))[:, 0] == special).all(-1).any()


def test_random_positions_are_tested_without_copies_and_fixed_ones_with() -> None:
    assert RANDOM.probe_batch(5, 0).relations["relevant"].sum().item() == 5
    assert FIXED.probe_batch(5, 0).relations["relevant"].sum().item() == 10


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_positions": 4, "n_copies": 5}, "n_copies=5, n_positions=4"),
        ({"n_positions": 4, "n_copies": 4}, "n_copies must be between 1 and n_positions - 1"),
        ({"n_copies": 0}, "n_copies=0, n_positions="),
        ({"d": 0}, "d: expected a whole number of at least 1, got 0"),
        ({"p": -0.1}, "p: expected a finite number from 0 to 1, got -0.1"),
        ({"p": 1.1}, "p: expected a finite number from 0 to 1, got 1.1"),
        ({"positions": "random"}, "set marked=True"),
        ({"n_sequences": 0}, "n_sequences: expected a whole number of at least 1, or null, got 0"),
    ],
)
def test_parameters_without_a_meaning_are_refused(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseRegression(**parameters)  # type: ignore[arg-type]


def test_no_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="must be positive, got 0"):
        FIXED.sample(0, seed=0)
