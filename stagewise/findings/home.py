"""Is a probe batch foreign to a model? The loss of the models on it against that of a guess, and over training."""

import dataclasses
import enum
import math
import textwrap
from collections.abc import Mapping
from typing import Any

import pandas as pd

from stagewise.statistics import DEFAULT, StageCriteria
from stagewise.table import select

ADVICE = (
    "Measure on sequences that it was trained on: --tokens FILE or --text FILE; in Python, `tokens=` or `text=` of "
    "analyse, or batch=Batch.from_tokens(tokens)."
)
LISTED = 8
"""Positions that are named."""

CAVEAT = "Measured on a batch that is foreign to the model"
"""What stands above every finding on such a batch."""

LOSSES = "Loss", "LossByPosition.cross_entropy"
"""What of a table says whether the batch is at home."""


class Familiarity(enum.StrEnum):
    """Whether models know sequences like those of the probe batch."""

    HOME = "home"
    GUESSED = "guessed"
    RISES = "rises"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class Home:
    """What the loss of a series says of its probe batch. Losses in nats.

    Args:
        verdict: at home; or foreign: the last model predicts it no better than a guess, or worse than the first did; or
            unknown, where no loss was measured: losses are nan then.
        first: loss at the first checkpoint.
        last: loss at the last checkpoint.
        guess: loss of the uniform distribution over the vocabulary.
        step: the last checkpoint.
        positions: of a foreign batch, those that the last model predicts better than a guess nevertheless.
    """

    verdict: Familiarity
    first: float
    last: float
    guess: float
    step: int
    positions: tuple[int, ...] = ()

    @property
    def foreign(self) -> bool:
        """Whether the models were not trained on sequences like these."""
        return self.verdict in (Familiarity.GUESSED, Familiarity.RISES)

    @property
    def unknown(self) -> bool:
        """Whether it cannot be told."""
        return self.verdict is Familiarity.UNKNOWN

    def __str__(self) -> str:
        if self.unknown:
            return "Whether the probe batch is foreign to this model is not known: no loss was measured (Loss)."
        if not self.foreign:
            return (
                f"This model knows the probe batch: its loss goes from {self.first:.2f} to {self.last:.2f} nats, "
                f"below the {self.guess:.2f} of a guess."
            )
        barely = "hardly" if self.last < self.guess else "no"
        why = (
            f"at step {self.step} the model predicts it {barely} better than a guess"
            if self.verdict is Familiarity.GUESSED
            else f"its loss rises over training, from {self.first:.2f} nats"
        )
        return (
            f"The probe batch is foreign to this model: {why} (loss {self.last:.2f} nats, a guess {self.guess:.2f}). "
            f"What it shows is not what the model was trained for. {ADVICE}{self._partly()}"
        )

    def _partly(self) -> str:
        if not self.positions:
            return ""
        known = ", ".join(map(str, self.positions[:LISTED])) + (", ..." if len(self.positions) > LISTED else "")
        return (
            f" It does predict the tokens after position{'s'[: len(self.positions) - 1]} {known}: if it was trained on "
            "these alone, leave the others out, with `labels` of -100 in the file, or scored= of Batch.from_tokens."
        )

    @property
    def plain(self) -> dict[str, Any]:
        """The same for JSON, with `foreign`."""
        fields = {name: None if value != value else value for name, value in dataclasses.asdict(self).items()}
        return {"foreign": None if self.unknown else self.foreign, **fields}


def qualified(findings: str, home: Home | None) -> str:
    """Return findings in words; on a foreign batch indented below a line that says so.

    >>> print(qualified("L0H1 attends to offset 3", Home(Familiarity.RISES, 2.0, 3.0, 4.0, 9)))
    Measured on a batch that is foreign to the model:
      L0H1 attends to offset 3
    """
    if home is None or not home.foreign:
        return findings
    return f"{CAVEAT}:\n{textwrap.indent(findings, '  ')}"


def warned(findings: str, home: Home | None) -> str:
    """Return findings in words, as `qualified`, below what `caution` says."""
    return caution(home) + qualified(findings, home)


def caution(home: Home | None) -> str:
    """Return a line that says of a batch that it is foreign, and what to do, or that nobody knows; else nothing."""
    return f"{home}\n" if home is not None and (home.foreign or home.unknown) else ""


def home_of(table: pd.DataFrame, d_vocab: int, criteria: StageCriteria = DEFAULT) -> Home | None:
    """Judge the probe batch of a table by the loss over training; None where it holds no loss in nats.

    A batch is foreign where the last loss is not below that of a guess, log(d_vocab), by `criteria.smallest`, or has
    risen over training by as much (`docs/statistics.md` has how often that is right). Where the table has the loss by
    position, the positions are named that the last model predicts better than a guess by as much, for sure (95 %).

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
    step = int(rows["step"].iloc[-1])
    known = () if verdict is Familiarity.HOME else _predicted(table, step, guess - criteria.smallest)
    return Home(verdict, first, last, guess, step, known)


def _predicted(table: pd.DataFrame, step: int, below: float) -> tuple[int, ...]:
    """Return the positions whose loss at a step lies below this, with its interval."""
    rows = table[
        (table["probe"] == "LossByPosition") & (table["quantity"] == "cross_entropy") & (table["step"] == step)
    ]
    if rows.empty or not {"position", "hi"} <= set(rows.columns):
        return ()
    return tuple(sorted(int(position) for position in rows.loc[rows["hi"] < below, "position"]))


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
    if not (table["probe"] == "Loss").any():
        nothing = float("nan")
        return Home(
            Familiarity.UNKNOWN, nothing, nothing, math.log(d_vocab), int(table["step"].max()) if len(table) else 0
        )
    return home_of(table, d_vocab)
