"""The user's own text as the probe batch of a series, with the tokenizer that its models were trained with."""

from collections.abc import Sequence
from pathlib import Path

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.tasks import Text
from stagewise.text.tokenizer import ASKED, TOKENIZER

LENGTH = 64
"""Positions of a window, where the models have so many."""


Texts = str | Path | Sequence[str | Path]
"""A file of text in UTF-8, or several."""


def asked_task(series: CheckpointSeries, text: Texts | None, tokenizer: str | None) -> Text | None:
    """Return the task of a text, or None where there is none.

    Raises:
        ValueError: a tokenizer without a text, and all that `text_task` raises.
    """
    if not text and tokenizer is not None:
        raise ValueError(f"the tokenizer {tokenizer} has nothing to read: give a text too")
    return text_task(series, text, tokenizer) if text else None


def text_task(series: CheckpointSeries, text: Texts, tokenizer: str | None = None) -> Text:
    """Return the windows of a text that fit the models of a series, after their BOS token if the config names one.

    Args:
        series: whose models will read it.
        text: a file in UTF-8, or several.
        tokenizer: a tokenizer.json, a folder that holds one, or a repository of the hub that does; None takes the one
            that lies beside the checkpoints, or in the series' own repository.

    Raises:
        FileNotFoundError: there is no tokenizer, or no such file.
        ValueError: the text is too short, or the tokenizer is another model's.
        OSError: the hub does not answer.
    """
    files = tuple(str(file) for file in ([text] if isinstance(text, str | Path) else text))
    if tokenizer is None:
        found = None if series.source is None else series.source.beside(TOKENIZER)
        if found is None:
            raise FileNotFoundError(
                f"no tokenizer: there is no {TOKENIZER} beside the checkpoints of {series.name}. Give the tokenizer "
                f"that the models were trained with: {ASKED}"
            )
        tokenizer = str(found)
    architecture = series.architecture
    d_vocab, n_ctx = int(architecture.config["d_vocab"]), int(architecture.config["n_ctx"])
    task = Text(tokenizer, files, length=min(LENGTH, n_ctx), bos=architecture.bos)
    task.sample(1, seed=0)  # what is wrong with text or tokenizer comes out before any checkpoint is read
    if (largest := int(task.numbers().max())) >= d_vocab:
        raise ValueError(
            f"the tokenizer {tokenizer} makes token {largest} of this text, and the models of {series.name} have "
            f"{d_vocab} tokens, counted from 0: give the tokenizer that they were trained with"
        )
    return task
