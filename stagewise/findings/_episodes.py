"""Episodes of a run beside its transitions: spikes, divergence, overfitting, and a test that lags behind training."""

import itertools
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
import scipy

from stagewise.criteria import OnsetVerdict
from stagewise.findings._frames import Columns, typed
from stagewise.findings._from_references import rejection
from stagewise.findings._turning_points import turning_point
from stagewise.findings.onsets import models_of
from stagewise.findings.scores import LOSSES, Curve, words_of
from stagewise.statistics import crossing_step, noise, running_median, signals
from stagewise.table import Role

EPISODES: Columns = {
    **{"kind": "str", "probe": "str", "quantity": "str", "beside": "str"},
    **dict.fromkeys(("start", "end", "before", "after", "back"), "float64"),
}

SHARP = 6.0
"""Deviations of a curve's noise by which a spike rises above what was reached before."""

UNLIKE, USUAL = 9.0, 0.8
"""Times by which it is larger than this part of the curve's departures from its running median: tails are heavy, and
every fifth value may be one of many spikes."""

AROUND = 25
"""Checkpoints whose median departure, or that of as many before or after, is half of what is usual there: a curve that
is noisy while the rate warms up has no spikes there."""

RECOVERED = 0.25
"""Part of a spike's height, at most, that is left of it where it is over."""

BRIEF = 1.25
"""Ratio of the steps at which a spike is over and begins, at most: between checkpoints far apart nothing is a spike."""

WINDOW = 5
"""Checkpoints before a spike whose median is what had been reached."""

SEVERAL = 3
"""Spikes after which the curve may end within one more."""

SUDDEN = 3
"""Checkpoints, at most, in which a spike reaches its height."""

LAGS = 3.0
"""Ratio of steps from which on a test that follows training is grokking: Power et al. (2022), arXiv:2201.02177."""

FOLLOWS = 0.5
"""Part of the way of training, at least, that a test which follows it makes."""

TRAIN = {"train", "training", "trl"}
HELD_OUT = {"val", "valid", "validation", "test", "eval", "dev", "held", "heldout", "holdout", "tel"}
"""Words in the names of curves by which the data tell apart that a model is trained on, and those that it is not."""

PLAIN = TRAIN | LOSSES | {"lm", "ce", "cross", "entropy", "total", "mean", "avg", "batch", "epoch", "step"}
"""Words that the name of a training loss may have: others tell a part of it."""

LEVELS: Columns = {
    **{"stage": "int64", "probe": "str", "quantity": "str"},
    **dict.fromkeys(("before", "after", "smallest"), "float64"),
}

POWER: Columns = {"probe": "str", "quantity": "str", "size": "float64"}

ASKED = 2
"""Curves, at most, of which is said what would have been seen."""


class EpisodeKind(StrEnum):
    """Events beside transitions."""

    SPIKE = "spike"
    """A curve suddenly leaves what it had reached (`before`) for its peak (`after`), and comes `back`."""

    DIVERGES = "diverges"
    """A curve has no finite values from `start` on."""

    OVERFITS = "overfits"
    """A held-out loss rises from its minimum while that on training data, if there is one (`beside`), falls on."""

    GROKS = "groks"
    """A held-out curve is half-way (`end`) long after that on training data (`beside`) was (`start`)."""


def episodes_of(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return a row an episode of curves of the model as a whole, as its loss, in the order of their starts."""
    pairs = _pairs(curves)
    alone = [(None, each) for each in curves if _is_loss(each) and not any(each in pair for pair in pairs)]
    records = [one for curve in curves for one in _of_curve(curve)]
    records += [one for train, held_out in [*pairs, *alone] for one in _of_held_out(train, held_out)]
    return typed(sorted(records, key=lambda one: float(one["start"])), EPISODES)


def without_spikes(onsets: pd.DataFrame, episodes: pd.DataFrame) -> pd.DataFrame:
    """Return onsets of which those that are a spike of their own curve, and of no other, are none."""
    alone, spikes = pd.Series(False, onsets.index), episodes[episodes["kind"].eq(EpisodeKind.SPIKE)].to_dict("records")
    lo, hi = onsets["t50_lo"], onsets["t90_hi"]
    during = [onsets["onset"] & ~lo.gt(spike["end"]) & hi.ge(spike["start"]) for spike in spikes]
    own = [here & _same_curve(onsets, spike) for here, spike in zip(during, spikes, strict=True)]
    for mine, spike in zip(own, spikes, strict=True):
        left = onsets["after"].sub(spike["before"]).abs().le(RECOVERED * abs(spike["after"] - spike["before"]))
        alone |= mine & (left | onsets["transient"])  # it leaves its level for a while, or comes back to it
    for mine, here in zip(own, during, strict=True):
        if (here & ~alone).any():
            alone &= ~mine
    return onsets.assign(onset=onsets["onset"] & ~alone, verdict=onsets["verdict"].mask(alone, str(OnsetVerdict.SPIKE)))


def _same_curve(onsets: pd.DataFrame, spike: dict[Any, Any]) -> "pd.Series[bool]":
    return onsets["probe"].eq(spike["probe"]) & onsets["quantity"].eq(spike["quantity"])


def beside(episodes: pd.DataFrame, onsets: pd.DataFrame) -> pd.DataFrame:
    """Return the episodes beside transitions: a curve that is away while heads change is no spike, but of these."""
    kept = [one["kind"] != EpisodeKind.SPIKE or not _is_on_the_way(one, onsets) for one in episodes.to_dict("records")]
    return episodes[np.array(kept, bool)].reset_index(drop=True)


def _is_on_the_way(spike: dict[Any, Any], onsets: pd.DataFrame) -> bool:
    """Whether it lies between two onsets of its curve that are of one transition."""
    if onsets.empty:
        return False
    own = onsets[_same_curve(onsets, spike)]
    ends = own.groupby("starts_stage")["t50"].agg(["min", "max"])
    return bool((ends["min"].le(spike["start"]) & ends["max"].ge(spike["start"])).any())


def _of_curve(curve: Curve) -> Iterator[dict[str, Any]]:
    if curve.lost:
        yield _record(EpisodeKind.DIVERGES, curve, *curve.lost, float(curve.values[-1]), np.nan)
    if curve.can_be_judged:
        yield from _spikes(curve)


def _spikes(curve: Curve) -> Iterator[dict[str, Any]]:
    """Yield where a curve suddenly loses what it had reached, and recovers; the last of several may do so later."""
    sign = -1.0 if curve.declared.progress == "up" else 1.0
    values, threshold, number = sign * curve.values, _height(curve), 0
    reached = running_median(np.pad(values, (WINDOW // 2 + 1, 0), mode="edge"), WINDOW)[: len(values)]
    excess = values - reached
    start = 0
    while (start := _first(excess > threshold, start + 1)) < len(values):
        peak = start + int(excess[start : start + SUDDEN].argmax())
        height = values[peak] - reached[start]
        stop = _first(values - reached[start] <= RECOVERED * height, peak)
        over = curve.steps[stop] if stop < len(values) else np.nan if number >= SEVERAL else np.inf
        if not over > BRIEF * curve.steps[start - 1]:
            number += 1
            back = sign * float(np.median(values[stop : stop + WINDOW])) if stop < len(values) else np.nan
            levels = sign * reached[start], sign * values[peak]
            yield _record(EpisodeKind.SPIKE, curve, curve.steps[peak], over, *levels, back=back)
        start = stop


def _height(curve: Curve) -> np.ndarray:
    """Return by how much a spike rises above what was reached before, at least, at each checkpoint."""
    departs = np.abs(curve.values - running_median(curve.values, WINDOW))
    parts = np.array_split(departs, max(len(departs) // AROUND, 1))
    usual = np.array([np.median(part) for part in parts])
    near = scipy.ndimage.maximum_filter1d(usual, 3)
    spread = max(SHARP * float(noise(curve.values)), UNLIKE * float(np.quantile(departs, USUAL)))
    around = 2 * UNLIKE * np.repeat(near, [len(part) for part in parts])
    return np.maximum(max(curve.criteria.smallest, spread), around)


def _first(true: np.ndarray, start: int) -> int:
    """Return the first place from a start on that is true; the length where none is."""
    places = np.flatnonzero(true[start:])
    return start + int(places[0]) if len(places) else len(true)


def _pairs(curves: Sequence[Curve]) -> list[tuple[Curve, Curve]]:
    """Return each held-out curve with that on the training data; one that is named so, where there are several."""
    pairs = [pair for pair in itertools.permutations(curves, 2) if _is_pair(*pair)]
    pairs.sort(key=lambda pair: bool(words_of(pair[0].quantity) & TRAIN))
    return [*{(held_out.probe, held_out.quantity): (train, held_out) for train, held_out in pairs}.values()]


def _is_pair(train: Curve, held_out: Curve) -> bool:
    """Whether two curves are of one number, on the training data and on others."""
    if train.probe != held_out.probe:
        return False
    first, second = words_of(train.quantity), words_of(held_out.quantity)
    named = bool(second & HELD_OUT) and not first & HELD_OUT and not second & TRAIN
    return named and first - TRAIN == second - HELD_OUT


def _of_held_out(train: Curve | None, held_out: Curve) -> Iterator[dict[str, Any]]:
    if held_out.can_be_judged and (train is None or train.can_be_judged):
        yield from overfitting(train, held_out)
        yield from _grokking(train, held_out) if train else ()


def _is_loss(curve: Curve) -> bool:
    """Whether a curve is a held-out loss by its name."""
    words = words_of(curve.quantity)
    return bool(words & HELD_OUT) and (curve.log or "loss" in words)


def is_training_loss(curve: Curve) -> bool:
    """Whether a curve is the loss of a training by its name or its role: positive, on no held-out data, no part."""
    words, roles = words_of(curve.quantity), (Role.LOSS, Role.SQUARED_ERROR)
    named = bool(words & LOSSES) and words <= PLAIN
    return (named or curve.declared.role in roles) and bool(curve.raw.min(initial=1) > 0)


def overfitting(train: Curve | None, held_out: Curve) -> Iterator[dict[str, Any]]:
    """Yield that a held-out loss turns up while the training loss goes on falling, if there is one."""
    if train and "down" not in (held_out.declared.progress, train.declared.progress):
        return
    criteria = held_out.criteria
    lowest = turning_point(signals(held_out.steps, held_out.values, number=criteria.simulations))
    near = np.flatnonzero((held_out.steps >= lowest.lo) & (held_out.steps <= lowest.hi))
    at = int(near[held_out.values[near].argmin()])
    rises = float(np.median(held_out.values[-3:]) - lowest.value)
    rest = np.array([1, 0]) if train is None else train.values[train.steps >= held_out.steps[at]]
    if rejection(lowest, criteria) is None and rises >= criteria.smallest and len(rest) > 1 and rest[-1] < rest[0]:
        ends = float(held_out.values[at]), lowest.value + rises
        beside = "" if train is None else train.quantity
        yield _record(EpisodeKind.OVERFITS, held_out, held_out.steps[at], held_out.steps[-1], *ends, beside=beside)


def _grokking(train: Curve, held_out: Curve) -> Iterator[dict[str, Any]]:
    """Yield that a held-out curve follows that on the training data long after this one has made its way."""
    ways = [_half_way(each) for each in (train, held_out)]
    (first, way), (second, held_out_way) = ways
    far = all(abs(way) >= each.criteria.smallest for (_, way), each in zip(ways, (train, held_out), strict=True))
    # One that was first evaluated later has made a part of its way by then.
    follows = way * held_out_way > 0 and abs(held_out_way) >= FOLLOWS * abs(way) and 1 + second >= LAGS * (1 + first)
    if far and follows and _is_progress(way, held_out):
        ends = float(held_out.values[0]), float(np.median(held_out.values[-3:]))
        yield _record(EpisodeKind.GROKS, held_out, first, second, *ends, beside=train.quantity)


def _is_progress(way: float, curve: Curve) -> bool:
    """Whether a loss falls, and a share rises."""
    falls = curve.log or bool(words_of(curve.quantity) & LOSSES)
    return way < 0 if falls else way > 0 or None in curve.declared.range


def _half_way(curve: Curve) -> tuple[float, float]:
    """Return when a curve is half-way from its first to its last values, and how far that is."""
    smooth = running_median(curve.values)
    first, last = float(np.median(smooth[:2])), float(np.median(smooth[-3:]))
    sign = np.sign(last - first)
    return crossing_step(curve.steps, sign * smooth, sign * (first + last) / 2), last - first


def _record(kind: EpisodeKind, curve: Curve, *numbers: float, back: float = np.nan, beside: str = "") -> dict[str, Any]:
    levels = zip(("before", "after", "back"), (*numbers[2:], back), strict=True)
    ends = {name: curve.within(level) for name, level in levels}
    of = {"kind": str(kind), "probe": curve.probe, "quantity": curve.quantity, "beside": beside}
    return {**of, "start": float(numbers[0]), "end": float(numbers[1]), **ends}


def levels_of(curves: Sequence[Curve], begins: Sequence[float], last: int, episodes: pd.DataFrame) -> pd.DataFrame:
    """Return a row a stage and finite curve: its values `before` and `after`, and the `smallest` change that counts.

    Where a curve is within a spike, its value is that of its neighbours.
    """
    ends = [*begins, last]
    records = []
    for curve in (each for each in curves if each.is_finite):
        values = _outside(curve, episodes)
        at = [values[max(int(np.searchsorted(curve.steps, step, side="right")) - 1, 0)] for step in ends]
        of_curve = {"probe": curve.probe, "quantity": curve.quantity, "smallest": curve.criteria.smallest}
        records += [
            {**of_curve, "stage": stage, "before": before, "after": after}
            for stage, (before, after) in enumerate(itertools.pairwise(at), start=1)
        ]
    return typed(records, LEVELS)


def _outside(curve: Curve, episodes: pd.DataFrame) -> np.ndarray:
    """Return the values of a curve, within a spike those that it had before."""
    values = curve.raw.copy()
    own = episodes["kind"].eq(EpisodeKind.SPIKE) & _same_curve(episodes, vars(curve))
    for spike in episodes[own].to_dict("records"):
        values[(curve.steps >= spike["start"]) & ~(curve.steps >= spike["end"])] = spike["before"]
    return values


def power_of(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return the change that would have been seen in two of the curves of a whole model, shares first; of scores of
    heads in the one that moved most. It is missing where none that the quantity can have would.
    """
    able = [each for each in curves if each.can_be_judged and np.ptp(each.values) > 0]
    if any(each.labels for each in able):
        able = [max(able, key=lambda each: float(np.ptp(each.values)))]
    able.sort(key=lambda each: each.declared.range != (0, 1))
    return typed((_row(each) for each in able[:ASKED]), POWER)


def _row(curve: Curve) -> dict[str, object]:
    (model,) = models_of([curve])
    size = None if model.visible is None else max(model.visible, curve.criteria.smallest)
    return {"probe": curve.probe, "quantity": curve.quantity, "size": size}
