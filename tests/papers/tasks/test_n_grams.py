"""N-gram models of texts drawn from known chains: normalised, in order, and the true distribution in the limit."""

import numpy as np
import pytest

from stagewise.papers.tasks import n_grams as n_grams

D = 6


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    """A chain of order two: the next token is the sum of the last two with probability 0.8, else any."""
    generator = np.random.default_rng(0)
    tokens = [0, 1]
    for _ in range(30_000):
        sure = generator.random() < 0.8
        tokens.append((tokens[-1] + 2 * tokens[-2] + 1) % D if sure else int(generator.integers(D)))
    return np.array(tokens, dtype=np.int32)


@pytest.fixture(scope="module")
def predictions(text: np.ndarray) -> dict[str, np.ndarray]:
    windows = np.lib.stride_tricks.sliding_window_view(text[20_000:], 11)[::50]
    by_name = n_grams.distributions(n_grams.count(text[:20_000], D), windows[:, :-1])
    return {**by_name, "targets": windows[:, 1:]}


@pytest.mark.parametrize("name", ["unigram", "bigram", "trigram"])
def test_a_distribution_is_normalised_and_nowhere_zero(predictions: dict[str, np.ndarray], name: str) -> None:
    np.testing.assert_allclose(predictions[name].sum(-1), 1, atol=1e-12)
    assert (predictions[name] > 0).all()


def test_a_longer_context_predicts_unseen_text_better(predictions: dict[str, np.ndarray]) -> None:
    losses = [
        -np.log(np.take_along_axis(predictions[name], predictions["targets"][..., None], -1))[:, 1:].mean()
        for name in ("unigram", "bigram", "trigram")
    ]
    assert losses[0] > losses[1] > losses[2]
    sure, other = 0.8 + 0.2 / D, 0.2 / D
    entropy = -(sure * np.log(sure) + (D - 1) * other * np.log(other))
    assert losses[2] == pytest.approx(entropy, abs=0.05)


def test_without_two_tokens_before_it_a_position_has_the_bigram_distribution(
    predictions: dict[str, np.ndarray],
) -> None:
    np.testing.assert_array_equal(predictions["trigram"][:, 0], predictions["bigram"][:, 0])
    assert not np.allclose(predictions["trigram"][:, 1], predictions["bigram"][:, 1])


def test_a_context_that_was_never_seen_has_the_distribution_of_the_shorter_one() -> None:
    grams = n_grams.count(np.array([0, 1, 2, 0, 1, 2]), 4)
    by_name = n_grams.distributions(grams, np.array([[3, 1], [1, 1]]))
    np.testing.assert_array_equal(by_name["bigram"][0, 0], by_name["unigram"][0, 0])
    np.testing.assert_array_equal(by_name["trigram"][1, 1], by_name["bigram"][1, 1])
