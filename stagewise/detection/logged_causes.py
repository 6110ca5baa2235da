"""What a logged learning rate says was done to its run: causes of what its curves do, in a table of `curves`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pandas as pd

from stagewise.detection.known_causes import Causes
from stagewise.detection.own_curves import LOGGED
from stagewise.detection.rates import is_rate

if TYPE_CHECKING:
    from stagewise.checkpoints.causes import Cause


def causes_in(table: pd.DataFrame) -> Causes:
    """Return warm-ups and jumps of the learning rates in a table of one run's logged curves, as `of_log` does.

    Of rates that change alike, as those of groups of parameters, each change is named once.

    >>> from stagewise import curves
    >>> causes_in(curves({"step": range(0, 100, 10), "lr": [1e-3] * 5 + [1e-4] * 5}))
    {"the learning rate's drop to 0.0001": 45}
    """
    from stagewise.checkpoints.causes import of_log

    logged = table[table["probe"] == LOGGED]
    causes: list[tuple[str, Cause]] = []
    for name, rates in logged.groupby("quantity", observed=True):
        if is_rate(str(name)):
            pairs = zip(rates["step"].tolist(), rates["value"].tolist(), strict=True)
            causes += of_log({"step": step, "learning_rate": rate} for step, rate in pairs).items()
    return _named(dict.fromkeys(causes))


def _named(causes: "Iterable[tuple[str, Cause]]") -> Causes:
    """Number causes of one name."""
    named: dict[str, Cause] = {}
    for name, step in causes:
        bare = name.partition(" (")[0]
        again = sum(each.partition(" (")[0] == bare for each in named)
        named[f"{bare} (number {again + 1})" if again else bare] = step
    return named
