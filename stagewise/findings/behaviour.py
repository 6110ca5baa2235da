"""A behaviour of one run: when it came, which heads carry it and of what kind they are, and the order of its parts."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings._frames import typed
from stagewise.statistics import QUANTILE
from stagewise.table import Head, Role, heads_in, select, with_role

LAST = 3
"""Checkpoints at the end whose median is what is there then."""

PART = 0.1
"""Part of the logit difference that a head's effect is, at least, to carry it: a convention."""

INDIRECT = 0.5
"""Part of a head's effect that its direct effect is, at most, where it acts through other heads: a convention."""

_OF_KINDS = {"S2 to S1": "duplicate token"}
_OF_KINDS |= {each: each for each in ("duplicate token", "previous token", "induction")}
"""Relation -> the kind of a head that acts through others and attends along it."""

_CURVE = ("probe", "quantity", "relation")

Time = tuple[float, float, float]
"""A step with its 95 % interval; nan where it is not known."""

NEVER: Time = (float("nan"),) * 3

HEADS = {
    **{"layer": "int64", "head": "int64", "kind": "str", "effect": "float64", "direct": "float64"},
    **dict.fromkeys(("t50", "t50_lo", "t50_hi", "formed", "formed_lo", "formed_hi", "before"), "float64"),
}
"""Columns of the frame of heads, with their types."""


@dataclasses.dataclass(frozen=True, eq=False)
class Behaviour:
    """A behaviour, with the evidence. Effects and differences are in nats of the logit difference.

    Args:
        came: whether the right answer is preferred at the end, by the interval over prompts.
        difference: the logit difference at the end.
        since: the first checkpoint from which on it was, at every one by its interval; None where it is not, or always
            was.
        t50: the step at which it was half-way up with its 95 % interval; missing where it has no onset.
        dip: first and last checkpoint, step of the lowest value, and that value, where the difference was surely below
            chance before it came; None without.
        heads: a row for each head that carries it: its `kind` (empty where it meets no rule), its `effect` and `direct`
            effect at the end, when the effect was half-way (`t50`, missing without an onset), when the attention that
            its kind is of was (`formed`, of its first onset; without a kind that of the effect), and the probability
            that it formed `before` the behaviour. In the order in which they formed, or else mattered.
    """

    came: bool
    difference: float
    since: int | None
    t50: Time
    dip: tuple[int, int, int, float] | None
    heads: pd.DataFrame


def find_behaviour(
    table: pd.DataFrame, onsets: pd.DataFrame | None = None, criteria: StageCriteria = DEFAULT
) -> Behaviour | None:
    """Return the behaviour in a run's table, with the times of its onsets; None where none was measured.

    A head carries it where at the end its effect, patched, and its ablation, by the mean or by zero, each are at least
    a tenth of the difference and 0.1 nats, of one sign, and surely not 0 by their intervals over prompts. What only a
    corrupted prompt shows is no effect of an ablation, and what a head writes to no avail no effect at all. Without the
    behaviour no head carries it. Kinds are told by these rules, from Wang et al. (2022), Interpretability in the Wild,
    arXiv:2211.00593, section 3; attention is at least `criteria.named`:

    - name mover: its direct effect is a tenth of the difference, and END attends to IO;
    - negative mover: the same with a direct effect below 0;
    - copy suppression: a direct effect as a name mover's, and END attends to S1 or S2 more than to IO: it writes
      against the wrong answer that it attends to (McDougall et al. (2023), Copy Suppression, arXiv:2310.04625);
    - S-inhibition: END attends to S2, and less than half of the effect is direct;
    - duplicate token, previous token, induction: attention along that relation (S1 from S2 is a duplicate token's), and
      less than half of the effect is direct; the largest of these.
    """
    whole = with_role(table, Role.BEHAVIOUR)
    if not whole:
        return None
    rows = select(table, *whole[0])
    last, lo = (float(rows[name].iloc[-LAST:].median()) for name in ("value", "lo"))
    came, t50 = lo > 0, _time(onsets, dict(zip(("probe", "quantity"), whole[0], strict=True)))
    heads = _heads(table, onsets, last, t50, criteria) if came else []
    frame = typed(heads, HEADS)
    frame = frame.loc[frame["formed"].fillna(frame["t50"]).sort_values(kind="stable").index].reset_index(drop=True)
    return Behaviour(came, last, _since(rows), t50, _dip(rows) if came else None, frame)


def _since(rows: pd.DataFrame) -> int | None:
    """Return the checkpoint after the last one at which the interval holds 0 or less; None without either."""
    (unsure,) = np.nonzero(~(rows["lo"].to_numpy(float) > 0))
    if not len(unsure) or unsure[-1] + 1 == len(rows):
        return None
    return int(rows["step"].iloc[unsure[-1] + 1])


def _dip(rows: pd.DataFrame) -> tuple[int, int, int, float] | None:
    """Return where the difference was below 0 beyond its error, which counts all checkpoints; None for nowhere."""
    values, steps = rows["value"].to_numpy(float), rows["step"].to_numpy(int)
    errors = (rows["hi"] - rows["lo"]).to_numpy(float) / (2 * QUANTILE)
    limit = scipy.stats.norm.isf(0.025 / len(rows))
    (below,) = np.nonzero(values < -limit * np.maximum(errors, 1e-12))
    if not len(below):
        return None
    lowest = below[np.argmin(values[below])]
    return int(steps[below[0]]), int(steps[below[-1]]), int(steps[lowest]), float(values[lowest])


def _heads(
    table: pd.DataFrame, onsets: pd.DataFrame | None, difference: float, came: Time, criteria: StageCriteria
) -> list[dict[str, object]]:
    effect, direct = with_role(table, Role.EFFECT), with_role(table, Role.DIRECT_EFFECT)
    if not effect:
        return []
    least = max(PART * difference, criteria.smallest)
    effects = _at_end(table, effect[0])
    ablated = [_at_end(table, pair, kind=kind) for pair in with_role(table, Role.ABLATED) for kind in ("mean", "zero")]
    directs = _at_end(table, direct[0]) if direct else {}
    found = list[dict[str, object]]()
    for head in heads_in(select(table, *effect[0])):
        value = _sure(effects.get(head), least)
        if not value or not any(_sure(each.get(head), least) * value > 0 for each in ablated):
            continue
        named = dict(zip(("probe", "quantity", "layer", "head"), (*effect[0], *head), strict=True))
        time, straight = _time(onsets, named), _sure(directs.get(head), least)
        written = directs[head][0] if head in directs else 0.0
        kind, curve = _kind(table, head, value, straight, written, criteria.named)
        attends = named if curve is None else {**named, **dict(zip(_CURVE, curve, strict=True))}
        formed = _time(onsets, attends, first=True)
        found.append(
            {
                **{"layer": head[0], "head": head[1], "kind": kind, "effect": value},
                "direct": directs[head][0] if head in directs else np.nan,
                **dict(zip(("t50", "t50_lo", "t50_hi"), time, strict=True)),
                **dict(zip(("formed", "formed_lo", "formed_hi"), formed, strict=True)),
                "before": probability_before(formed, came),
            }
        )
    return found


def _sure(value: tuple[float, float, float] | None, least: float) -> float:
    """Return a value that is large enough, with an interval that does not hold 0; else 0."""
    if value is None or abs(value[0]) < least or value[1] <= 0 <= value[2]:
        return 0.0
    return value[0]


def _at_end(table: pd.DataFrame, pair: tuple[str, str], **labels: str) -> dict[Head, tuple[float, float, float]]:
    """Return each head's value with its interval: medians over the last checkpoints."""
    rows = table[(table["probe"] == pair[0]) & (table["quantity"] == pair[1])]
    for name, label in labels.items():
        rows = rows[rows[name] == label]
    rows = rows[rows["step"].isin(np.sort(table["step"].unique())[-LAST:])]
    medians = rows.groupby(["layer", "head"])[["value", "lo", "hi"]].median()
    return {
        (int(layer), int(head)): (v, lo, hi)
        for (layer, head), (v, lo, hi) in zip(medians.index, medians.to_numpy(), strict=True)
    }


def _kind(
    table: pd.DataFrame, head: Head, effect: float, sure: float, direct: float, named: float
) -> tuple[str, tuple[str, str, str] | None]:
    """Return the kind of a head by the rules of `find_behaviour`, and the curve of the attention that it is of; `sure`
    is its direct effect where that is surely one.
    """
    mass = {
        (*pair, relation): _at_end(table, pair, relation=relation).get(head, (0.0, 0.0, 0.0))[0]
        for pair in with_role(table, Role.ATTENTION_ALONG)
        for relation in table["relation"].dropna().unique()
    }

    def most(*names: str) -> tuple[str, str, str] | None:
        of = [curve for curve in mass if {*curve[2].split(" or ")} & {*names}]
        best = max(of, key=lambda curve: mass[curve], default=None)
        return best if best is not None and mass[best] >= named else None

    if sure > 0 and (curve := most("END to IO", "END to S1", "END to S2")):
        return "name mover" if "END to IO" in curve[2].split(" or ") else "copy suppression", curve
    if sure < 0 and (curve := most("END to IO")):
        return "negative mover", curve
    if abs(direct) >= INDIRECT * abs(effect):
        return "", None
    if curve := most("END to S2"):
        return "S-inhibition", curve
    if (curve := most(*_OF_KINDS)) is None:
        return "", None
    return next(kind for name, kind in _OF_KINDS.items() if name in curve[2].split(" or ")), curve


def _time(onsets: pd.DataFrame | None, labels: Mapping[str, Any], *, first: bool = False) -> Time:
    """Return when a curve was half-way in its largest onset away from 0, or its first, with its interval; or nan."""
    if onsets is None or onsets.empty:
        return NEVER
    rows = onsets[onsets["onset"]]
    for name, label in labels.items():
        rows = rows[rows[name] == label] if name in rows else rows.iloc[:0]
    away = rows[rows["after"].abs() > rows["before"].abs()]
    if away.empty:
        return NEVER
    order = away["t50"] if first else -(away["after"] - away["before"]).abs()
    t50, lo, hi = away[["t50", "t50_lo", "t50_hi"]].to_numpy(float)[int(order.to_numpy(float).argmin())]
    return t50, lo, hi


def probability_before(one: Time, other: Time) -> float:
    """Return the probability that one time is before another, from their intervals in log(1 + step); nan if unknown.

    >>> round(probability_before((50.0, 45.0, 55.0), (100.0, 90.0, 111.0)), 2)
    1.0
    """
    u, v = np.log1p(np.array([one, other], float))
    variance = sum(((each[2] - each[1]) / (2 * QUANTILE)) ** 2 for each in (u, v))
    if not np.isfinite([u[0], v[0], variance]).all():
        return float("nan")
    return float(scipy.stats.norm.cdf((v[0] - u[0]) / np.sqrt(max(variance, 1e-12))))
