"""What happened in a record, as its folder says it: `truths.json` and the table of sources in `README.md`."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

TRUTHS, SOURCES = "truths.json", "README.md"
ROW = re.compile(r"\| ([^|]+) \| [^|]+ \| (\S+) ([^|]+) \| ([0-9a-f]{7,}) \| ")
"""A row of the table of sources: the record, its file, the repository with the path in it, the commit."""


class Event(NamedTuple):
    """A change that may be told of a record, or has to be.

    Args:
        lo: the first step of the interval in which it is half-way.
        hi: the last one.
        curves: a regular expression on the names of the curves that it is of.
        direction: "rises", "falls" or "either".
        named: how many of its curves have to be told.
        required: whether it has to be told.
        cause_needed: whether it is wrong to tell it without what was done to the run.
        kind: of an episode, as "spike"; empty for a change of level.
    """

    lo: float
    hi: float
    curves: str
    direction: str
    named: int
    required: bool
    cause_needed: bool = False
    kind: str = ""


class Never(NamedTuple):
    """Curves of which nothing may be told, why, and whether they are no curves that learn, as errors and settings."""

    curves: str
    why: str
    no_curve: bool


class Truth(NamedTuple):
    """What happened in a record: at most so many events, and whether none at all is the best answer."""

    file: str
    most: int
    events: tuple[Event, ...] = ()
    never: tuple[Never, ...] = ()
    null: bool = False
    refused: bool = False
    """Whether it is right to refuse an answer."""
    bounded: str = ""
    """Regular expression on the names of curves that lie in [0, 1]."""

    @property
    def sentence(self) -> str:
        """What has to be told of it."""
        required = [one for one in self.events if one.required]
        told = "; ".join(f"{one.direction} within {one.lo:g}-{one.hi:g}: {one.curves}" for one in required)
        return told or ("refusal" if self.refused else "none" if self.null else "none has to be told")


class Source(NamedTuple):
    """Where a record comes from: the repository with the path in it, and the commit."""

    place: str
    commit: str


def truths_of(folder: Path) -> dict[str, Truth]:
    """Return the truth of each record of a folder."""
    written = json.loads((folder / TRUTHS).read_text(encoding="utf8"))
    return {name: _truth(one) for name, one in written.items()}


def sources_of(folder: Path) -> dict[str, Source]:
    """Return the source of each record of a folder that its table names."""
    rows = ROW.findall((folder / SOURCES).read_text(encoding="utf8"))
    return {name: Source(f"{repository} {path}".replace("`", ""), commit) for name, repository, path, commit in rows}


def _truth(one: dict[str, Any]) -> Truth:
    events = tuple(map(_event, one["transitions"]))
    never = tuple(Never(each["curves"], each["why"], each["no_curve"]) for each in one["never"])
    return Truth(one["file"], one["events"][1], events, never, one["null"], one["refusal_is_right"], one["bounded"])


def _event(one: dict[str, Any]) -> Event:
    lo, hi = map(float, one["interval"])
    cause_needed, kind = one.get("cause_needed", False), one.get("kind", "")
    return Event(lo, hi, one["curves"], one["direction"], one["named"], one["required"], cause_needed, kind)
