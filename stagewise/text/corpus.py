"""From the lines of a text to token ids: by word, as torchtext does, or by byte pairs learnt from the training text."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np

UNKNOWN, END = "<unk>", "<eos>"

Words = Literal["plain", "basic_english", "bpe"]

BYTES = 256
"""Tokens of a byte-level vocabulary before any pair is joined."""


class Corpus(NamedTuple):
    """The tokens of the vocabulary by id, and the ids of each split in reading order."""

    vocabulary: tuple[str, ...]
    ids: Mapping[str, np.ndarray]


def corpus(lines: Mapping[str, Iterable[str]], words: Words, n_words: int | None) -> Corpus:
    """Tokenise every split; the vocabulary is that of the split called "train".

    Args:
        lines: split -> its lines.
        words: "plain", "basic_english" or "bpe"; see `plain`, `basic_english` and `byte_pairs`.
        n_words: size of the vocabulary; None for all words, which "bpe" does not know.
    """
    if words == "bpe":
        return byte_pairs({split: [line.strip() for line in found] for split, found in lines.items()}, n_words or 0)
    return _by_word(lines, basic_english if words == "basic_english" else plain, n_words)


def basic_english(line: str) -> list[str]:
    """Split a line as torchtext's `basic_english` does.

    >>> basic_english('He said: "No (never), it\\'s over!"')
    ['he', 'said', 'no', '(', 'never', ')', ',', 'it', "'", 's', 'over', '!']
    """
    return re.sub(r"([.,()!?'])", r" \1 ", re.sub(r"[;:]|<br />", " ", line.lower().replace('"', ""))).split()


def plain(line: str) -> list[str]:
    """Split a line at white space and end it with <eos>.

    >>> plain(" = Title = ")
    ['=', 'Title', '=', '<eos>']
    """
    return [*line.split(), END]


def byte_pairs(lines: Mapping[str, list[str]], n_words: int) -> Corpus:
    """Learn byte pairs from the training lines, and tokenise every split; each line ends with <eos>.

    Every text has a tokenisation, and none crosses a space. <unk> (0) is only what the text itself calls so.

    Source: Sennrich, Haddow, Birch (2016), arXiv:1508.07909, over bytes, by the `tokenizers` library.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=n_words,
        special_tokens=[AddedToken(UNKNOWN, lstrip=True), AddedToken(END)],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # Training does not know special tokens: without this the pairs of "<unk>" would be among the first to be joined.
    tokenizer.train_from_iterator((part.strip() for line in lines["train"] for part in line.split(UNKNOWN)), trainer)
    end = tokenizer.token_to_id(END)
    ids = {
        split: np.fromiter(
            (token for encoding in tokenizer.encode_batch_fast(found) for token in (*encoding.ids, end)), np.int32
        )
        for split, found in lines.items()
    }
    number = tokenizer.get_vocab()
    return Corpus(tuple(sorted(number, key=number.__getitem__)), ids)


def _by_word(lines: Mapping[str, Iterable[str]], split: Callable[[str], list[str]], n_words: int | None) -> Corpus:
    text = {part: [word for line in found for word in split(line)] for part, found in lines.items()}
    counts = Counter(text["train"])
    counts.pop(UNKNOWN, None)
    by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
    vocabulary = (UNKNOWN, *by_frequency[: None if n_words is None else n_words - 1])
    number = {word: i for i, word in enumerate(vocabulary)}
    ids = {part: np.array([number.get(word, 0) for word in found], dtype=np.int32) for part, found in text.items()}
    return Corpus(vocabulary, ids)
