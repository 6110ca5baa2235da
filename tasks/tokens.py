"""Sequences of one's own from a file of tokens: the probe batch for models of anything."""

import dataclasses
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.checkpoints.token_files import IGNORED, Sequences, read_sequences
from stagewise.fields import Count, Natural, check_fields
from stagewise.own_code import import_named, known, module_of
from stagewise.presets import AbstractTextTask
from stagewise.task import AbstractTask, Batch, check_number
from stagewise.tasks.pairs import Pairs, pairs_task
from stagewise.tasks.text import Text, Texts, text_task, tokenizer_of
from stagewise.text import first_token
from stagewise.text.token_relations import RELATIONS, token_relation


@dataclasses.dataclass(frozen=True)
class Tokens(AbstractTextTask):
    """Sequences of a file, each token predicted from those before it; a sample takes different ones, or all there are.

    Where the file has `labels`, only those that are not -100 are scored. The best prediction is unknown: there are no
    references.

    Args:
        file: .pt, .npy, .safetensors or a folder of `datasets`; see `checkpoints.token_files.read_sequences`.
        length: positions that a model sees; longer sequences are cut there.
        relations: names of `text.token_relations`, as "previous token" or "offset 31", and functions of one's own as
            "module:function", whose module has been imported: a name in data imports nothing.
        bos: a token that begins sequences, and is no duplicate of another.
        n_sequences: always None: a file has the sequences that it has.

    Raises:
        ValueError: a parameter is out of range, or (when sampling) the file holds no such sequences.
        FileNotFoundError: (when sampling) there is no such file.
    """

    file: str
    length: Count = 64
    relations: tuple[str, ...] = RELATIONS
    bos: Natural | None = None
    n_sequences: None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in self.relations:
            self._relation(name)

    @property
    def d_vocab(self) -> int:
        """The largest token of the file, and one: a model may have more."""
        return int(self.read.tokens.max()) + 1

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees."""
        return self.read.tokens.shape[1] - 1

    @property
    def available(self) -> int:
        """How many sequences of the file have a scored position."""
        return int(self._counted().any(1).sum())

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n different sequences, or as many as there are with a scored position."""
        check_number(n)
        tokens, counted = self.read.tokens, self._counted()
        (usable,) = counted.any(1).nonzero(as_tuple=True)
        if not len(usable):
            raise ValueError(f"no label of {self.file} counts: all are {IGNORED}")
        rows = usable[torch.from_numpy(np.random.default_rng(seed).permutation(len(usable))[:n])]
        return Batch.from_tokens(tokens[rows], {name: self._relation(name) for name in self.relations}, counted[rows])

    @property
    def read(self) -> Sequences:
        """The contents of the file, which is read once."""
        return _read(self.file, self.length + 1)

    def _counted(self) -> Bool[Tensor, "sequence pos"]:
        tokens, labels = self.read.tokens, self.read.labels
        return torch.ones_like(tokens[:, 1:], dtype=torch.bool) if labels is None else labels[:, 1:] != IGNORED

    def _relation(self, name: str):  # type: ignore[no-untyped-def]  # a function of tokens
        if ":" in name:
            if not callable(function := known(name, f"Tokens has the relation {name}")):
                raise ValueError(f"Tokens has the relation {name}: there is no such function, got {function!r:.200}")
            return function
        return lambda tokens: token_relation(name, tokens, -1 if self.bos is None else self.bos)


@lru_cache(maxsize=2)
def _read(file: str, longest: int) -> Sequences:
    return read_sequences(file, longest)


def _tokens_task(series: CheckpointSeries, file: str, relations: tuple[str, ...] = ()) -> Tokens:
    """Return the sequences of a file that fit the models of a series, up to as many positions as these have. A line on
    standard error says what of the file is cut or left out.
    """
    architecture, names = series.architecture, []
    for place, separator, name in (each.rpartition(":") for each in relations):
        if separator:
            import_named(f"{place}:{name}")
        names.append(f"{module_of(place)}{separator}{name}")  # what data may name is a module that was imported
    bos = architecture.bos if (tokenizer := tokenizer_of(series)) is None else first_token(str(tokenizer))
    task = Tokens(str(file), int(architecture.config["n_ctx"]), tuple(names) or RELATIONS, bos)
    # Errors of the file are raised before any checkpoint is read.
    task.sample(1, seed=0).check_ids(int(architecture.config["d_vocab"]), f"the models of {series.name}")
    if task.read.left_out:
        print(f"{file}: {task.read.left_out}", file=sys.stderr)
    return task


def own_task(
    series: CheckpointSeries,
    tokens: object = None,
    relations: Sequence[str] = (),
    text: Texts | None = None,
    tokenizer: str | None = None,
    pairs: str | Path | None = None,
    own: AbstractTask | None = None,
    summed: bool | None = None,
) -> Tokens | Text | Pairs | None:
    """Return the task of a file of tokens, of pairs or of a text, that the models of a series read; of none, None.

    `own` is the task that a run was trained on, whose words prompts may be written in; `summed` is that of `Pairs`.
    """
    if tokens is not None and text:
        raise ValueError("give either tokens or a text, not both")
    if pairs is not None and (tokens is not None or text):
        raise ValueError("give either pairs, or tokens or a text, not both")
    if pairs is not None:
        return pairs_task(series, pairs, tokenizer, own, summed)
    if not text and tokenizer is not None:
        raise ValueError(f"the tokenizer {tokenizer} was given without a text or pairs: give one too")
    if tokens is None and relations:
        raise ValueError(f"the relation {relations[0]} was given without tokens: give a file of tokens too")
    if tokens is not None and not isinstance(tokens, str | Path):
        raise TypeError(
            f"tokens are a file here, got {type(tokens).__name__}: give sequences in memory as "
            "batch=Batch.from_tokens(tokens)"
        )
    if tokens is not None:
        return _tokens_task(series, str(tokens), tuple(relations))
    return text_task(series, text, tokenizer) if text else None
