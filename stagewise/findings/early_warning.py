"""Early warning: when a plateau will end, with an interval, from its checkpoints alone."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from stagewise.findings._frames import rows_of
from stagewise.statistics import Forecast, forecast
from stagewise.statistics._constants import FEWEST_READINGS
from stagewise.statistics._crossings import Direction
from stagewise.statistics._forecast import Growth, Level
from stagewise.table import Role, with_role

PLATEAU_END, ATTENDED = (0.25, 0.75), 0.5
"""Parts of the way to all of its attention by which a head may end a plateau; attention that has come already."""

SINCE, FLAT = 0.5, 0.1
"""Part of the run so far before which readings do not count; part of the whole fall of the loss, at most, by which it
has fallen since then on a plateau."""

FORETOLD_BY = Role.LOSS, Role.SQUARED_ERROR, Role.ATTENTION
"""Roles of the rows that `foretell` reads."""


def predict_onset(
    readings: pd.DataFrame,
    level: Level,
    *,
    until: int | float,
    since: int | float = 0,
    growth: Growth = "attention",
    theory: pd.DataFrame | None = None,
    direction: Direction = "up",
    seed: int = 0,
) -> Forecast:
    """Extrapolate a quantity that grows on a plateau to the level at which the plateau ends.

    The forms of growth, and what the interval carries, are those of `statistics.forecast`.

    Args:
        readings: rows of one curve, one a step: `step`, `value`.
        level: the least and the largest value at which the plateau may end, equally likely in between.
        until: readings up to this step are used.
        since: readings from this step on are used; before it a loss falls from its initial value to the plateau, and a
            score may fall before it rises. The begin of a plateau does not matter to an exponential; attention and a
            theory count their time from step 0.
        growth: the form; attention lies between 0 and 1, anything else takes "exponential".
        theory: a table of attention to one relation, to take in its place, from before the plateau's end to beyond it.
        direction: "down" for what falls, as a loss.
        seed: of the draws.

    Raises:
        ValueError: several rows a step, too few of them, or values that are not finite; a level that is no two finite
            numbers in their order, or that the curve has passed; an unknown growth or direction; attention, or its
            level, that is not between 0 and 1 or falls.

    Source: attention's growth is `theory.early_time.blow_up_share`; the interval is a parametric bootstrap.

    >>> steps = np.arange(0, 300, 10)
    >>> readings = pd.DataFrame({"step": steps, "value": 0.01 * np.exp(steps / 100)})
    >>> round(predict_onset(readings, (0.5, 0.5), until=200, growth="exponential").step, -1)
    390.0
    """
    rows = readings[readings["step"].between(since, until)].sort_values("step")
    if theory is not None:
        theory = rows_of(theory, Role.ATTENTION).sort_values("step")
    course = None if theory is None else _arrays(theory)
    return forecast(*_arrays(rows), level, growth=growth, theory=course, direction=direction, seed=seed)


def _arrays(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    return rows["step"].to_numpy(float), rows["value"].to_numpy(float)


class Foretold(NamedTuple):
    """A relation to which a head will attend, and when."""

    relation: str
    forecast: Forecast


def foretell(table: pd.DataFrame) -> list[Foretold]:
    """Foretell from all of a run's checkpoints to which relations a head will attend that none attends to, and when.

    The largest attention of any head in the second half of the run so far is extrapolated as an exponential. A relation
    is left out where the forecast has no upper end, as where noise could grow as much; and all are where the loss still
    falls, by more than a tenth of its whole fall in that half, which is no plateau.

    Args:
        table: of one run, from `measure`.

    Returns the relations, the soonest first: none without attention to relations and the loss.
    """
    losses, attention = (with_role(table, *roles) for roles in ((Role.LOSS, Role.SQUARED_ERROR), (Role.ATTENTION,)))
    if not losses or not attention:
        return []
    last = int(table["step"].max())
    loss = _largest(_rows(table, losses[0]))
    recent = loss[loss.index >= SINCE * last]
    if recent.iloc[0] - recent.iloc[-1] > FLAT * (loss.iloc[0] - recent.iloc[-1]):
        return []
    of_relations = _rows(table, attention[0]).groupby("relation", observed=True)
    told = [Foretold(str(name), found) for name, of in of_relations if (found := _growing(_largest(of), last))]
    return sorted(told, key=lambda each: each.forecast.step)


def _rows(table: pd.DataFrame, quantity: tuple[str, str]) -> pd.DataFrame:
    return table[(table["probe"] == quantity[0]) & (table["quantity"] == quantity[1])]


def _largest(rows: pd.DataFrame) -> pd.Series:
    """Return the largest value by step, as of any head."""
    return rows.groupby("step")["value"].max()


def _growing(curve: pd.Series, last: int) -> Forecast | None:
    """Return when a curve of attention ends its plateau, None where that cannot be told."""
    recent = curve[curve.index >= SINCE * last]
    if len(recent) < FEWEST_READINGS or curve.max() >= ATTENDED:
        return None
    base = float(recent.iloc[0])
    level = (base + PLATEAU_END[0] * (1 - base), base + PLATEAU_END[1] * (1 - base))
    if curve.max() >= level[0]:  # it has left the plateau
        return None
    found = forecast(recent.index.to_numpy(float), recent.to_numpy(float), level, growth="exponential")
    return found if np.isfinite(found.hi) else None
