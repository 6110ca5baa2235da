"""The lineage of attention in words: the part of `words` on kinds of pattern."""

from collections.abc import Mapping

import pandas as pd

from stagewise.words._grammar import count, more
from stagewise.words._onsets import LISTED, Row
from stagewise.words._times import span

NO_PATTERNS = (
    "the table has no patterns of heads: measure one of PatternClusters.profile, OffsetProfile.mass, AttentionTo.mass"
)

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
