"""Early warning: when a plateau will end, with an interval, from its checkpoints alone."""

import numpy as np
import pandas as pd

from stagewise.findings._frames import rows_of
from stagewise.statistics import Forecast, forecast
from stagewise.statistics._crossings import Direction
from stagewise.statistics._forecast import Growth, Level
from stagewise.table import Role


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
