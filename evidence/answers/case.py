"""A run or a log whose truth is known: the truth as a sentence, and as events to judge by."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd


class Change(NamedTuple):
    """A true transition.

    Args:
        lo: the last step at which it is known not to be half-way.
        hi: the first step at which it is known to be; equal to `lo` where it is planted to the step.
        heads: the heads that it is of, as "L1H0"; None where nobody knows them.
        also: other heads that may be named, as those that others come to read.
        lost: whether something is lost in it.
        cause: whether something was done to the run then, which the answer has to name.
    """

    lo: float
    hi: float
    heads: frozenset[str] | None = None
    also: frozenset[str] = frozenset()
    lost: bool = False
    cause: bool = False


class Truth(NamedTuple):
    """What happened in a run.

    Args:
        changes: its transitions, in their order.
        may: changes that may be told as transitions of their own, and need not; without heads, of the whole model.
        kinds: what else has to be told by name: `told.KINDS`.
        unknown: whether nobody can know from so few checkpoints.
    """

    changes: tuple[Change, ...] = ()
    may: tuple[Change, ...] = ()
    kinds: frozenset[str] = frozenset()
    unknown: bool = False


class Case(NamedTuple):
    """A run or a log.

    Args:
        name: of its row.
        sentence: the truth, as an expert says it.
        table: from a folder, in which it may keep what it trains and measures, to the table of the run.
        truth: the events; or a function that reads them off the table, for a run that was trained.
    """

    name: str
    sentence: str
    table: Callable[[Path], pd.DataFrame]
    truth: Truth | Callable[[pd.DataFrame], Truth]


class MissingError(Exception):
    """What a case needs is not on this machine."""
