"""Any text, split into windows: the probe batch for models of natural language."""

import dataclasses
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.fields import Natural, check_fields
from stagewise.presets import AbstractTextTask
from stagewise.task import Batch, check_number
from stagewise.text import ACCEPTED, TOKENIZER, decode, encode, first_token, vocabulary_size
from stagewise.text.token_relations import token_relations

_LENGTH = 64
"""Positions of a window, where the models have so many."""

Texts = str | Path | Sequence[str | Path]
"""A file of text in UTF-8, or several."""


@dataclasses.dataclass(frozen=True)
class Text(AbstractTextTask):
    """Windows of a text, every next token scored. A sample takes different windows, all of them where it asks for more.

    The relations are those of `text.token_relations`: previous token, duplicate token, induction, first token,
    self. The best prediction is unknown: there are no references.

    Args:
        tokenizer: the model's: a tokenizer.json, a folder that holds one, or a repository of the hub that does.
        files: of text in UTF-8, read one after the other.
        text: the text itself, where there are no files.
        length: positions of a window.
        bos: a token to put first in every window, where the models were trained with one.
        n_sequences: always None: a text has the windows that it has.

    Raises:
        ValueError: a parameter is out of range, or (when sampling) the text is shorter than a window.
        FileNotFoundError: (when sampling) a file or the tokenizer is not there.
    """

    tokenizer: str
    files: tuple[str, ...] = ()
    text: str | None = None
    length: int = 64
    bos: Natural | None = None
    n_sequences: None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if bool(self.files) == (self.text is not None):
            raise ValueError("give either `files` or the `text` itself")
        if self.length < 2:
            raise ValueError(f"a window has at least 2 positions, got length={self.length}")

    @property
    def d_vocab(self) -> int:
        """Number of tokens of the tokenizer; a model may have more."""
        return vocabulary_size(self.tokenizer)

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees."""
        return self.length

    @property
    def available(self) -> int:
        """How many windows the text has."""
        return len(self._windows())

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n windows that do not overlap, or as many as there are."""
        check_number(n)
        windows = self._windows()
        order = np.random.default_rng(seed).permutation(len(windows))[:n]
        chosen = windows[torch.from_numpy(order)]
        tokens = chosen[:, :-1].contiguous()
        relations = token_relations(tokens, skipped=-1 if self.bos is None else self.bos)
        return Batch(tokens, chosen[:, 1:].contiguous(), torch.ones_like(tokens, dtype=torch.bool), relations)

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token by itself."""
        return decode(tokens, self.tokenizer)

    def token_ids(self) -> np.ndarray:
        """Return the token ids of the whole text; it is read once."""
        return np.array(_token_ids(self.files, self.text, self.tokenizer), dtype=np.int64)

    def _windows(self) -> Tensor:
        """Split the text into windows with the token after each: [window, length + 1]."""
        token_ids = self.token_ids()
        start = [] if self.bos is None else [self.bos]
        taken = self.length + 1 - len(start)
        if not (n := len(token_ids) // taken):
            raise ValueError(
                f"the text has {len(token_ids)} tokens, a window takes {taken}: give a longer text or a smaller length"
            )
        rows = torch.from_numpy(token_ids[: n * taken]).view(n, taken)
        return torch.cat([torch.tensor(start, dtype=torch.int64).expand(n, -1), rows], 1)


@lru_cache(maxsize=2)
def _token_ids(files: tuple[str, ...], text: str | None, tokenizer: str) -> list[int]:
    if text is None:
        text = "".join(_read(Path(file)) for file in files)
    return encode(text, tokenizer)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf8")
    except UnicodeDecodeError as reason:
        raise ValueError(f"{path} is no text in UTF-8 ({reason})") from reason
    except (FileNotFoundError, IsADirectoryError) as reason:
        raise FileNotFoundError(f"there is no text file {path}") from reason


def tokenizer_of(series: CheckpointSeries, *others: str) -> Path | None:
    """Return the tokenizer beside the checkpoints, or in their repository, or what else holds one; None for none."""
    return None if series.source is None else next(filter(None, map(series.source.file, (TOKENIZER, *others))), None)


def text_task(series: CheckpointSeries, text: Texts, tokenizer: str | None = None) -> Text:
    """Return the windows of a text that fit the models of a series, each after the token that the tokenizer puts first.

    Without a tokenizer, by the one that lies beside the checkpoints, or in the series' own repository. A line on
    standard error names the first token.
    """
    files = tuple(str(file) for file in ([text] if isinstance(text, str | Path) else text))
    if tokenizer is None:
        if (file := tokenizer_of(series, ".gguf")) is None:
            raise FileNotFoundError(
                f"no tokenizer: there is no {TOKENIZER} beside the checkpoints of {series.name}. Give the tokenizer "
                f"that the models were trained with: {ACCEPTED}"
            )
        tokenizer = str(file)
    architecture = series.architecture
    d_vocab, n_ctx = int(architecture.config["d_vocab"]), int(architecture.config["n_ctx"])
    task = Text(tokenizer, files, length=min(_LENGTH, n_ctx), bos=first_token(tokenizer))
    task.sample(1, seed=0)  # errors of the text or the tokenizer are raised before any checkpoint is read
    if (largest := int(task.token_ids().max())) >= d_vocab:
        raise ValueError(
            f"the tokenizer {tokenizer} gives token {largest} for this text, and the models of {series.name} have "
            f"{d_vocab} tokens, counted from 0: give the tokenizer that they were trained with"
        )
    if task.bos is not None:
        [first] = task.as_text([task.bos])
        print(f"each window begins with {first!r}, token {task.bos}, as {tokenizer} has it", file=sys.stderr)
    return task
