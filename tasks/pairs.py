"""Prompts of a file, each with a right and a wrong answer: the probe batch of a behaviour."""

import dataclasses
import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path

import torch

from stagewise.batch import Prompts, prompts_of
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.fields import Natural, check_fields
from stagewise.task import AbstractTask, check_number
from stagewise.tasks.text import Text, tokenizer_of
from stagewise.text import ACCEPTED, TOKENIZER, decode, encode, first_token, unknown_token
from stagewise.text.pairs import encode_pairs, read_pairs


@dataclasses.dataclass(frozen=True)
class Pairs(AbstractTask):
    """Prompts with a right and a wrong answer; a sample takes different ones, or all there are.

    Args:
        file: see `text.pairs.read_pairs`.
        tokenizer: the model's, as `Text` takes it; None splits prompts at spaces into `words`.
        words: of each token, where there is no tokenizer; none for numbers.
        bos: a token to put first in every prompt.
        summed: whether answers are compared by their summed log-probability; None decides by the format.

    Raises:
        ValueError: a parameter is out of range, or (when sampling) a file that cannot be read, or with less than four
            prompts; answers that begin alike; a corrupted prompt of another length; a word that is no token.
        FileNotFoundError: (when sampling) there is no such file.
    """

    file: str
    tokenizer: str | None = None
    words: tuple[str, ...] = ()
    bos: Natural | None = None
    summed: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def d_vocab(self) -> int:
        """The largest token of the file, and one: a model may have more."""
        prompts = _read(self)[0]
        beside = [other.tokens for other in prompts.others.values()]
        return 1 + int(max(part.max() for part in (prompts.tokens, prompts.right, prompts.wrong, *beside)))

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees."""
        return _read(self)[0].tokens.shape[1]

    @property
    def available(self) -> int:
        """How many prompts the file has."""
        return len(_read(self)[0])

    @property
    def notes(self) -> Sequence[str]:
        """What the tokenizer does with the prompts, and what is compared, in words."""
        return _read(self)[1]

    def sample(self, n: int, seed: int) -> Prompts:
        """Sample n different prompts, or as many as there are; those of one length are neighbours."""
        check_number(n)
        order = torch.randperm(self.available, generator=torch.Generator().manual_seed(seed % 2**63))
        chosen = _read(self)[0][order[:n].sort().values]
        assert isinstance(chosen, Prompts)
        return chosen

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token by itself."""
        if self.tokenizer is not None:
            return decode(tokens, self.tokenizer)
        return [self.words[token] if self.words else str(token) for token in tokens]


@lru_cache(maxsize=2)
def _read(task: Pairs) -> tuple[Prompts, Sequence[str]]:
    """Return the prompts, and what is said of them."""
    unknown = None if task.tokenizer is None else unknown_token(task.tokenizer)
    read = partial(encode, tokenizer=task.tokenizer) if task.tokenizer is not None else partial(_words, task.words)
    pairs, text = read_pairs(task.file), lambda token: task.as_text([token])[0]
    encoded = encode_pairs(pairs, read, text, task.bos, unknown, task.summed)
    return prompts_of(encoded), encoded.notes


def _words(words: Sequence[str], text: str) -> list[int]:
    """Return the tokens of words with spaces between them, or numbers where tokens have no words."""
    numbers = {word: number for number, word in enumerate(words)}
    if unknown := [each for each in text.split() if each not in numbers and (words or not each.isdecimal())]:
        known = f"it has {', '.join(words[:8])} and so on" if words else "tokens are numbers here"
        raise ValueError(f"{unknown[0]!r} in {text!r} is no token of the models: {known}")
    return [numbers[each] if words else int(each) for each in text.split()]


def pairs_task(
    series: CheckpointSeries,
    file: str | Path,
    tokenizer: str | None = None,
    own: AbstractTask | None = None,
    summed: bool | None = None,
) -> Pairs:
    """Return the prompts of a file for the models of a series, by their tokenizer of that revision, or the words of the
    run's `own` task. Lines on standard error say what the tokenizer does, and what is compared.
    """
    found = tokenizer or tokenizer_of(series, ".gguf") or (own.tokenizer if isinstance(own, Text) else None)
    d_vocab = int(series.architecture.config["d_vocab"])
    if found is not None:
        bos = own.bos if isinstance(own, Text) else first_token(str(found))
        task = Pairs(str(file), str(found), bos=bos, summed=summed)
    elif own is not None:
        task = Pairs(str(file), None, tuple(own.as_text(range(d_vocab))), summed=summed)
    elif all(each.isdecimal() for pair in read_pairs(file) for each in pair.prompt.split()):
        task = Pairs(str(file), None, bos=series.architecture.bos, summed=summed)
    else:
        raise FileNotFoundError(
            f"no tokenizer: there is no {TOKENIZER} beside the checkpoints of {series.name}, and the prompts are no "
            f"numbers. Give the tokenizer that the models were trained with: {ACCEPTED}"
        )
    # Errors of the file are raised before any checkpoint is read.
    if (outputs := min(d_vocab, series.architecture.n_outputs)) < task.d_vocab:
        raise ValueError(
            f"{file} holds token {task.d_vocab - 1}, and the models of {series.name} have {outputs}, counted from 0: "
            "give the tokenizer that they were trained with"
        )
    if (most := int(series.architecture.config["n_ctx"])) < task.n_ctx:
        raise ValueError(f"{file} has prompts of up to {task.n_ctx} tokens, and the models of {series.name} see {most}")
    for note in task.notes:
        print(f"{file}: {note}", file=sys.stderr)
    return task
