"""Functions of the step, for numbers of a task or a plan that change while a model trains."""

import abc
import dataclasses
from bisect import bisect
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from stagewise.fields import Natural, Range, check_fields

_ORDERED = 2**24
"""Updates whose order is shuffled at most: the order is held in memory."""


class AbstractSchedule(abc.ABC):
    """A function of the step. A leaf is a frozen dataclass of its parameters, so that run.json can hold it."""

    def __post_init__(self) -> None:
        check_fields(self)

    @abc.abstractmethod
    def at(self, step: int) -> Any:
        """Return the value of the update from `step` to the next one."""

    @abc.abstractmethod
    def breakpoints(self) -> Sequence[int]:
        """Return steps whose values are in range only where all values are."""


@dataclasses.dataclass(frozen=True)
class Ramp(AbstractSchedule):
    """A number that moves evenly from `first`, up to the step `start`, to `last`, from the step `stop` on.

    >>> [Ramp(0.8, 0.0, start=2, stop=6).at(step) for step in (0, 2, 4, 6, 7)]
    [0.8, 0.8, 0.4, 0.0, 0.0]
    """

    first: int | float
    last: int | float
    start: Natural
    stop: Natural

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stop <= self.start:
            raise ValueError(f"a ramp has its stop after its start, got start={self.start}, stop={self.stop}")

    def at(self, step: int) -> float:
        """Return the number of an update."""
        way = min(max((step - self.start) / (self.stop - self.start), 0.0), 1.0)
        return (1 - way) * self.first + way * self.last

    def breakpoints(self) -> Sequence[int]:
        """Return where the ramp begins and ends."""
        return (0, self.start, self.stop)


@dataclasses.dataclass(frozen=True)
class Steps(AbstractSchedule):
    """Values that follow each other: the first one up to the first step in `at_steps`, the next one from there on.

    A value may be a schedule itself, of the same step.

    >>> [Steps((0.8, 0.0), (120,)).at(step) for step in (0, 119, 120)]
    [0.8, 0.8, 0.0]
    """

    values: tuple[Any, ...]
    at_steps: tuple[Natural, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) != len(self.at_steps) + 1 or list(self.at_steps) != sorted(set(self.at_steps)):
            raise ValueError(
                "steps have one value more than steps to change at, and these ascend, as in Steps((0.8, 0.0), (120,)); "
                f"got {len(self.values)} values and the steps {self.at_steps}"
            )

    def at(self, step: int) -> Any:
        """Return the value of an update."""
        value = self.values[bisect(self.at_steps, step)]
        return value.at(step) if isinstance(value, AbstractSchedule) else value

    def breakpoints(self) -> Sequence[int]:
        """Return where each value begins, and the breakpoints of those that are schedules."""
        inner = [step for value in self.values if isinstance(value, AbstractSchedule) for step in value.breakpoints()]
        return (0, *self.at_steps, *inner)


@dataclasses.dataclass(frozen=True)
class Shuffled(AbstractSchedule):
    """The step itself, but those from `start` to before `stop` in random order: of batches, the same in another one.

    >>> sorted(Shuffled(2, 6).at(step) for step in range(8)), Shuffled(2, 6).at(1)
    ([0, 1, 2, 3, 4, 5, 6, 7], 1)
    """

    start: Natural
    stop: Annotated[int, Range(0, _ORDERED)]
    seed: Natural = 0

    def at(self, step: int) -> int:
        """Return the number that an update has in the other order."""
        if not self.start <= step < self.stop:
            return step
        return _order(self.stop - self.start, self.seed)[step - self.start] + self.start

    def breakpoints(self) -> Sequence[int]:
        """Return the first step: no value is out of range."""
        return (0,)


@lru_cache(maxsize=8)
def _order(n: int, seed: int) -> Sequence[int]:
    import numpy as np

    order: Sequence[int] = np.random.default_rng(seed).permutation(n).tolist()
    return order
