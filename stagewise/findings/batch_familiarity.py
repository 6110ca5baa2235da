"""Is a probe batch foreign to a model? The loss of the models on it against that of a guess, and over training."""

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings._frames import InWords, rows_of
from stagewise.table import Role, with_role

LOSSES = Role.LOSS, Role.SQUARED_ERROR
"""Roles of what says whether the models know the batch."""


class Familiarity(enum.StrEnum):
    """Whether models know sequences like those of the probe batch."""

    HOME = "home"
    GUESSED = "guessed"
    RISES = "rises"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class BatchFamiliarity(InWords):
    """The familiarity of a probe batch, by the loss of the series on it. Losses in nats.

    Args:
        verdict: known; or foreign: the last model predicts it no better than a guess, or worse than the first did; or
            unknown, where no loss was measured: losses are nan then.
        first: loss at the first checkpoint.
        last: loss at the last checkpoint.
        guess: loss of the uniform distribution over the vocabulary.
        step: the last checkpoint.
    """

    verdict: Familiarity
    first: float
    last: float
    guess: float
    step: int

    @property
    def foreign(self) -> bool:
        """Whether the models were not trained on sequences like these."""
        return self.verdict in (Familiarity.GUESSED, Familiarity.RISES)

    @property
    def unknown(self) -> bool:
        """Whether it cannot be told."""
        return self.verdict is Familiarity.UNKNOWN

    @property
    def plain(self) -> dict[str, Any]:
        """The same for JSON, with `foreign`."""
        fields = {name: None if value != value else value for name, value in dataclasses.asdict(self).items()}
        return {"foreign": None if self.unknown else self.foreign, **fields}


def familiarity_of(table: pd.DataFrame, d_vocab: int, criteria: StageCriteria = DEFAULT) -> BatchFamiliarity | None:
    """Judge the probe batch of a table by the loss over training; None where it holds no loss in nats.

    A batch is foreign where the last loss is not below that of a guess, log(d_vocab), by `criteria.smallest`, or has
    risen over training by as much (`docs/accuracy.md` has how often that is right).

    >>> from stagewise.table import Quantity, declare
    >>> table = pd.DataFrame({"probe": "Mine", "quantity": "loss", "step": [0, 9], "value": [4.2, 9.4]})
    >>> declare(table, {"Mine": {"loss": Quantity("loss", "nats", role="loss")}})
    >>> familiarity_of(table, 64).verdict
    <Familiarity.GUESSED: 'guessed'>
    """
    if not with_role(table, Role.LOSS):
        return None
    rows = rows_of(table, Role.LOSS).sort_values("step", kind="stable")
    first, last, guess = float(rows["value"].iloc[0]), float(rows["value"].iloc[-1]), math.log(d_vocab)
    verdict = Familiarity.HOME
    if not last <= guess - criteria.smallest:
        verdict = Familiarity.GUESSED
    elif last >= first + criteria.smallest:
        verdict = Familiarity.RISES
    step = int(rows["step"].iloc[-1])
    return BatchFamiliarity(verdict, first, last, guess, step)


def familiarity_of_run(record: Mapping[str, Any], table: pd.DataFrame) -> BatchFamiliarity | None:
    """Judge the probe batch of checkpoints that were trained elsewhere; None for a run, measured on its own task.

    Args:
        record: of the measurement, from `run_folder.read_record`.
        table: what was measured.
    """
    config = ((record.get("recipe") or {}).get("architecture") or {}).get("config") or {}
    outputs = config.get("d_vocab_out")
    d_vocab = config.get("d_vocab") if outputs in (None, -1) else outputs  # -1 is TransformerLens's "as many"
    if "series" not in record or not isinstance(d_vocab, int) or d_vocab < 2:
        return None
    if not with_role(table, Role.LOSS, Role.SQUARED_ERROR):
        nothing, last = float("nan"), int(table["step"].max()) if len(table) else 0
        return BatchFamiliarity(Familiarity.UNKNOWN, nothing, nothing, math.log(d_vocab), last)
    return familiarity_of(table, d_vocab)
