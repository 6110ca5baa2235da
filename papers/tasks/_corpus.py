"""From the lines of a text to token ids: by word, as torchtext does, or by byte pairs trained on the training text."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np

UNKNOWN, END = "<unk>", "<eos>"

TokenizerKind = Literal["plain", "basic_english", "bpe"]

BYTES = 256
"""Tokens of a byte-level vocabulary before any pair is joined."""


class Corpus(NamedTuple):
    """The tokens of the vocabulary by id, and the ids of each split in reading order."""

    vocabulary: tuple[str, ...]
    ids: Mapping[str, np.ndarray]


def corpus(lines: Mapping[str, Iterable[str]], tokenizer: TokenizerKind, vocab_size: int | None) -> Corpus:
    """Tokenise every split; the vocabulary is that of the split called "train"."""
    if tokenizer == "bpe":
        return _byte_pairs({split: [line.strip() for line in part] for split, part in lines.items()}, vocab_size or 0)
    return _by_word(lines, _basic_english if tokenizer == "basic_english" else _plain, vocab_size)


def _basic_english(line: str) -> list[str]:
    """Split a line as torchtext's `basic_english` does."""
    return re.sub(r"([.,()!?'])", r" \1 ", re.sub(r"[;:]|<br />", " ", line.lower().replace('"', ""))).split()


def _plain(line: str) -> list[str]:
    """Split a line at white space and end it with <eos>."""
    return [*line.split(), END]


def _byte_pairs(lines: Mapping[str, list[str]], vocab_size: int) -> Corpus:
    """Train byte-pair encoding on the training lines, and tokenise every split; each line ends with <eos>.

    No token crosses a space; <unk> (0) appears only where the text itself has it.
    Source: Sennrich, Haddow, Birch (2016), arXiv:1508.07909, over bytes, by the `tokenizers` library.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(UNKNOWN, lstrip=True), AddedToken(END)],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    # Training does not know special tokens: without this the pairs of "<unk>" would be among the first to be joined.
    tokenizer.train_from_iterator((part.strip() for line in lines["train"] for part in line.split(UNKNOWN)), trainer)
    end = tokenizer.token_to_id(END)
    ids = {
        split: np.fromiter(
            (token for encoding in tokenizer.encode_batch_fast(part) for token in (*encoding.ids, end)), np.int32
        )
        for split, part in lines.items()
    }
    token_id = tokenizer.get_vocab()
    return Corpus(tuple(sorted(token_id, key=token_id.__getitem__)), ids)


def byte_text(token: str) -> str:
    """Return the text of a token of `_byte_pairs`; a part of a character is a replacement character."""
    from tokenizers import decoders

    text: str = decoders.ByteLevel().decode([token])
    return text


def _by_word(lines: Mapping[str, Iterable[str]], split: Callable[[str], list[str]], vocab_size: int | None) -> Corpus:
    first_seen: dict[str, int] = {}  # numbers, since lists of WikiText-103's words would not fit in memory
    texts = {
        name: np.fromiter(
            (first_seen.setdefault(word, len(first_seen)) for line in part for word in split(line)), np.int32
        )
        for name, part in lines.items()
    }
    counts = np.bincount(texts["train"], minlength=len(first_seen)).tolist()
    counted = {word: counts[i] for word, i in first_seen.items() if counts[i] and word != UNKNOWN}
    by_frequency = sorted(counted, key=lambda word: (-counted[word], word))
    vocabulary = (UNKNOWN, *by_frequency[: None if vocab_size is None else vocab_size - 1])
    token_id = {word: i for i, word in enumerate(vocabulary)}
    ids = np.array([token_id.get(word, 0) for word in first_seen], dtype=np.int32)
    return Corpus(vocabulary, {name: ids[text] for name, text in texts.items()})
