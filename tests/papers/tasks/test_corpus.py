"""Byte pairs: any text has a tokenisation that gives it back, and the training text alone decides it."""

import pytest

from stagewise.papers.tasks._corpus import Corpus, _basic_english, _byte_pairs, _plain, byte_text

TRAIN = ["the cat sat on the mat", "the <unk> sat", "a cat , a mat"] * 4
HELD_OUT = ["the bat é sat", "<unk> on <unk>", ""]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return _byte_pairs({"train": TRAIN, "validation": HELD_OUT}, 280)


def spelled(corpus: Corpus, split: str) -> list[str]:
    return [corpus.vocabulary[token] for token in corpus.ids[split]]


def test_the_text_can_be_read_back(corpus: Corpus) -> None:
    from tokenizers import decoders

    for split, lines in (("train", TRAIN), ("validation", HELD_OUT)):
        text = "".join("Ġ<unk>" if token == "<unk>" else token for token in spelled(corpus, split))
        read = [decoders.ByteLevel().decode([line]).strip() for line in text.split("<eos>")[:-1]]
        assert read == lines


def test_frequent_words_are_joined_and_none_crosses_a_space(corpus: Corpus) -> None:
    assert "Ġthe" in corpus.vocabulary
    assert not [token for token in corpus.vocabulary if "Ġ" in token[1:]]


def test_unknown_words_are_one_token_and_teach_no_pairs(corpus: Corpus) -> None:
    assert corpus.vocabulary[:2] == ("<unk>", "<eos>")
    assert spelled(corpus, "validation").count("<unk>") == 2
    assert not [token for token in corpus.vocabulary[2:] if "<u" in token or "nk" in token]


def test_the_vocabulary_repeats(corpus: Corpus) -> None:
    again = _byte_pairs({"train": TRAIN, "validation": HELD_OUT}, 280)
    assert again.vocabulary == corpus.vocabulary
    assert again.ids["train"].tolist() == corpus.ids["train"].tolist()


def test_held_out_text_does_not_change_the_vocabulary(corpus: Corpus) -> None:
    assert _byte_pairs({"train": TRAIN, "validation": ["zebra " * 50]}, 280).vocabulary == corpus.vocabulary


def test_lines_are_split_as_torchtext_does_or_at_white_space() -> None:
    words = _basic_english('He said: "No (never), it\'s over!"')
    assert words == ["he", "said", "no", "(", "never", ")", ",", "it", "'", "s", "over", "!"]
    assert _plain(" = Title = ") == ["=", "Title", "=", "<eos>"]


def test_bytes_of_a_token_are_text() -> None:
    assert byte_text("\u0120caf\u00c3\u00a9") == " café"
