"""What copying is worth: copies by hand, and on a text that repeats itself."""

import numpy as np
import pytest

from stagewise.papers.tasks import WikiText
from stagewise.papers.wikitext.copying import _copied, _worth

TOKENS = np.array([[1, 2, 3, 1, 2, 4, 1, 2]])
FOLLOWING = np.array([[2, 3, 1, 2, 4, 1, 2, 9]])


@pytest.mark.parametrize(
    ("matched", "copies"),
    [(1, [-1, -1, -1, 2, 3, -1, 2, 4]), (2, [-1, -1, -1, -1, 3, -1, -1, 4]), (3, [-1] * 8)],
)
def test_the_last_occurrence_is_copied(matched: int, copies: list[int]) -> None:
    assert _copied(TOKENS, FOLLOWING, matched).tolist() == [copies]


def test_no_window_copies_from_another() -> None:
    both = _copied(np.array([[1, 2], [1, 3]]), np.array([[2, 1], [3, 1]]), matched=1)
    assert both.tolist() == [[-1, -1], [-1, -1]]


def test_copying_adds_to_every_n_gram_model_of_the_text_in_the_package() -> None:
    table = _worth(WikiText(data="embedded", tokenizer="bpe", length=64, vocab_size=300), windows=16)
    assert table["model"].unique().tolist() == ["unigram", "bigram", "trigram"]
    assert (table["with_copies"] <= table["loss"]).all()
    assert (table.query("model != 'trigram'")["with_copies"] < table.query("model != 'trigram'")["loss"]).all()
    assert table.groupby("model", sort=False)["loss"].first().is_monotonic_decreasing
    assert table.groupby("matched")["seen"].first().is_monotonic_decreasing
    assert table.groupby("matched")["right"].first().is_monotonic_increasing
