"""Which reference a model is closest to, and when the next one takes over."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from stagewise.findings._frames import families, rows_of, with_kl
from stagewise.statistics import Interval
from stagewise.statistics._crossings import overtaking
from stagewise.table import Role


class Crossing(NamedTuple):
    """Between steps lo and hi (95 %) KL to `after` falls below KL to `before`; hi is infinite where it never does."""

    before: str
    after: str
    lo: float
    hi: float

    @property
    def seen(self) -> bool:
        """Whether it happened."""
        return bool(np.isfinite(self.hi))


def crossings(table: pd.DataFrame, references: Sequence[str]) -> list[Crossing]:
    """Return when KL to each reference falls below KL to the one before it, for good.

    In every resample of the probe batch the crossing lies between two checkpoints; the interval holds 95 % of them.
    Where fewer resamples than that have crossed by the last checkpoint, it is censored: (last step, infinity).

    Args:
        table: with KL to these references, of one run.
        references: in the order in which they ought to be closest.

    Raises:
        ValueError: the table has no such rows.
    """
    curves = {name: rows_of(table, Role.KL, reference=name) for name in references}
    return [
        Crossing(before, after, *_overtaking(curves[before], curves[after]))
        for before, after in itertools.pairwise(references)
    ]


def taken_over(table: pd.DataFrame) -> list[Crossing]:
    """Return the crossings that happened, one after the other, of references that are not nested, in the table's order.

    Before the first one the model is closest to the first reference; what cannot be decided ends the list.
    """
    names = families(with_kl(table))["other"] if "reference" in table else []
    if len(names) < 2 or not np.isfinite(rows_of(table, Role.KL)["value"]).all():
        return []
    latest, found = float(table["step"].min()), list[Crossing]()
    for crossing in crossings(table, names):
        if not crossing.seen or crossing.lo <= latest:
            break
        found.append(crossing)
        latest = crossing.hi
    return found


def _overtaking(before: pd.DataFrame, after: pd.DataFrame) -> Interval:
    return overtaking(before["step"].to_numpy(float), _draws(before), _draws(after))


def _draws(rows: pd.DataFrame) -> np.ndarray:
    """Return the curve in every resample of the batch, [resample, step]; the curve itself where there are none."""
    if "resamples" in rows and rows["resamples"].notna().all():
        return np.stack(rows["resamples"].to_list()).T
    return rows["value"].to_numpy(float)[None]
