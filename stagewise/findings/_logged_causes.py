"""Causes in a logged learning rate: changes of the run that its curves may follow, in a table of `read_log`."""

from typing import TYPE_CHECKING

import pandas as pd

from stagewise.checkpoints._log_columns import is_rate
from stagewise.checkpoints.logged_curves import LOGGED
from stagewise.event import Causes

if TYPE_CHECKING:
    from stagewise.checkpoints._causes import Cause


def causes_in(table: pd.DataFrame) -> Causes:
    """Return warm-ups and jumps of the learning rates in a table of one run's logged curves, as `of_log` does.

    Where rates of groups of parameters change alike, each change is named once.

    >>> from stagewise import read_log
    >>> causes_in(read_log({"step": range(0, 100, 10), "lr": [1e-3] * 5 + [1e-4] * 5}))
    {"the learning rate's drop to 0.0001": 45}
    """
    from stagewise.checkpoints._causes import numbered, of_log

    logged = table[table["probe"] == LOGGED]
    causes: list[tuple[str, Cause]] = []
    for name, rates in logged.groupby("quantity", observed=True):
        if is_rate(str(name)):
            pairs = zip(rates["step"].tolist(), rates["value"].tolist(), strict=True)
            causes += of_log({"step": step, "learning_rate": rate} for step, rate in pairs).items()
    named: dict[str, Cause] = {}
    for name, step in dict.fromkeys(causes):
        named[numbered(name.partition(" (")[0], named)] = step
    return named
