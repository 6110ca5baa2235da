"""Power of a search: changes of known sizes are put into the curve itself."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics._constants import DOUBLINGS, FACTOR, OFTEN, PLACES
from stagewise.statistics._criteria import StageCriteria
from stagewise.statistics._transition import Transition, rejection
from stagewise.statistics._transitions import find_transitions


class Power(NamedTuple):
    """The smallest change that is found at `OFTEN` of `PLACES` times; else the largest one tried. And at how many."""

    size: float
    found: int


def power(
    steps: np.ndarray,
    values: np.ndarray,
    smallest: float,
    criteria: StageCriteria,
    *,
    up: bool,
    largest: float = np.inf,
) -> Power:
    """Return the size of change that would be found in a curve; sizes are doubled from the smallest one on."""
    u = np.log1p(np.asarray(steps, float))
    inner = u[criteria.preceding : -criteria.preceding]
    at = np.linspace(inner[0], inner[-1], PLACES + 2)[1:-1]
    change = (1 if up else -1) / (1 + np.exp((at[:, None] - u) * 2 * np.log(9) / np.log(FACTOR)))
    few, enough = -1, 1 + int(np.clip(np.log2(largest / smallest), 0, DOUBLINGS))
    results: dict[int, Power] = {}
    while enough - few > 1:
        doublings = (few + enough) // 2
        size = smallest * 2.0**doublings
        each = find_transitions(steps, values + size * change, alpha=criteria.false_discoveries)
        found = sum(
            any(_is_it(one, time, criteria, up=up) for one in of.transitions) for of, time in zip(each, at, strict=True)
        )
        results[doublings] = Power(size, found)
        few, enough = (few, doublings) if found >= OFTEN else (doublings, enough)
    return results[min(enough, max(results))]


def _is_it(one: Transition, time: float, criteria: StageCriteria, *, up: bool) -> bool:
    """Whether an onset is the change that was put in at a time."""
    near = abs(one.times[1, 0] - time) <= np.log(FACTOR)
    return bool(near and (one.size > 0) == up and rejection(one, one.p_value, criteria) is None)
