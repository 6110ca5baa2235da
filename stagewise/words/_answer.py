"""The answer, before everything else: how many transitions, when, what the model could do before and after, by whom."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from stagewise.criteria import OnsetVerdict
from stagewise.event import Context, labels_of
from stagewise.findings import Stages
from stagewise.learning_rates import SEEMS
from stagewise.table import LOGGED, Quantity, Role
from stagewise.words._grammar import capital, count, numeral
from stagewise.words._onsets import RESTING, Row, by_cause, cause, change, largest, level, onset, timed
from stagewise.words._onsets import onsets as in_words
from stagewise.words._times import at, span, written
from stagewise.words.stages import edge, events_in, head_events, too_few

EPISODES = {
    "spike": "{label} goes from {before} to {after} at {start}, and is back at {back} by {end}: a spike.",
    "spikes": "{label} has {number} {spikes}, from {before} to {after}, from {start} to {end}{open_end}: not stable.",
    "diverges": "{label} is not finite from {start} on.",
    "overfits": "{label} rises from {before} at {start} to {after}, while {beside} goes on falling: overfitting.",
    "turns up": "{label} has its minimum at {start}, and rises from {before} to {after}: as in overfitting.",
    "groks": "{label} is half-way at {end}, {beside} at {start}: grokking.",
}
"""Kind of episode -> what is said of it."""

SEVERAL = 2
"""Spikes of a curve that are told one by one; more are counted."""

NAMED = 3
"""Heads, and curves of the whole model, that are named in a sentence."""

NARROW = 0.2
"""Width of the interval of a transition, in e-folds of steps, above which finer checkpoints are proposed."""

MOST = 0.5
"""Part of the onsets of a transition above which, where they are not over, it is not."""

PART = 1 / 3
"""Part of the largest change of a head in a transition from which on others are named beside it."""

COOLED = ", as where a learning rate cools down: --cause names that"
"""Said of losses that fall to the end of a log that names no causes."""

FIRST = (Role.ACCURACY, Role.LOSS, Role.SQUARED_ERROR)
"""Roles of curves whose levels are told before all others, so that a change of the loss is never left out."""

EXPLAINED = 0.5
"""Part of a curve's move from which on it is the change that a cause explains, and is not told again as gradual."""

SHARE = (0, 1)

TINY = 1e-12
"""Change of a level below which it is rounding."""


def answer(found: Stages) -> list[str]:
    """Return the answer in sentences: the number of transitions, a sentence each, and what is not certain.

    >>> from stagewise import find_stages, read_log
    >>> answer(find_stages(read_log({"step": range(0, 200, 10), "accuracy": [0.1] * 20})))[0]
    'No transition was found.'
    """
    if found.unknown:
        return [f"{capital(too_few(*found.unknown))}."]
    transitions = found.table.iloc[1:].to_dict("records")
    if not transitions:
        return ["No transition was found.", *_explained(found), *_gradual(found), *_beside(found), *_power(found)]
    lead = "One transition was" if len(transitions) == 1 else f"{numeral(len(transitions))} transitions were"
    return [f"{lead} found.", *each_transition(found), *_explained(found), *_beside(found), _uncertain(found)]


def each_transition(found: Stages) -> list[str]:
    """Return a sentence for each transition, in their order."""
    return [_transition(row, found) for row in found.table.iloc[1:].to_dict("records")]


def _of_stage(found: Stages, stage: int) -> pd.DataFrame:
    """Return the onsets of the transition that a stage begins with."""
    return found.onsets[found.onsets["starts_stage"] == stage] if len(found.onsets) else found.onsets


def _of_weights(found: Stages, onsets: pd.DataFrame) -> np.ndarray:
    """Return which onsets are of what is read from weights alone."""
    return np.array([found.context.quantity(row).weights for row in onsets.to_dict("records")], bool)


def _transition(row: Row, found: Stages) -> str:
    parts = [
        ", ".join(_levels(found, row["stage"], in_gap=_gap(row, found) is not None)),
        *(_heads(found, row["stage"]) or head_events(events_in(found.events, found.table, row["stage"]))),
        *_meanwhile(found, row["stage"]),
        *_closest(found, row),
        *_hidden(found, row["stage"]),
    ]
    if not any(parts) and len(began_here := _of_stage(found, row["stage"])):
        parts = timed(largest(began_here, NAMED), found.context)
    what = "; ".join(part for part in parts if part)
    return f"{_when(row, found)}{_context(row, found)}" + (f": {what}." if what else ".")


def _hidden(found: Stages, stage: int) -> list[str]:
    """Say which predictions are learned in a transition that the mean loss does not show."""
    of_classes, of_mean = (_in_role(found, _of_stage(found, stage), role) for role in (Role.LOSS_BY_CLASS, Role.LOSS))
    if of_classes.empty or len(of_mean) or _in_role(found, found.onsets, Role.LOSS).empty:
        return []
    learned = ", ".join(in_words(largest(of_classes, NAMED), found.context))
    return [f"with no onset of the mean loss, {learned}"]


def _in_role(found: Stages, onsets: pd.DataFrame, role: Role) -> pd.DataFrame:
    return onsets[np.array([found.context.quantity(row).role == role for row in onsets.to_dict("records")], bool)]


def _meanwhile(found: Stages, stage: int) -> list[str]:
    """Say that a curve of the whole model goes and comes back within a transition."""
    curves = _of_stage(found, stage)
    without_labels = np.array([not labels_of(row) for row in curves.to_dict("records")], bool)
    curves = curves[without_labels].sort_values("t50", kind="stable") if len(curves) else curves
    of_each = [of.to_dict("records") for _, of in curves.groupby(["probe", "quantity"], sort=False)]
    ends = [(of[0], of[-1]) for of in of_each if _up(of[0]) != _up(of[-1])]
    named = [(found.context.quantity(first), first, last) for first, last in ends]
    return [
        f"meanwhile {change(labels_of(first), what, up=_up(first))}, "
        f"and is back at {level(last['after'], _size(first))}"
        for what, first, last in sorted(named, key=lambda each: not _is_certain(each[0]))[:1]
    ]


def _up(row: Row) -> bool:
    return bool(row["after"] >= row["before"])


def _closest(found: Stages, row: Row) -> list[str]:
    """Say that another reference is the closest one after a transition."""
    before = found.table.loc[found.table["stage"] == row["stage"] - 1, "closest"].item()
    return [f"{row['closest']} becomes the closest reference, after {before}"] if row["closest"] != before else []


def _when(row: Row, found: Stages) -> str:
    when = at(edge(row, "start"))
    if np.isnan(row["t50"]):
        return f"At {when}"
    if gap := _gap(row, found):
        return f"Between {span(*gap, ' and ')} (one gap: when within it, these checkpoints cannot say)"
    if row["spread"] and not row["left"]:
        times = _of_stage(found, row["stage"])["t50"]
        if times.min() < times.max():
            return f"Half-way one after another, {span(times.min(), times.max())}"
    if not row["left"]:
        return f"Half-way at {when}"
    half = f", half-way at {written(row['t50'])}" if np.isfinite(row["t50"]) else ""
    return f"At {when} the model leaves {row['left']}{half}"


def _gap(row: Row, found: Stages) -> tuple[float, float] | None:
    """Return the ends of the gap in which all of a transition lies; None where it lies in none."""
    began_here = _of_stage(found, row["stage"])
    gaps = began_here[["t50_lo", "t50_hi"]].round(6).drop_duplicates() if len(began_here) else began_here
    within = len(gaps) == 1 and not row["left"] and bool(began_here["within_gap"].all())
    if not within:
        return None
    ((lo, hi),) = gaps.to_numpy(float).tolist()
    return lo, min(hi, float(found.table["end"].iloc[-1]))


def _context(row: Row, found: Stages) -> str:
    """Name the cause at a transition, which may have timed it."""
    over = np.fmax(row["start_hi"], row["t90"])  # what changes of weights follow it have causes of their own
    of_onsets = [each["cause"] for each in _of_stage(found, row["stage"]).to_dict("records") if each["t50"] <= over]
    points = found.turning_points
    of_points = points.loc[points["reference"] == row["left"], "cause"] if row["left"] else []
    names = [name for name in dict.fromkeys([*of_points, *of_onsets]) if name]
    return "".join(f" ({cause(name, found.context.causes)}, which may have timed it)" for name in names[:1])


def _levels(found: Stages, stage: int | None = None, *, in_gap: bool = False) -> list[str]:
    """Say from where to where curves of the whole model went, in a stage or all of the run: accuracy, loss, others.

    Those with an onset there come first, with its levels, from before the first one to after the last. Where all
    happens within a gap between checkpoints there are no others, which move at other times.
    """
    onsets = (found.onsets if stage is None else _of_stage(found, stage)).to_dict("records")
    began = {_name_of(row): row for row in onsets}
    rows = found.levels if stage is None else found.levels[found.levels["stage"] == stage]
    of_each = [of.to_dict("records") for _, of in rows.groupby(["probe", "quantity"], sort=False)]
    curves: list[Row] = [{**of[0], "after": of[-1]["after"]} for of in of_each]
    if stage is not None:
        before = {_name_of(row): row["before"] for row in reversed(onsets)}
        own = {name: {"before": before[name], "after": row["after"]} for name, row in began.items()}
        curves = [{**row, **own.get(_name_of(row), {})} for row in curves]
    named = [(found.context.quantity(row), row) for row in curves]
    moved = [(what, row) for what, row in named if _size(row) >= max(row["smallest"], TINY)]
    if stage is None:
        least = {name: _unexplained(row, found) for name, row in began.items()}
        moved = [each for each in moved if _size(each[1]) >= least.get(_name_of(each[1]), 0)]
    else:
        moved = [each for each in moved if _name_of(each[1]) in began or (_is_certain(each[0]) and not in_gap)]

    def order(each: tuple[Quantity, Row]) -> tuple[bool, bool, bool, float]:
        what, row = each
        part = _size(row) / max(abs(float(row["before"])), abs(float(row["after"])))  # of the larger level
        return what.role not in FIRST, _name_of(row) not in began, what.range != SHARE, -part

    moved.sort(key=order)
    # What is lost while others are gained, or the other way round, is named too.
    other = next((k for k, each in enumerate(moved) if _up(each[1]) != _up(moved[0][1])), 0)
    chosen = [*moved[: NAMED - 1], moved[other]] if other >= NAMED else moved[:NAMED]
    return [f"{what.label} from {_way(row, ' to ')}" for what, row in chosen]


def _unexplained(row: Row, found: Stages) -> float:
    """Return the size from which a curve moved beyond its noise, and beyond what a cause explains."""
    explained = _size(row) / EXPLAINED if row["verdict"] == OnsetVerdict.COINCIDES else 0.0
    return float(max(found.context.criteria.peak * row["noise"], explained))


def _is_certain(what: Quantity) -> bool:
    """Whether a change has a size that counts on its own: that of a curve without unit and bounds may be noise."""
    return bool(what.unit) or what.range[0] is not None


def _name_of(row: Row) -> tuple[str, str]:
    return row["probe"], row["quantity"]


def _way(row: Row, between: str) -> str:
    return between.join(level(row[name], abs(row["after"] - row["before"])) for name in ("before", "after"))


def _heads(found: Stages, stage: int) -> list[str]:
    """Name the heads whose attention or output changes most: what they turn to, before what they leave or rest on."""
    began_here = _of_stage(found, stage)
    rows = began_here[~_of_weights(found, began_here)].to_dict("records")
    rows = [row for row in rows if pd.notna(row["head"])]
    large = [row for row in rows if row.get("relation") not in RESTING and _size(row) >= found.context.criteria.growth]
    rows = large if any(map(_up, large)) else rows
    rows.sort(key=lambda row: (not _up(row), -_size(row)))
    one_a_head = [*{(row["layer"], row["head"]): row for row in reversed(rows)}.values()][::-1]
    most = [row for row in one_a_head if _size(row) >= PART * max(map(_size, one_a_head))]
    chosen = sorted(most[:NAMED], key=lambda row: row["t50"])
    return [onset(row, found.context.quantity(row), found.context.criteria) for row in chosen]


def _size(row: Row) -> float:
    return float(abs(row["after"] - row["before"]))


def _explained(found: Stages) -> list[str]:
    """Return what was done to the run, or seems so, in place of changes that it explains, or without any."""
    if not len(found.onsets):
        return []
    causes = found.context.causes
    explained = by_cause(found.onsets, causes)
    last = found.table["end"].max()  # what comes later was not done yet
    done = [cause(name, causes) for name, at in causes.items() if not isinstance(at, Sequence) and at <= last]
    named = {*explained, *(cause(name, causes) for name in found.onsets["cause"][found.onsets["onset"]])}
    others = [what for what in done if what not in named and not what.startswith(SEEMS)]
    return [
        *(_explains(what, curves, found.context) for what, curves in explained.items()),
        *([f"Done to the run, without a transition: {', '.join(others[:NAMED])}."] if others else []),
    ]


def _explains(what: str, curves: pd.DataFrame, context: Context) -> str:
    """Say of how many curves a cause explains the change, and the levels of the largest of the whole model's."""
    rows = [row for row in largest(curves, NAMED).to_dict("records") if not labels_of(row)]
    levels = ", ".join(f"{context.quantity(row).label} from {_way(row, ' to ')}" for row in rows)
    changes = f"the change{'s' if len(curves) > 1 else ''} of {count(len(curves), 'curve')}"
    return f"{capital(what)} explains {changes}{f': {levels}' if levels else ''}."


def _beside(found: Stages) -> list[str]:
    """Return episodes, changes in weights alone, at times of their own, and small ones."""
    if not len(found.onsets):
        return []
    alone = found.onsets[found.onsets["onset"] & found.onsets["starts_stage"].isna()]
    if found.table["left"].any():  # what comes before is of the approach to the first reference
        alone = alone[alone["t50"] >= found.table["start_lo"].iloc[1]]
    of_weights = _of_weights(found, alone)
    lines, small = (timed(alone[which].head(NAMED), found.context) for which in (of_weights, ~of_weights))
    return [
        *_episodes(found),
        *([f"In weights alone, {'; '.join(lines)}."] if lines else []),
        *([f"Beside, and small: {'; '.join(small)}."] if small else []),
    ]


def _episodes(found: Stages) -> list[str]:
    """Tell episodes; several spikes of a curve are counted in one sentence."""
    together = found.episodes.groupby(["kind", "probe", "quantity"], sort=False)
    groups = [of.to_dict("records") for _, of in together]
    told = [of if len(of) > SEVERAL else [row] for of in groups for row in of[: 1 if len(of) > SEVERAL else None]]
    return [_episode(of, found.context) for of in sorted(told, key=lambda of: float(of[0]["start"]))[:NAMED]]


def _episode(rows: Sequence[Row], context: Context) -> str:
    row = rows[0]
    kind = "spikes" if len(rows) > 1 else row["kind"] if row["beside"] or row["kind"] != "overfits" else "turns up"
    levels = {name: float(np.median([each[name] for each in rows])) for name in ("before", "after", "back")}
    size = abs(levels["after"] - levels["before"])
    ends = {name: level(one, size) for name, one in levels.items() if np.isfinite(size)}
    last = rows[-1]["end"]
    times = {"start": at(row["start"]), "end": at(last if np.isfinite(last) else rows[-1]["start"])}
    open_end = "" if np.isfinite(last) else ", the last not over at the end"
    spikes = "spikes" if levels["after"] > levels["before"] else "collapses"
    told = {"label": capital(context.quantity(row).label), "number": len(rows), "spikes": spikes, "open_end": open_end}
    return EPISODES[kind].format(**{**row, **ends, **times, **told})


def _gradual(found: Stages) -> list[str]:
    """Name the curves that moved all the same, with both levels."""
    heads = []
    if len(found.onsets):
        curves = found.onsets[~found.onsets["onset"] & found.onsets["head"].notna()]
        curves = curves[~_of_weights(found, curves)]  # those have no scale of their own
        moved = (curves["after"] - curves["before"]).abs()
        most = moved[moved >= found.context.criteria.growth].sort_values(ascending=False, kind="stable").index
        for row in curves.loc[most[:NAMED]].to_dict("records"):
            what = change(labels_of(row), found.context.quantity(row), up=_up(row))
            heads.append(f"{what} ({_way(row, ' -> ')})")
    parts = [*_levels(found), *heads]
    if parts:
        return [f"Gradually, or too unlike a step to be told: {'; '.join(parts)}."]
    return [] if by_cause(found.onsets, found.context.causes) else ["Nothing moved by much."]


def _power(found: Stages) -> list[str]:
    """Say which change would have been seen, by the model of the curves themselves."""
    seen, missed = list[str](), list[str]()
    for row in found.power.to_dict("records"):
        label = found.context.quantity(row).label
        if np.isfinite(row["size"]):
            seen.append(f"{row['size']:.2g} or more in {label}")
        else:
            missed.append(f"no change that {label} can have would be seen")
    if not seen:
        return [f"{capital(one)}." for one in missed]
    return [f"A change between two checkpoints would be seen if it were {', '.join(seen)}."]


def _uncertain(found: Stages) -> str:
    """Name the uncertainties: it is one run, a change was not over, finer checkpoints would tell most somewhere."""
    rows = found.table.iloc[1:].to_dict("records")
    widest = max(rows, key=lambda row: np.log1p(row["start_hi"]) - np.log1p(row["start_lo"]))
    finer = ""
    if np.log1p(widest["start_hi"]) - np.log1p(widest["start_lo"]) > NARROW:
        finer = f"; finer checkpoints between {span(widest['start_lo'], widest['start_hi'], ' and ')} would tell most"
    last = _of_stage(found, rows[-1]["stage"])
    moving = "; the last one was not over at the end" if len(last) and np.isinf(last["t90_hi"]).mean() > MOST else ""
    cooled = COOLED if moving and _may_be_cooled(last, found) else ""
    return capital(f"this is one run{moving}{cooled}{finer}.")


def _may_be_cooled(onsets: pd.DataFrame, found: Stages) -> bool:
    """Whether logged losses alone fall in the later half of a run, of which no cause is known."""
    rows = onsets.to_dict("records")
    losses = [row for row in rows if row["probe"] == LOGGED and "loss" in row["quantity"].lower() and not _up(row)]
    late = 2 * onsets["t50"].min() > found.table["end"].max()
    return bool(len(losses) == len(rows) and late and not found.context.causes)


def headline(found: Stages) -> str:
    """Say in a few words how many transitions there are, and at which steps."""
    transitions = found.table.iloc[1:].to_dict("records")
    if not transitions:
        return "No transition was found"
    gaps = [_gap(row, found) for row in transitions]
    steps = [
        written(row["start"]) if gap is None else f"{written(gap[0])} to {written(gap[1])}"
        for row, gap in zip(transitions, gaps, strict=True)
    ]
    if len(steps) == 1:
        return f"One transition, {f'at {at(steps[0])}' if gaps[0] is None else span(*gaps[0])}"
    return f"{numeral(len(steps))} transitions, at {span(', '.join(steps[:-1]), steps[-1], ' and ')}"
