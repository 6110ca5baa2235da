"""What was done to a run, at a step or over some steps, and which of it what a curve did coincides with."""

from collections.abc import Mapping, Sequence

Causes = Mapping[str, int | float | Sequence[int | float]]
"""Name of what happened to a run -> its step, as in {"the learning-rate drop": 3000}, or its first and its last one."""


def known(causes: Causes) -> Causes:
    """Return causes as they are compared with saved ones: first and last step as a pair.

    >>> known({"the learning rate's warm-up": [0, 500], "a restart": 3000})
    {"the learning rate's warm-up": (0, 500), 'a restart': 3000}
    """
    return {name: tuple(at) if isinstance(at, Sequence) else at for name, at in causes.items()}


def cause_within(causes: Causes, lo: int | float, hi: int | float, at: int | float) -> str:
    """Return the cause with a step from `lo` to `hi`, with that step; else nothing.

    Of several the last one up to `at` is named, and of those after it the first.

    >>> cause_within({"a restart": 2910, "the learning rate's drop to 0.001": 3000}, 2900, 3100, at=3000)
    "the learning rate's drop to 0.001 at step 3000"
    """
    steps = [(name, step) for name, step in causes.items() if not isinstance(step, Sequence) and lo <= step <= hi]
    near = [(step > at, abs(at - step), f"{name} at step {step:.12g}") for name, step in steps]
    return min(near, default=(False, 0, ""))[-1]


def cause_during(causes: Causes, at: int | float, steps: Sequence[int | float]) -> str:
    """Return the first cause that lasted some steps and what happened in it, with these steps; else nothing.

    Args:
        causes: of them, those with a first and a last step.
        at: when it happened.
        steps: of the checkpoints; what a cause does is seen by the first one from its end on.

    >>> cause_during({"the learning rate's warm-up": (0, 500)}, 520, [0, 400, 600])
    "the learning rate's warm-up, until step 500"
    """
    for name, during in causes.items():
        if isinstance(during, Sequence):
            first, last = during
            if first <= at <= min((step for step in steps if step >= last), default=last):
                begins = f"from step {first:.12g} on, " if first > 0 else ""
                return f"{name}, {begins}until step {last:.12g}"
    return ""
