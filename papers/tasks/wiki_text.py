"""Real text: WikiText, with the n-gram predictors of its training text as partial solutions."""

import dataclasses
import importlib.resources
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Generator, Tensor

from stagewise.architectures import reshaped
from stagewise.fields import Share, check_fields
from stagewise.papers.tasks import n_grams
from stagewise.papers.tasks._corpus import BYTES, Corpus, TokenizerKind, byte_text, corpus
from stagewise.presets import Preset, text_architecture, text_plan
from stagewise.recipe import Recipe
from stagewise.task import EVALUATION, TRAINING, AbstractTask, Batch, derive_seed
from stagewise.tasks.repeated_tokens import RepeatedTokens
from stagewise.text.token_relations import token_relations

EMBEDDED = "embedded"
_STRETCH = 20
"""Verses of the embedded text that stay together."""

_FOLDER_VARIABLE = "STAGEWISE_WIKITEXT"
_SPLITS = {"train": "train.txt", "validation": "valid.txt", "test": "test.txt"}
_RELATIONS = ("previous token", "duplicate token", "induction")
_LAYERS = range(1, 5)

_REPEATED = 96
"""Sequences of repeated tokens."""


@dataclasses.dataclass(frozen=True)
class WikiText(AbstractTask):
    """Windows of WikiText, every next token scored; training windows from `train`, probe batches from `validation`.

    Relations: `previous token` (the key just before the query), `duplicate token` (earlier keys with the query's token)
    and `induction` (keys that follow those).

    Args:
        name: configuration on the hub.
        length: positions of a window.
        tokenizer: "plain" splits at white space and ends each line with <eos>; "basic_english" is torchtext's: lower
            case, punctuation apart, quotation marks, colons and semicolons dropped, no <eos>; "bpe" is byte-pair
            encoding trained on `train`, which can encode every text.
        vocab_size: number of tokens of the vocabulary, the most frequent words of `train`; the others become <unk>.
            None for all. "bpe" needs at least 258.
        data: a folder with train.txt, valid.txt and test.txt; or "embedded", the text in this package: Genesis, and
            Exodus to chapter 24, in the King James Version (1611, public domain; 50,000 words). None takes the
            environment variable STAGEWISE_WIKITEXT, or else the hub.
        repeating: share of the training windows that repeat their beginning over and over: an excerpt of an eighth to
            a half of the window. Probe batches hold the text as it is.
        n_sequences: always None: the windows of a step are drawn anew from the text.

    Raises:
        ValueError: a parameter is out of range.
        OSError: neither folder nor hub can be reached; the message names both ways.

    Source: Merity et al. (2016), Pointer Sentinel Mixture Models, arXiv:1609.07843; the WikiText2 experiments of
    Tian et al. (2023), arXiv:2305.16380, use "basic_english". That repetition in context hastens sparse attention is
    what Zucchet et al. (2025), arXiv:2505.17863, find on synthetic tasks.
    """

    name: str = "wikitext-2-v1"
    length: int = 64
    tokenizer: TokenizerKind = "plain"
    vocab_size: int | None = None
    data: str | None = None
    repeating: Share = 0.0
    n_sequences: None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.length < 2 or (self.vocab_size is not None and self.vocab_size < 2):
            raise ValueError(
                f"length and vocab_size must be at least two, got length={self.length}, vocab_size={self.vocab_size}"
            )
        if self.tokenizer == "bpe" and (self.vocab_size or 0) < BYTES + 2:
            raise ValueError(
                f'tokenizer="bpe" needs a vocab_size of at least {BYTES + 2} (all bytes, <unk>, <eos>); '
                f"got {self.vocab_size}"
            )

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "attention-only" and "mlp": see `recipe`."""
        return {"attention-only": partial(_preset, True), "mlp": partial(_preset, False)}

    @property
    def d_vocab(self) -> int:
        """Number of tokens of the vocabulary."""
        return len(self.corpus().vocabulary)

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees."""
        return self.length

    def corpus(self) -> Corpus:
        """Return the vocabulary and the text; read once a process."""
        return _corpus(*self._read())

    @property
    def nested(self) -> tuple[str, ...]:
        """None of the references: n-gram models are compared with, none is the complete solution."""
        return ()

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n windows of the training text."""
        return self._windows("train", n, seed)

    def probe_batch(self, n: int, seed: int) -> Batch:
        """Sample n windows of the validation text, with references."""
        batch = self._windows("validation", n, derive_seed(seed, EVALUATION))
        return dataclasses.replace(batch, references=self.references(batch), nested=self.nested)

    def repeated_batch(self, seed: int) -> Batch:
        """Sample random tokens and some again, of the frequent half of the vocabulary: the rest is barely trained."""
        counts = np.bincount(self.corpus().ids["train"], minlength=self.d_vocab)
        frequent = torch.from_numpy(np.argsort(-counts, kind="stable")[: max(self.d_vocab // 2, 2)].copy())
        length = min(RepeatedTokens.longest(self.length), len(frequent))
        batch = RepeatedTokens(len(frequent), length).probe_batch(_REPEATED, seed)
        return dataclasses.replace(batch, tokens=frequent[batch.tokens], targets=frequent[batch.targets], references={})

    def stream(self, seed: int) -> Callable[[int, int], Batch]:
        """Return the training data: a function of (step, batch size)."""
        return lambda step, size: self._windows("train", size, derive_seed(seed, TRAINING, step), relations=False)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return the unigram, bigram and trigram models of the training text (nats); see `n_grams.distributions`.

        Each holds batch * length * d_vocab numbers: keep the batch small, or set vocab_size.
        """
        probabilities = n_grams.distributions(_n_grams(*self._read()), batch.tokens.numpy())
        return {name: torch.from_numpy(np.log(p)).float() for name, p in probabilities.items()}

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return the words of the vocabulary, or the text of byte pairs."""
        words = [self.corpus().vocabulary[token] for token in tokens]
        return [byte_text(word) for word in words] if self.tokenizer == "bpe" else words

    def _read(self) -> tuple[str, str | None, TokenizerKind, int | None]:
        return self.name, self.data or os.environ.get(_FOLDER_VARIABLE) or None, self.tokenizer, self.vocab_size

    def _windows(self, split: str, n: int, seed: int, relations: bool = True) -> Batch:
        text = torch.from_numpy(self.corpus().ids[split])
        if n < 1 or len(text) <= self.length:
            raise ValueError(f"a batch needs a window or more of {self.length + 1} tokens, {split} has {len(text)}")
        generator = Generator().manual_seed(seed)
        start = torch.randint(len(text) - self.length, (n, 1), generator=generator)
        offsets = torch.arange(self.length + 1).expand(n, -1)
        if split == "train" and self.repeating:
            excerpt = torch.randint(max(self.length // 8, 1), self.length // 2 + 1, (n, 1), generator=generator)
            again = torch.rand(n, 1, generator=generator) < self.repeating
            offsets = torch.where(again, offsets % excerpt, offsets)
        window = text[start + offsets].long()
        tokens = window[:, :-1]
        scored = torch.ones_like(tokens, dtype=torch.bool)
        return Batch(tokens, window[:, 1:], scored, _relations(tokens) if relations else {})


def _relations(tokens: Tensor) -> dict[str, Tensor]:
    relations = token_relations(tokens)
    return {name: relations[name] for name in _RELATIONS}


@lru_cache(maxsize=4)
def _corpus(name: str, folder: str | None, tokenizer: TokenizerKind, vocab_size: int | None) -> Corpus:
    return corpus(_lines(name, folder), tokenizer, vocab_size)


@lru_cache(maxsize=2)
def _n_grams(name: str, folder: str | None, tokenizer: TokenizerKind, vocab_size: int | None) -> n_grams.NGrams:
    text = _corpus(name, folder, tokenizer, vocab_size)
    return n_grams.count(text.ids["train"], len(text.vocabulary))


def _lines(name: str, folder: str | None) -> dict[str, Iterable[str]]:
    import datasets

    if folder == EMBEDDED:
        return _embedded()
    if folder is not None:
        files = {split: str(Path(folder) / file) for split, file in _SPLITS.items()}
        if missing := [file for file in files.values() if not Path(file).is_file()]:
            raise FileNotFoundError(
                f"{', '.join(missing)} not found: the folder given as data or in {_FOLDER_VARIABLE} must hold "
                f"{', '.join(_SPLITS.values())}; without a folder {name} is fetched from the hub"
            )
        rows = datasets.load_dataset("text", data_files=files, streaming=True)
    else:
        try:
            rows = datasets.load_dataset("Salesforce/wikitext", name)
        except (OSError, ValueError) as reason:
            raise OSError(
                f"{name} cannot be fetched from the hub ({reason}). Connect and try again, or put "
                f"{', '.join(_SPLITS.values())} in a folder and give it as data=... (--data on the "
                f"command line) or in {_FOLDER_VARIABLE}"
            ) from reason
    return {split: (row["text"] for row in rows[split]) for split in _SPLITS}


def _embedded() -> dict[str, Iterable[str]]:
    """Return the verses of the text in the package: of ten stretches eight train, one validates, one tests."""
    verses = (
        (importlib.resources.files("stagewise.papers.tasks") / "king_james.txt").read_text(encoding="utf8").splitlines()
    )
    splits: dict[str, list[str]] = {split: [] for split in _SPLITS}
    for start in range(0, len(verses), _STRETCH):
        split = {8: "validation", 9: "test"}.get(start // _STRETCH % 10, "train")
        splits[split] += verses[start : start + _STRETCH]
    return {**splits}


def recipe(n_layers: int = 2, *, attn_only: bool = True, steps: int = 5000, seed: int = 0, **fields: Any) -> Recipe:
    """Return a recipe that trains in a few minutes of one core.

    Queries and keys see the positions, values do not ("shortformer", Press et al. 2021, arXiv:2012.15832): with this
    the loss falls sooner, at this size, than with positions in the residual stream. On the text as it is, this size and
    these minutes give no induction heads; where some of the training windows repeat themselves, they do.

    Args:
        n_layers: 1 to 4, of four heads and width 128.
        attn_only: without MLPs.
        steps: optimiser updates.
        seed: of the initial weights, the windows drawn and the evaluation.
        **fields: of the task, where not 1024 byte pairs, windows of 64 positions, 30 % of which repeat an excerpt;
            where no `data`, the folder in STAGEWISE_WIKITEXT, or else the text in the package.

    Raises:
        ValueError: a number out of range.
        OSError: neither folder nor hub can be reached.
    """
    if n_layers not in _LAYERS:
        raise ValueError(f"layers must be {_LAYERS[0]} to {_LAYERS[-1]}, got {n_layers}")
    data = None if os.environ.get(_FOLDER_VARIABLE) else EMBEDDED
    task = WikiText(**{"tokenizer": "bpe", "vocab_size": 1024, "repeating": 0.3, "data": data, **fields})
    model = text_architecture(task.length, task.d_vocab, n_layers, attn_only=attn_only)
    return Recipe(task, model, text_plan(steps, seed))


def _preset(attn_only: bool, seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    made = recipe(2 if n_layers is None else n_layers, attn_only=attn_only, seed=seed, **fields)
    return dataclasses.replace(made, architecture=reshaped(made.architecture, n_heads, None))
