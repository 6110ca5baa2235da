"""What a function returned, remembered as long as it takes little memory: the results that were used last."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def remembered(most: int) -> "Callable[[Callable[P, R]], Remembered[P, R]]":
    """Let a function of hashable arguments, which returns arrays, remember results of so many bytes together."""

    def decorated(function: Callable[P, R]) -> Remembered[P, R]:
        return Remembered(function, most)

    return decorated


class Remembered(Generic[P, R]):
    """A function that remembers its last results: the newest one, however large, and others while there is room."""

    def __init__(self, function: Callable[P, R], most: int) -> None:
        """Remember nothing yet."""
        functools.update_wrapper(self, function)
        self._function, self._most, self._lock = function, most, threading.Lock()
        self._results: OrderedDict[Any, R] = OrderedDict()
        self.bytes = 0

    def __call__(self, *args: P.args, **named: P.kwargs) -> R:
        """Return what the function does of these arguments."""
        key = args, tuple(named.items())
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = self._function(*args, **named)
        with self._lock:
            if key not in self._results:
                self._results[key] = result
                self.bytes += size(result)
            while self.bytes > self._most and len(self._results) > 1:
                self.bytes -= size(self._results.popitem(last=False)[1])
        return result

    def forget(self) -> None:
        """Let go of all results."""
        with self._lock:
            self._results.clear()
            self.bytes = 0


def size(result: Any) -> int:
    """Return the bytes of an array, or of those in a tuple.

    >>> size((np.zeros(3), (np.zeros(2, np.float32), "text")))
    32
    """
    if isinstance(result, tuple):
        return sum(map(size, result))
    return result.nbytes if isinstance(result, np.ndarray) else 0
