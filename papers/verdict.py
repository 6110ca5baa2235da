"""The verdict on a row, a published number beside the one measured here: computed from the row's numbers alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise

ROUNDING = 1e-9
"""How far apart two decimal numbers may be that are equal on paper."""

THIRD = 1 / 3
"""An interval says that a number agrees if its width is at most this share of the effect."""

NUMBER = r"(?<![\w.])-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})(?: to ({NUMBER}))?|never")


class Verdict(StrEnum):
    """How a row compares with its paper, the best one first."""

    AGREES = "agrees"
    IN_SHAPE = "in shape"
    UNDECIDED = "undecided"
    DIFFERS = "does not agree"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Number:
    """A number as it is written, with its interval, and how far from what is written it may lie.

    `complete` is false where some runs of several have no such number.
    """

    text: str
    value: float
    lo: float
    hi: float
    slack: float = 0.0
    complete: bool = True


@dataclass(frozen=True)
class Row:
    """Published and measured numbers, one beside the other, or a shape that the measured ones have to have.

    `null` holds the values that there would be without the effect, whose size is a published number's distance from
    its null. `length` holds how many steps were run, and how many the paper has.
    """

    here: tuple[Number, ...]
    published: tuple[Number, ...] = ()
    null: tuple[float, ...] = ()
    shape: str = ""
    length: tuple[int, ...] = ()


def exactly(value: float, text: str, slack: float = 0.0) -> Number:
    """Return a number without an interval."""
    return Number(text, value, value, value, slack)


def numbers_in(text: str) -> list[Number]:
    """Return the numbers of a text: `2.1 to 2.3` is one with an interval, `never` is infinite.

    A number that is no integer may lie half a unit of its last digit away.
    """
    return [_number(match[0], match[1], match[2]) for match in RANGE.finditer(text)]


def _number(text: str, low: str | None, high: str | None) -> Number:
    if low is None:
        return exactly(float("inf"), text)
    if high is not None:
        lo, hi = float(low), float(high)
        return Number(text, (lo + hi) / 2, lo, hi)
    whole = low.lstrip("-").isdigit()
    return exactly(float(low), text, 0.0 if whole else 0.5 * 10.0 ** int(Decimal(low).as_tuple().exponent))


def verdict(row: Row) -> Verdict:
    """Return the verdict on a row; of several numbers the worst: one that differs, before one that is undecided."""
    if row.length and row.length[0] < row.length[1]:
        return Verdict.NOT_RUN
    if row.shape:
        return _of_shape(row.here, *row.shape.split())
    compared = map(_compared, row.here, row.published, row.null)
    return max(compared, key=list(Verdict).index)


def _compared(here: Number, published: Number, null: float) -> Verdict:
    slack = here.slack + published.slack + ROUNDING
    if here.hi + slack < published.lo or here.lo - slack > published.hi:
        return Verdict.DIFFERS
    width = 0.0 if here.hi == here.lo else here.hi - here.lo
    narrow = width <= THIRD * abs(published.value - null)
    return Verdict.AGREES if narrow and here.complete else Verdict.UNDECIDED


def _of_shape(here: Sequence[Number], kind: str, level: str = "0") -> Verdict:
    """Return whether numbers rise, fall, overlap, lie within their bounds, or beyond a level with their intervals."""
    if kind in ("above", "below"):
        sign = 1 if kind == "above" else -1
        ends = [sorted((sign * (each.lo - float(level)), sign * (each.hi - float(level)))) for each in here]
        if any(far <= 0 for _, far in ends):
            return Verdict.DIFFERS
        return Verdict.IN_SHAPE if all(near > 0 for near, _ in ends) else Verdict.UNDECIDED
    if not all(each.complete for each in here):
        return Verdict.UNDECIDED
    holds = {
        "rising": all(first.value < second.value for first, second in pairwise(here)),
        "falling": all(first.value > second.value for first, second in pairwise(here)),
        "together": max(each.lo for each in here) <= min(each.hi for each in here),
        "within": all(each.lo <= each.value <= each.hi for each in here),
    }[kind]
    return Verdict.IN_SHAPE if holds else Verdict.DIFFERS
