"""A behaviour of one run: when it came, which heads carry it and of what kind they are, and the order of its parts."""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings._frames import typed
from stagewise.statistics import QUANTILE
from stagewise.table import Role, head_label, select, with_role

LAST = 3
"""Checkpoints at the end whose median is what is there then."""

PART = 0.1
"""Part of the logit difference that a head's effect is, at least, to carry it: a convention."""

INDIRECT = 0.5
"""Part of a head's effect that its direct effect is, at most, where it acts through other heads: a convention."""

QUARTER = 0.25
"""Part of its way below which an effect has not come, or is gone: a convention."""

_OF_KINDS = {"S2 to S1": "duplicate token"}
_OF_KINDS |= {each: each for each in ("duplicate token", "previous token", "induction")}
"""Relation -> the kind of a head that acts through others and attends along it."""

Time = tuple[float, float, float]
"""A step with its 95 % interval; nan where it is not known."""

NEVER: Time = (float("nan"),) * 3

HEADS = {
    **{"layer": "int64", "head": "int64", "kind": "str", "effect": "float64", "direct": "float64"},
    **dict.fromkeys(("t50", "t50_lo", "t50_hi", "formed", "formed_lo", "formed_hi", "before"), "float64"),
    "after": "str",
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
            that it formed `before` the behaviour; names of the heads that it took over from are `after`. In the order
            in which they formed, or else mattered.
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
    behaviour no head carries it. One took over from another, which carried it once it had come, where a quarter of its
    effect or less was there when that of the other was largest, of which a quarter or less is left, and both changed at
    one time. Kinds are told by these rules, from Wang et al. (2022), Interpretability in the Wild, arXiv:2211.00593,
    section 3; attention is at least `criteria.named`:

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
    difference, lo = (rows.set_index("step")[name].rolling(LAST, min_periods=1).median() for name in ("value", "lo"))
    came, t50 = bool(lo.iloc[-1] > 0), _time(onsets, whole[0])
    least = (PART * difference).clip(lower=criteria.smallest)
    since = _since(rows)
    heads = _heads(table, onsets, least, t50, criteria.named, since or 0) if came else []
    frame = typed(heads, HEADS)
    frame = frame.loc[frame["formed"].fillna(frame["t50"]).sort_values(kind="stable").index].reset_index(drop=True)
    return Behaviour(came, float(difference.iloc[-1]), since, t50, _dip(rows) if came else None, frame)


def _since(rows: pd.DataFrame) -> int | None:
    """Return the checkpoint after the last one at which the interval holds 0 or less; None without either."""
    unsure = rows.loc[~(rows["lo"] > 0), "step"]
    after = rows.loc[rows["step"] > unsure.max(), "step"]
    return None if after.empty else int(after.min())


def _dip(rows: pd.DataFrame) -> tuple[int, int, int, float] | None:
    """Return where the difference was below 0 beyond its error, which counts all checkpoints; None for nowhere."""
    errors, limit = (rows["hi"] - rows["lo"]) / (2 * QUANTILE), scipy.stats.norm.isf(0.025 / len(rows))
    below = rows[rows["value"] < -limit * errors.clip(lower=1e-12)].set_index("step")["value"]
    if below.empty:
        return None
    first, last, lowest = (int(below.index[place]) for place in (0, -1, int(below.argmin())))
    return first, last, lowest, float(below.min())


def _heads(
    table: pd.DataFrame, onsets: pd.DataFrame | None, least: pd.Series, came: Time, named: float, since: int
) -> list[dict[str, object]]:
    effects, direct = with_role(table, Role.EFFECT), with_role(table, Role.DIRECT_EFFECT)
    if not effects:
        return []
    effect = _smoothed(table, effects[0])
    carried = _carried(table, _sure(effect, least), least).loc[since:]
    before = _predecessors(carried, effect[0].loc[since:])
    values = carried.iloc[-1].loc[lambda value: value != 0]
    written = sure = pd.Series(dtype=float)
    if direct:
        straight = _smoothed(table, direct[0])
        written, sure = straight[0].iloc[-1], _sure(straight, least).iloc[-1]
    along = with_role(table, Role.ATTENTION_ALONG)[:1]
    relations = select(table, *along[0])["relation"].dropna().unique() if along else ()
    attention = {name: _smoothed(table, *along, relation=name)[0].iloc[-1] for name in relations}
    found = list[dict[str, object]]()
    for (layer, number), value in zip(values.index, values, strict=True):
        head = int(layer), int(number)
        mass = {name: float(of.get(head, 0.0)) for name, of in attention.items()}
        is_indirect = bool(abs(written.get(head, 0.0)) < INDIRECT * abs(value))
        kind, relation = _kind(mass, sure.get(head, 0.0), is_indirect, named)
        t50 = _time(onsets, effects[0], layer=layer, head=number)
        attends, labels = (along[0], {"relation": relation}) if kind else (effects[0], {})
        formed = _time(onsets, attends, first=True, layer=layer, head=number, **labels)
        of_head = (*head, kind, value, written.get(head, np.nan), *t50, *formed, probability_before(formed, came))
        found.append(dict(zip(HEADS, (*of_head, " and ".join(before[head])), strict=True)))
    return found


def _carried(table: pd.DataFrame, effects: pd.DataFrame, least: pd.Series) -> pd.DataFrame:
    """Return the sure effect of each head that carries the behaviour at a checkpoint, and 0 of others: [step, head]."""
    carries = pd.DataFrame(False, effects.index, effects.columns)
    for pair, kind in itertools.product(with_role(table, Role.ABLATED), ("mean", "zero")):
        carries |= _sure(_smoothed(table, pair, kind=kind), least).reindex_like(effects) * effects > 0
    return effects.where(carries, 0.0)


def _predecessors(carried: pd.DataFrame, effects: pd.DataFrame) -> Mapping[Any, list[str]]:
    """Return of each head that carries the behaviour at the end which ones it took over from."""
    found, last = defaultdict[Any, list[str]](list), effects.iloc[-1]
    now, once = carried.iloc[-1] > 0, (carried.iloc[-1] <= 0) & (carried.max() > 0)
    for gone, head in itertools.product(carried.columns[once].to_list(), carried.columns[now].to_list()):
        later = effects.loc[carried[gone].idxmax() :]
        if last[gone] > QUARTER * later[gone].iloc[0] or later[head].iloc[0] > QUARTER * last[head]:
            continue
        fall, rise = _change(later[gone]), _change(later[head])
        if fall[0] < rise[1] and rise[0] < fall[1]:
            found[head].append(head_label(*gone))
    return found


def _change(curve: pd.Series) -> tuple[int, int]:
    """Return between which checkpoints a curve is from a quarter to three quarters of its way."""
    way = (curve - curve.iloc[0]) / (curve.iloc[-1] - curve.iloc[0])
    rest = way.loc[way.index[way <= QUARTER][-1] :]
    return int(rest.index[0]), int(rest.index[rest >= 1 - QUARTER][0])


def _sure(smoothed: Sequence[pd.DataFrame], least: pd.Series) -> pd.DataFrame:
    """Return values that are large enough, with intervals that do not hold 0, and else 0: [step, head]."""
    value, lo, hi = smoothed
    return value.where(value.abs().ge(least, axis=0) & ~((lo <= 0) & (hi >= 0)), 0.0)


def _smoothed(table: pd.DataFrame, pair: tuple[str, str], **labels: str) -> list[pd.DataFrame]:
    """Return each head's value and the ends of its interval, [step, head]: medians over the last checkpoints there."""
    rows, steps = select(table, *pair).astype({"layer": int, "head": int}), np.sort(table["step"].unique())
    for name, label in labels.items():
        rows = rows[rows[name] == label]
    each = [rows.pivot(index="step", columns=["layer", "head"], values=end) for end in ("value", "lo", "hi")]
    return [one.reindex(steps).rolling(LAST, min_periods=1).median() for one in each]


def _kind(mass: Mapping[str, float], sure: float, is_indirect: bool, named: float) -> tuple[str, str]:
    """Return the kind of a head by the rules of `find_behaviour`, and the relation that it is of, empty without any;
    `sure` is its direct effect where that is surely one.
    """

    def most(*names: str) -> str:
        of = [name for name in mass if {*name.split(" or ")} & {*names} and mass[name] >= named]
        return max(of, key=lambda name: mass[name], default="")

    if sure > 0 and (relation := most("END to IO", "END to S1", "END to S2")):
        return "name mover" if "END to IO" in relation.split(" or ") else "copy suppression", relation
    if sure < 0 and (relation := most("END to IO")):
        return "negative mover", relation
    if is_indirect and (relation := most("END to S2")):
        return "S-inhibition", relation
    if not is_indirect or not (relation := most(*_OF_KINDS)):
        return "", ""
    return next(kind for name, kind in _OF_KINDS.items() if name in relation.split(" or ")), relation


def _time(onsets: pd.DataFrame | None, pair: tuple[str, str], *, first: bool = False, **labels: Any) -> Time:
    """Return when a curve was half-way in its largest onset away from 0, or its first, with its interval; or nan."""
    if onsets is None or onsets.empty:
        return NEVER
    rows = onsets[onsets["onset"]]
    for name, label in {"probe": pair[0], "quantity": pair[1], **labels}.items():
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
