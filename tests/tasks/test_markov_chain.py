"""The Markov chain's distribution, truncated references and relations, against loops over the paper's formula."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2

from stagewise.task import Batch
from stagewise.tasks import MarkovChain

FLOAT32 = 1e-5
"""Sums of a few dozen float32 numbers of order one to ten."""

VARIANTS = {
    "plain": MarkovChain(d_vocab=5, spans=(2, 2, 2), length=6),
    "uneven spans": MarkovChain(d_vocab=5, spans=(2, 1, 3), length=6),
    "overlapping": MarkovChain(d_vocab=5, spans=(3, 3), stride=2, length=6),
    "same lags": MarkovChain(d_vocab=5, spans=(2, 2), stride=1, length=6),
    "gaps": MarkovChain(d_vocab=5, spans=(1, 1), stride=3, length=6),
    "reversed": MarkovChain(d_vocab=5, spans=(2, 2, 2), reverse=True, length=6),
    "lag weights": MarkovChain(d_vocab=5, spans=(2, 2), lag_weights=(0.3, 0.7), length=6),
    "lag weights reversed": MarkovChain(d_vocab=5, spans=(2, 2), lag_weights=(3.0, 1.0), reverse=True, length=6),
    "orthogonal": MarkovChain(d_vocab=5, spans=(2, 2), features="orthogonal", length=6),
    "one group": MarkovChain(d_vocab=5, spans=(3,), length=6),
    "one lag": MarkovChain(d_vocab=5, spans=(1,), length=1),
}
every_variant = pytest.mark.parametrize("task", VARIANTS.values(), ids=VARIANTS.keys())


def lags_by_hand(task: MarkovChain) -> list[list[int]]:
    """The lags of each group, the most important first, counted one by one."""
    groups, first = [], 1
    for span in task.spans:
        groups.append([first + i for i in range(span)])
        first += span if task.stride is None else task.stride
    return groups[::-1] if task.reverse else groups


def law_by_hand(task: MarkovChain, past: list[int], groups_kept: int) -> list[float]:
    """P(next token | past tokens, the latest last), from the formula with plain loops."""
    matrices = task.feature_matrices().double().tolist()
    logits = [0.0] * task.d_vocab
    for matrix, lags in list(zip(matrices, lags_by_hand(task), strict=True))[:groups_kept]:
        for i, lag in enumerate(lags):
            alpha = task.lag_weights[i] / sum(task.lag_weights) if task.lag_weights else 1.0
            for token in range(task.d_vocab):
                logits[token] += alpha * matrix[token][past[-lag]]
    total = sum(math.exp(logit) for logit in logits)
    return [math.exp(logit) / total for logit in logits]


def chi_square_p_value(task: MarkovChain, batch: Batch) -> float:
    """Test the sampled transitions against the true distribution, every cell of every full window."""
    sequences = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)
    windows = sequences.unfold(1, task.window + 1, 1).flatten(0, 1)
    past_and_next, times = windows.unique(dim=0, return_counts=True)
    counts: dict[tuple[int, ...], np.ndarray] = {}
    for (*past, token), count in zip(past_and_next.tolist(), times.tolist(), strict=True):
        counts.setdefault(tuple(past), np.zeros(task.d_vocab))[token] = count
    statistic, cells = 0.0, 0
    for past, observed in counts.items():
        expected = observed.sum() * np.array(law_by_hand(task, list(past), len(task.spans)))
        if expected.min() >= 5:
            statistic += ((observed - expected) ** 2 / expected).sum()
            cells += task.d_vocab - 1
    assert cells >= 10
    return float(chi2.sf(statistic, cells))


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    "changes",
    [
        {"spans": (1, 1)},
        {"spans": (2, 1), "reverse": True},
        {"spans": (2, 2), "stride": 1},
        {"spans": (2,), "lag_weights": (0.8, 0.2)},
        {"spans": (1, 1), "features": "orthogonal"},
    ],
    ids=str,
)
def test_sampled_transitions_follow_the_distribution(changes: dict[str, Any]) -> None:
    task = MarkovChain(d_vocab=3, length=20, temperature=0.8, **changes)
    batch = task.sample(10_000, seed=1)
    assert int(batch.scored.sum()) == 200_000
    assert 0.001 < chi_square_p_value(task, batch) < 0.999


def test_a_wrong_lag_would_be_seen_in_the_transitions() -> None:
    task = MarkovChain(d_vocab=3, spans=(1, 1), length=20, temperature=0.8)
    batch = task.sample(10_000, seed=1)
    assert chi_square_p_value(dataclasses.replace(task, reverse=True), batch) < 1e-6


@every_variant
def test_each_reference_is_the_law_with_its_groups_kept(task: MarkovChain) -> None:
    batch = task.sample(3, seed=0)
    references = list(task.references(batch).values())[1:]
    for kept, reference in enumerate(references, start=1):
        for row in range(3):
            for query in range(task.window - 1, task.n_ctx):
                expected = law_by_hand(task, batch.tokens[row, : query + 1].tolist(), kept)
                assert reference[row, query].exp().tolist() == pytest.approx(expected, abs=FLOAT32)


@every_variant
def test_references_are_log_probabilities(task: MarkovChain) -> None:
    batch = task.sample(4, seed=0)
    for log_probs in task.references(batch).values():
        assert log_probs.shape == (4, task.n_ctx, task.d_vocab)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(4, task.n_ctx), atol=FLOAT32, rtol=0)


@every_variant
def test_the_last_reference_is_optimal(task: MarkovChain) -> None:
    batch = task.sample(2000, seed=3)
    losses = [
        -log_probs.gather(-1, batch.targets[..., None])[..., 0][batch.scored].mean().item()
        for log_probs in task.references(batch).values()
    ]
    assert losses[-1] == min(losses)
    assert losses[0] == pytest.approx(math.log(task.d_vocab), abs=FLOAT32)


@every_variant
def test_lag_l_of_a_target_is_l_minus_one_keys_before_the_query(task: MarkovChain) -> None:
    relations = task.sample(2, seed=0).relations
    assert list(relations) == [f"I({k})" for k in range(1, len(task.spans) + 1)]
    for mask, lags in zip(relations.values(), lags_by_hand(task), strict=True):
        for target in range(1, task.n_ctx + 1):
            query, keys = target - 1, [target - lag for lag in lags]
            assert mask[1, query].nonzero()[:, 0].tolist() == sorted(key for key in keys if key >= 0)


def test_lag_one_is_the_query_token_itself() -> None:
    task = MarkovChain(d_vocab=4, spans=(1,), length=5, temperature=0.01)
    batch = task.sample(50, seed=0)
    assert torch.equal(batch.relations["I(1)"][0], torch.eye(task.n_ctx, dtype=torch.bool))
    likeliest = task.feature_matrices()[0].argmax(0)
    agree = likeliest[batch.tokens] == batch.targets
    # At this temperature a near tie is all that can make another token follow.
    assert agree[batch.scored].float().mean() > 0.9


@every_variant
def test_only_positions_with_a_full_window_are_scored(task: MarkovChain) -> None:
    batch = task.sample(3, seed=0)
    full = [query + 1 >= max(map(max, lags_by_hand(task))) for query in range(task.n_ctx)]
    assert batch.scored.tolist() == [full] * 3
    assert sum(full) == task.length


@every_variant
def test_targets_are_the_tokens_shifted_by_one(task: MarkovChain) -> None:
    batch = task.sample(3, seed=0)
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert 0 <= int(batch.tokens.min()) <= int(batch.tokens.max()) < task.d_vocab


def test_the_prefix_is_uniform_and_independent() -> None:
    task = MarkovChain(d_vocab=3, spans=(1, 1), length=1)
    first, second = task.sample(30_000, seed=5).tokens[:, :2].unbind(1)
    counts = torch.bincount(3 * first + second, minlength=9).double()
    statistic = float(((counts - 30_000 / 9) ** 2 / (30_000 / 9)).sum())
    assert 0.001 < chi2.sf(statistic, 8) < 0.999


@every_variant
def test_a_seed_repeats_and_another_seed_does_not(task: MarkovChain) -> None:
    assert torch.equal(task.sample(40, seed=7).tokens, task.sample(40, seed=7).tokens)
    assert not torch.equal(task.sample(40, seed=7).tokens, task.sample(40, seed=8).tokens)


def test_drawing_the_features_leaves_the_global_generators_alone() -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state(legacy=False)  # noqa: NPY002
    MarkovChain(d_vocab=5, seed=123).probe_batch(4, seed=0)
    assert torch.equal(torch_state, torch.get_rng_state())
    assert str(numpy_state) == str(np.random.get_state(legacy=False))  # noqa: NPY002


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_orthogonal_features_have_singular_values_one(seed: int) -> None:
    task = MarkovChain(d_vocab=7, spans=(1, 1, 1), features="orthogonal", seed=seed)
    for k, matrix in enumerate(task.feature_matrices(), start=1):
        weight = task.importance ** (3 - k) / task.temperature
        values = torch.linalg.svdvals(matrix / weight)
        torch.testing.assert_close(values, torch.ones(7), atol=FLOAT32, rtol=0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_frobenius_features_are_orthogonal_to_each_other(seed: int) -> None:
    task = MarkovChain(d_vocab=7, spans=(1, 1, 1), seed=seed)
    weights = task.importance ** torch.tensor([2.0, 1.0, 0.0]) / task.temperature
    flat = (task.feature_matrices() / weights[:, None, None]).flatten(1)
    torch.testing.assert_close(flat @ flat.T, 7 * torch.eye(3), atol=10 * FLOAT32, rtol=0)


def test_the_first_feature_is_the_same_with_and_without_gram_schmidt() -> None:
    plain, frobenius = (MarkovChain(d_vocab=6, features=kind) for kind in ("orthogonal", "frobenius"))
    torch.testing.assert_close(plain.feature_matrices()[0], frobenius.feature_matrices()[0], atol=10 * FLOAT32, rtol=0)


def test_the_features_depend_on_the_seed_alone() -> None:
    task = MarkovChain(d_vocab=5, seed=1)
    assert torch.equal(task.feature_matrices(), dataclasses.replace(task, length=3).feature_matrices())
    assert not torch.equal(task.feature_matrices(), dataclasses.replace(task, seed=2).feature_matrices())


def test_changing_the_returned_features_does_not_change_the_task() -> None:
    task = MarkovChain(d_vocab=5)
    before = task.feature_matrices().clone()
    task.feature_matrices().zero_()
    assert torch.equal(task.feature_matrices(), before)


def test_the_paper_sizes_come_out() -> None:
    for spans, stride, window, length in [
        ((2, 2, 2), None, 6, 25),
        ((4, 4, 4), None, 12, 31),
        ((4, 4, 4), 2, 8, 27),
    ]:
        task = MarkovChain(d_vocab=50, spans=spans, stride=stride, length=20, temperature=0.1)
        assert (task.window, task.n_ctx) == (window, length)


def test_the_default_task_samples_and_knows_its_references() -> None:
    batch = MarkovChain().probe_batch(2, seed=0)
    assert list(batch.references) == ["uniform", "A*_1", "A*_1:2", "A*_1:3"]
    assert list(batch.relations) == ["I(1)", "I(2)", "I(3)"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_vocab": 0}, "d_vocab: expected a whole number of at least 1, got 0"),
        ({"spans": ()}, "spans must be one positive number of lags a group"),
        ({"spans": (2, 0)}, r"spans .* got \(2, 0\)"),
        ({"stride": 0}, "stride: expected a whole number of at least 1, or null, got 0"),
        ({"length": 0}, "length: expected a whole number of at least 1, got 0"),
        ({"importance": 0.0}, "importance must be positive"),
        ({"importance": 1e308}, "these logits are beyond what a float holds"),
        ({"importance": math.nan}, "importance: expected a finite number, got nan"),
        ({"temperature": -0.1}, "temperature must be positive"),
        ({"n_sequences": 0}, "n_sequences: expected a whole number of at least 1, or null"),
        ({"lag_weights": (1.0,)}, "lag_weights needs a weight for every lag"),
        ({"spans": (1, 2), "lag_weights": (1.0, 1.0)}, "lag_weights needs a weight for every lag"),
        ({"lag_weights": (0.0, 0.0)}, "lag_weights are normalised to sum to one"),
        ({"lag_weights": (2.0, -1.0)}, "lag_weights are normalised to sum to one: none negative"),
        ({"d_vocab": 1}, "at most d_vocab\\^2 = 1 matrices orthogonal to each other"),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarkovChain(**changes)


def test_no_sequences_cannot_be_sampled() -> None:
    with pytest.raises(ValueError, match="number of sequences must be positive, got 0"):
        MarkovChain().sample(0, seed=0)
