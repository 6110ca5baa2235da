"""Every sentence about stages, turning points and heads, from the rows that hold them."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from stagewise.criteria import DEFAULT, StageCriteria, TurnVerdict
from stagewise.event import DIFFUSE, Causes, Context
from stagewise.findings import Stages
from stagewise.table import head_label
from stagewise.words._grammar import count, more
from stagewise.words._onsets import LISTED, Row, cause, largest, no_onsets, not_judged, onsets, timed
from stagewise.words._times import at, interval, span, written

NO_STAGES = "no stages can be found: there are no scores over at least four checkpoints"

FEW = (
    "no stages can be found: with {checkpoints} no onset can be distinguished from noise, which takes "
    "{fewest} or more; save more of them (`trainer_callbacks.save_on`)"
)

TURNS = {
    TurnVerdict.PLATEAU: "has its minimum after a plateau",
    TurnVerdict.CLOSE: "has its minimum with the model close to the reference, without a plateau",
    TurnVerdict.COMPLETE: "is the complete reference: it ends no stage",
    TurnVerdict.PASSED: "is only passed: the model neither came close nor paused{slows}",
    TurnVerdict.OUT_OF_ORDER: "has its minimum, within its error, no later than the reference before it",
    TurnVerdict.NOT_APPROACHED: "is not approached: it falls by {fall:.2g} of {start:.2g} nats before its minimum",
    TurnVerdict.NOT_FINITE: "cannot be judged: KL to it, or to the complete reference, is not finite at {when}",
    TurnVerdict.NO_RISE: "has no turning point: it rises by less than {criteria.depth:.0%} of its fall",
    TurnVerdict.NOISE: "has no turning point: noise alone could cause such a rise",
    TurnVerdict.OVERFITS: "rises again with the complete reference: what was learned is lost, which ends no stage",
    TurnVerdict.CORROBORATES: "has its minimum at the end of stage {ends_stage}",
    TurnVerdict.ELSEWHERE: "has its minimum away from every boundary",
}

EVENTS = {
    "birth": "{heads} {leave} the common pattern: kind {after} is born",
    "split": "{heads} {leave} kind {before}: kind {after} splits off",
    "change": "{heads} {turn} from kind {before} to a pattern of {own}, kind {after}",
    "merge": "kind {before} merges into kind {after}: {heads} {join} it",
    "death": "kind {before} dies: {heads} {turn} back to the common pattern, kind {after}",
    "swap": "{heads} change places between kinds {before}",
    "move": "{heads} {turn} from kind {before} to kind {after}",
}
"""Event -> what is said of it."""


def stages(found: Stages) -> list[str]:
    """Say from when to when each stage lasts, what happened in it, and where there is one stage alone, why."""
    if found.unknown:
        return [too_few(*found.unknown)]
    lines = [
        # Transitions without a reference that is left begin where they are half-way.
        f"stage {row['stage']}, {span(edge(row, 'start'), edge(row, 'end'))}"
        + (f", half-way at {written(row['t50'])}" if row["left"] and np.isfinite(row["t50"]) else "")
        + f": {text}"
        for row, text in zip(found.table.to_dict("records"), summaries(found), strict=True)
    ]
    onsets, points, context = found.onsets, found.turning_points, found.context
    if len(found) == 1:
        reasons = zip(points["reference"], turning_points(points, context), strict=True)
        why = [*(f"{name} {reason}" for name, reason in reasons), *no_onsets(onsets, context)]
        lines += ["no separate stages:", *(f"  {line}" for line in why)]
    return [*lines, *not_judged(onsets, context)]


def summaries(found: Stages) -> list[str]:
    """Return the events of each stage in words."""
    rows = found.table.to_dict("records")
    ends = [(after["left"] != "", after["spread"]) for after in rows[1:]] + [(True, False)]
    return [_summary(found, row, *end) for row, end in zip(rows, ends, strict=True)]


def events_in(events: pd.DataFrame, table: pd.DataFrame, stage: int) -> pd.DataFrame:
    """Return the changes of heads from the beginning of a stage's transition up to that of the next one."""
    begins = [*table["begins"], np.inf]
    step = events["first_step_after"]
    after = step.gt(begins[stage - 1]) | (stage == 1)
    return events[after & step.le(begins[stage])]


def _summary(found: Stages, row: Row, closed: bool, spread: bool) -> str:
    """Return the events of a stage in words; `closed`, if KL to its reference is lowest at its end, `spread`, if it
    ends among onsets one after another.
    """
    onsets, events = found.onsets, events_in(found.events, found.table, row["stage"])
    if row["left"] or (row["stage"] == 1 and row["reference"] and closed):
        phrases = head_events(events)
    elif row["stage"] == 1:
        none = f"no onset in {count(len(onsets), 'score')}"
        first = "up to half of the onsets" if spread else "before the first onset"
        phrases = head_events(events) or [first if onsets["onset"].any() else none]
    else:
        began_here = onsets[onsets["starts_stage"] == row["stage"]].sort_values("t50", kind="stable")
        phrases = [onset_stage(began_here, found.context, spread=row["spread"])]
    closest = [f"closest to {row['closest']}"] if row["closest"] else []
    kl = [kl_to_reference(row)] if row["reference"] and closed else []
    return "; ".join([*filter(None, phrases), *closest, *kl])


def too_few(checkpoints: int, fewest: int) -> str:
    """Say that there are too few checkpoints to find any onset."""
    return FEW.format(checkpoints=count(checkpoints, "checkpoint"), fewest=fewest)


def edge(row: Row, name: str) -> str:
    """Write an end of a stage with its interval."""
    return interval(*(row[name + suffix] for suffix in ("", "_lo", "_hi")))


def turning_point(row: Row, criteria: StageCriteria = DEFAULT, causes: Causes | None = None) -> str:
    """Return the decision on a turning point in words."""
    if row["verdict"] == TurnVerdict.NOT_APPROACHED and row["fall"] == 0:
        return "is not approached: KL to it never falls below its first value"
    timed_by = f" ({cause(row['cause'], causes or {})}, which may have timed it)" if row.get("cause") else ""
    when = at(row.get("step", np.nan))
    slows = f" (learning slows to {row['slowdown']:.0%})" if pd.notna(row.get("slowdown")) else ""
    return TURNS[TurnVerdict(row["verdict"])].format(**row, criteria=criteria, when=when, slows=slows) + timed_by


def turning_points(points: pd.DataFrame, context: Context) -> list[str]:
    """Return the decision on every turning point in words."""
    return [turning_point(row, context.criteria, context.causes) for row in points.to_dict("records")]


def kl_to_reference(row: Row) -> str:
    """Say how close the model came to the reference of a stage, and whether it left it again."""
    goal, before, lowest, after = (row[name] for name in ("reference", "kl_first", "kl_lowest", "kl_end"))
    again = f", then rises to {after:.2g}" if after > lowest else ""
    return f"KL to {goal} {'falls to' if lowest < before else 'is'} {lowest:.2g}{again}"


def head_events(events: pd.DataFrame) -> list[str]:
    """Return the changes of heads in words, heads with the same change together."""
    phrases = []
    for (before, after), rows in events.groupby(["before", "after"], sort=False):
        heads = ", ".join(map(head_label, rows["layer"], rows["head"]))
        take, leave = ("take", "leave") if len(rows) > 1 else ("takes", "leaves")
        if before == DIFFUSE:
            phrases.append(f"{heads} {take} {after}")
        else:
            phrases.append(f"{heads} {leave} {before}" + ("" if after == DIFFUSE else f" for {after}"))
    return phrases


def onset_stage(began_here: pd.DataFrame, context: Context, *, spread: bool = False) -> str:
    """Return the onsets at the start of a stage in words, at most the largest; several of them with their times."""
    shown = largest(began_here, LISTED)
    phrases = (timed if len(began_here) > 1 else onsets)(shown, context)
    times = began_here["t50"]
    over = f"one after another, {span(times.iloc[0], times.iloc[-1])}: " if spread else ""
    return over + "; ".join([*phrases, *more(len(began_here) - len(shown))])


def event(row: Row, names: Mapping[int, str]) -> str:
    """Return the event in words."""
    before, after = (
        " and ".join(f"{kind} ({names[int(kind)]})" for kind in row[side].split()) for side in ("before", "after")
    )
    heads = row["heads"].split()
    one = len(heads) == 1
    verbs = {verb: f"{verb}s" if one else verb for verb in ("leave", "turn", "join")}
    shown = ", ".join(heads[:LISTED]) + (f" and {len(heads) - LISTED} more" if len(heads) > LISTED else "")
    return EVENTS[row["event"]].format(
        before=before, after=after, heads=shown, own="its own" if one else "their own", **verbs
    )


def events(frame: pd.DataFrame, kinds: pd.DataFrame) -> list[str]:
    """Return the events with their times, one a line; also that there was none."""
    if frame.empty:
        return ["no kind is born, splits, merges, changes or dies"]
    shown = frame.head(2 * LISTED)
    lines = [
        f"{span(row['last_step_before'], row['first_step_after'])}: {text}"
        for row, text in zip(shown.to_dict("records"), each_event(shown, kinds), strict=True)
    ]
    return [*lines, *more(len(frame) - len(lines), "events")]


def each_event(frame: pd.DataFrame, kinds: pd.DataFrame) -> list[str]:
    """Say of each event what happened; `kinds` has the names."""
    names = dict(zip(kinds["kind"].tolist(), kinds["name"].tolist(), strict=True))
    return [event(row, names) for row in frame.to_dict("records")]


def kinds(frame: pd.DataFrame) -> list[str]:
    """Say which kinds there are, from when to when, and of how many heads."""
    return [
        f"kind {row['kind']} ({row['name']}): {span(row['first_step'], row['last_step'])}, "
        f"up to {count(row['heads'], 'head')}"
        for row in frame.head(2 * LISTED).to_dict("records")
    ]
