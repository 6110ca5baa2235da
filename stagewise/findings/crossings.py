"""Which reference a model is closest to, and when the next one takes over."""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from stagewise.findings._frames import by_reference, resamples_of, rows_of
from stagewise.statistics import overtaking
from stagewise.table import Role, families


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
    """Return when KL to each reference falls below KL to the one before it, for good. In every resample of the probe
    batch the crossing lies between two checkpoints; the interval holds 95 % of them. Where fewer resamples than that
    have crossed by the last checkpoint, it is censored: (last step, infinity).
    """
    return _in_turn({name: rows_of(table, Role.KL, reference=name) for name in references})


def taken_over(rows: pd.DataFrame, first: int) -> list[Crossing]:
    """Return crossings of references that are not nested, the closest one at first; an undecided one ends the list."""
    names, found = families(rows)["other"], list[Crossing]()
    if len(names) < 2 or not np.isfinite(rows["value"]).all():
        return found
    curves = by_reference(rows)
    for crossing in _in_turn({name: curves[name] for name in names}):
        if not crossing.seen or crossing.lo <= (found[-1].hi if found else first):
            break
        found.append(crossing)
    return found


def _in_turn(curves: Mapping[str, pd.DataFrame]) -> list[Crossing]:
    draws = {
        name: rows["value"].to_numpy(float)[None] if (each := resamples_of(rows)) is None else each
        for name, rows in curves.items()
    }
    return [
        Crossing(one, later, *overtaking(curves[one]["step"].to_numpy(float), draws[one], draws[later]))
        for one, later in itertools.pairwise(curves)
    ]
