"""Is a probe batch at home here? The loss of the models on it against that of a guess, and over training."""

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stagewise.detection.criteria import DEFAULT, StageCriteria
from stagewise.table import select

ADVICE = (
    "Measure on sequences that it was trained on: --tokens FILE or --text FILE; in Python, `tokens=` or `text=` of "
    "analyse, or batch=Batch.from_tokens(tokens)."
)


class Familiarity(enum.StrEnum):
    """Whether models know sequences like those of the probe batch."""

    HOME = "home"
    GUESSED = "guessed"
    RISES = "rises"


@dataclasses.dataclass(frozen=True)
class Home:
    """What the loss of a series says of its probe batch. Losses in nats.

    Args:
        verdict: at home; or foreign: the last model predicts it no better than a guess, or worse than the first did.
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
        return self.verdict is not Familiarity.HOME

    def __str__(self) -> str:
        if not self.foreign:
            return (
                f"The probe batch is at home here: its loss goes from {self.first:.2f} to {self.last:.2f} nats, "
                f"below the {self.guess:.2f} of a guess."
            )
        why = (
            f"at step {self.step} the model predicts it no better than a guess"
            if self.verdict is Familiarity.GUESSED
            else f"its loss rises over training, from {self.first:.2f} nats"
        )
        return (
            f"The probe batch is foreign to this model: {why} (loss {self.last:.2f} nats, a guess {self.guess:.2f}). "
            f"What it shows is not what the model was trained for. {ADVICE}"
        )


def home_of(table: pd.DataFrame, d_vocab: int, criteria: StageCriteria = DEFAULT) -> Home | None:
    """Judge the probe batch of a table by the loss over training; None where it holds no loss in nats.

    A batch is foreign where the last loss is not below that of a guess, log(d_vocab), by `criteria.smallest`, or has
    risen over training by as much.

    >>> table = pd.DataFrame({"probe": "Loss", "quantity": "cross_entropy", "step": [0, 9], "value": [4.2, 9.4]})
    >>> home_of(table, 64).verdict
    <Familiarity.GUESSED: 'guessed'>
    """
    if not ((table["probe"] == "Loss") & (table["quantity"] == "cross_entropy")).any():
        return None
    rows = select(table, "Loss", "cross_entropy").sort_values("step", kind="stable")
    first, last, guess = float(rows["value"].iloc[0]), float(rows["value"].iloc[-1]), math.log(d_vocab)
    verdict = Familiarity.HOME
    if not last <= guess - criteria.smallest:
        verdict = Familiarity.GUESSED
    elif last >= first + criteria.smallest:
        verdict = Familiarity.RISES
    return Home(verdict, first, last, guess, int(rows["step"].iloc[-1]))


def home_of_run(record: Mapping[str, Any], table: pd.DataFrame) -> Home | None:
    """Judge the probe batch of checkpoints that were trained elsewhere; None for a run, measured on its own task.

    Args:
        record: of the measurement, from `run_folder.read_record`.
        table: what was measured.
    """
    config = ((record.get("recipe") or {}).get("architecture") or {}).get("config") or {}
    d_vocab = config.get("d_vocab_out") or config.get("d_vocab")
    if "series" not in record or not isinstance(d_vocab, int) or d_vocab < 2:
        return None
    return home_of(table, d_vocab)
