"""Schedules: sets of steps, to be joined with `|`."""


def linear(every: int, stop: int, start: int = 0) -> frozenset[int]:
    """Return the steps start, start + every, ... below stop.

    >>> sorted(linear(10, 35) | {1, 2})
    [0, 1, 2, 10, 20, 30]
    """
    if every < 1:
        raise ValueError(f"a linear schedule needs at least one step between saves, got every={every}")
    return frozenset(range(start, stop, every))


def logarithmic(per_decade: int, stop: int, start: int = 1) -> frozenset[int]:
    """Return steps spaced evenly in log(step), `per_decade` of them in a factor of ten, from start to below stop.

    >>> sorted(logarithmic(3, 100))
    [1, 2, 5, 10, 22, 46]
    """
    if per_decade < 1 or start < 1:
        raise ValueError(f"a logarithmic schedule needs per_decade >= 1 and start >= 1, got {per_decade} and {start}")
    steps = set()
    exponent = 0
    while (step := round(start * 10 ** (exponent / per_decade))) < stop:
        steps.add(step)
        exponent += 1
    return frozenset(steps)
