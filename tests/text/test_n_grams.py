"""n-gram laws of texts drawn from known chains: normalised, in order, and the truth in the limit."""

import numpy as np
import pytest

from stagewise.text import n_grams

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
def laws(text: np.ndarray) -> dict[str, np.ndarray]:
    windows = np.lib.stride_tricks.sliding_window_view(text[20_000:], 11)[::50]
    found = n_grams.laws(n_grams.count(text[:20_000], D), windows[:, :-1])
    return {**found, "targets": windows[:, 1:]}


@pytest.mark.parametrize("name", ["unigram", "bigram", "trigram"])
def test_a_law_is_normalised_and_nowhere_zero(laws: dict[str, np.ndarray], name: str) -> None:
    np.testing.assert_allclose(laws[name].sum(-1), 1, atol=1e-12)
    assert (laws[name] > 0).all()


def test_a_longer_context_predicts_unseen_text_better(laws: dict[str, np.ndarray]) -> None:
    losses = [
        -np.log(np.take_along_axis(laws[name], laws["targets"][..., None], -1))[:, 1:].mean()
        for name in ("unigram", "bigram", "trigram")
    ]
    assert losses[0] > losses[1] > losses[2]
    sure, other = 0.8 + 0.2 / D, 0.2 / D
    entropy = -(sure * np.log(sure) + (D - 1) * other * np.log(other))
    assert losses[2] == pytest.approx(entropy, abs=0.05)


def test_without_two_tokens_before_it_a_position_has_the_shorter_law(laws: dict[str, np.ndarray]) -> None:
    np.testing.assert_array_equal(laws["trigram"][:, 0], laws["bigram"][:, 0])
    assert not np.allclose(laws["trigram"][:, 1], laws["bigram"][:, 1])


def test_a_context_that_was_never_seen_has_the_shorter_law() -> None:
    grams = n_grams.count(np.array([0, 1, 2, 0, 1, 2]), 4)
    found = n_grams.laws(grams, np.array([[3, 1], [1, 1]]))
    np.testing.assert_array_equal(found["bigram"][0, 0], found["unigram"][0, 0])
    np.testing.assert_array_equal(found["trigram"][1, 1], found["bigram"][1, 1])
