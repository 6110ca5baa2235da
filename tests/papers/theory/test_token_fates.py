"""Several common tokens, priors, spuriously distinct tokens: formulas against Lemma 1, sampled attention, counts."""

import numpy as np
import pytest

from stagewise.papers.theory.scan_and_snap import common_velocity, distinct_velocity
from stagewise.papers.theory.token_fates import logit_velocity, prior_attention, spurious_probability

N_COMMON, N_CLASSES = 3, 4


def attention_of(common: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Rows of length one: the common tokens' attention, then two distinct tokens a class."""
    n, k = common.shape
    f = np.zeros((n, k + 2 * n))
    f[:, :k] = common
    for i in range(n):
        f[i, k + 2 * i : k + 2 * i + 2] = generator.uniform(0.2, 1, 2)
    return np.asarray(f / np.linalg.norm(f, axis=1, keepdims=True))


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def beta(generator: np.random.Generator) -> np.ndarray:
    return np.asarray(generator.uniform(0.1, 1, (N_CLASSES, N_CLASSES)))


def test_velocities_are_those_of_lemma_1(generator: np.random.Generator, beta: np.ndarray) -> None:
    f = attention_of(generator.uniform(0.1, 1, (N_CLASSES, N_COMMON)), generator)
    g = generator.uniform(size=N_CLASSES)[:, None] * f - (beta * (1 - np.eye(N_CLASSES))) @ f
    by_lemma = (f * (g - f * (f * g).sum(1, keepdims=True))).sum(0)
    np.testing.assert_allclose(logit_velocity(f, beta), by_lemma, atol=1e-12)


def test_of_one_common_token_they_are_those_of_theorem_2(generator: np.random.Generator, beta: np.ndarray) -> None:
    f = attention_of(generator.uniform(0.1, 1, (N_CLASSES, 1)), generator)
    xi = (beta * (1 - np.eye(N_CLASSES)) * (f @ f.T)).sum(1)
    moves = logit_velocity(f, beta)
    assert moves[0] == pytest.approx(common_velocity(f[:, 0], xi))
    np.testing.assert_allclose(moves[1:3], distinct_velocity(f[0, 1:3], xi[0]))


@pytest.mark.parametrize("seed", range(20))
def test_common_tokens_in_the_same_proportions_all_fall(seed: int, beta: np.ndarray) -> None:
    generator = np.random.default_rng(seed)
    shared = generator.uniform(0.1, 2, N_CLASSES)[:, None] * generator.uniform(0.05, 1, N_COMMON)
    assert (logit_velocity(attention_of(shared, generator), beta)[:N_COMMON] < 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_sum_of_common_tokens_falls_whatever_their_proportions(seed: int, beta: np.ndarray) -> None:
    generator = np.random.default_rng(seed)
    f = attention_of(10 ** generator.uniform(-3, 0, (N_CLASSES, N_COMMON)), generator)
    moves, parts = logit_velocity(f, beta), (f[:, :N_COMMON] ** 2).sum(1)
    overlaps = (beta * (1 - np.eye(N_CLASSES)) * (f @ f.T)).sum(1)
    assert moves[:N_COMMON].sum() == pytest.approx(-(overlaps * (1 - parts)).sum())
    assert (moves[N_COMMON:] > 0).all()


def test_a_common_token_that_one_class_holds_nearly_alone_rises(generator: np.random.Generator) -> None:
    common = np.array([[0.9, 0.01], [0.9, 0.01], [0.9, 0.01], [0.9, 0.4]])
    moves = logit_velocity(attention_of(common, generator), np.ones((4, 4)))
    assert moves[0] < 0 < moves[1]


def test_rows_are_of_length_one() -> None:
    with pytest.raises(ValueError, match="length one"):
        logit_velocity(np.ones((2, 3)), np.ones((2, 2)))


def test_sampled_attention_approaches_frequency_times_prior(generator: np.random.Generator) -> None:
    # Explicit softmax over the positions of sequences, whose nearer half draws from other tokens than the farther one.
    probability, logits = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]), np.array([0.3, -1.0, 0.5])
    bias, apart = np.array([0.0, -1.5]), []
    for length in (100, 10_000):
        at = np.repeat([0, 1], length // 2)
        tokens = (generator.uniform(size=(64, length))[..., None] > probability.cumsum(1)[at]).sum(-1)
        scores = np.exp(logits[tokens] + bias[at])
        mass = np.stack([(scores * (tokens == token)).sum(1) for token in range(3)], 1) / scores.sum(1, keepdims=True)
        apart.append(np.abs(mass - prior_attention(probability, logits, bias)).mean())
    assert apart[1] < apart[0] / 5
    assert apart[1] < 0.01


def test_a_bias_of_positions_is_no_prior_where_all_hold_the_same_tokens() -> None:
    same = np.tile([0.5, 0.3, 0.2], (2, 1))
    np.testing.assert_allclose(prior_attention(same, np.zeros(3), np.array([0.0, -3.0])), [0.5, 0.3, 0.2])


@pytest.mark.parametrize("tokens", [5, 50, 500])
def test_spurious_tokens_are_as_many_as_counted(tokens: int, generator: np.random.Generator) -> None:
    present = (generator.uniform(size=(20_000, 3, tokens)) < 0.02).any(-1) if tokens < 100 else (
        generator.binomial(tokens, 0.02, (20_000, 3)) > 0
    )  # fmt: skip
    assert (present.sum(1) == 1).mean() == pytest.approx(spurious_probability(0.02, tokens, n_classes=3), abs=0.01)


def test_spurious_tokens_vanish_exponentially() -> None:
    once, twice = (spurious_probability(0.02, tokens, n_classes=2) for tokens in (500, 1000))
    assert twice == pytest.approx(once**2 / 2, rel=1e-3)


def test_a_probability_is_at_most_one() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        spurious_probability(1.5, tokens=3, n_classes=2)
