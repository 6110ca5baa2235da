"""Which checkpoints of a series are opened: those of some steps, or so many; branches whose steps go on counting."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from stagewise.checkpoints._formats import EMBEDDINGS, UNEMBEDDINGS
from stagewise.checkpoints._weight_files import Contents
from stagewise.checkpoints.names import Coordinates
from stagewise.checkpoints.sources import Entry, Source

Choice = Iterable[int] | int | str
"""Steps; a number of checkpoints, log-spaced; or a text, as "0:10000:1000" or "0,512,1000"."""

BY_TOKEN = (*EMBEDDINGS, *UNEMBEDDINGS, "lm_head.bias")
"""Ends of the names of weights with a row a token."""

HOW = "as 0:10000:1000 (from, to, every), as 0,512,1000, or a number of checkpoints"


def chosen_steps(steps: Sequence[int], choice: Choice, name: str) -> list[int]:
    """Return the chosen steps of a series, ascending; a count has both ends, "from:to:every" takes the nearest."""
    available = sorted(set(steps))
    if isinstance(choice, int):
        return _log_spaced(available, choice)
    if isinstance(choice, str):
        if span := re.fullmatch(r"(\d*):(\d*)(?::(\d*))?", choice.strip()):
            return _in_span(available, *(int(part) if part else None for part in span.groups()), name=name)
        if not re.fullmatch(r"\d+(\s*,\s*\d+)*", choice.strip()):
            raise ValueError(f"steps are chosen {HOW}; got {choice!r}")
        choice = map(int, choice.split(","))
    requested = set(choice)
    if unknown := sorted(requested - set(available)):
        raise ValueError(f"{name} has no step {unknown[0]}; its steps are {_listed(available)}")
    if available and not requested:
        raise ValueError(f"no checkpoints of {name}: `steps` names none")
    return sorted(requested)


def _log_spaced(steps: list[int], number: int) -> list[int]:
    """Return so many steps, as evenly as they can be in log(1 + step), the first and the last one too."""
    if number < 2:
        raise ValueError(f"checkpoints are the first and the last one at least, got {number}")
    if number >= len(steps):
        return steps
    places = np.log1p(np.array(steps, float))
    nearest = np.abs(places - np.linspace(places[0], places[-1], number)[:, None]).argmin(axis=1)
    chosen = set(nearest.tolist())
    while len(chosen) < number:  # several places had the same nearest step: take those farthest from all others
        distance = np.abs(places[:, None] - places[sorted(chosen)]).min(axis=1)
        chosen.add(int(distance.argmax()))
    return [steps[place] for place in sorted(chosen)]


def _in_span(steps: list[int], first: int | None, last: int | None, every: int | None, *, name: str) -> list[int]:
    inside = [step for step in steps if (first or 0) <= step and (last is None or step <= last)]
    if not inside:
        raise ValueError(f"{name} has no step from {first or 0} to {last}; its steps are {_listed(steps)}")
    if not every:
        return inside
    grid = np.arange(inside[0] if first is None else first, inside[-1] + 1, every)
    nearest = np.abs(np.array(inside) - grid[:, None]).argmin(axis=1)
    return [inside[place] for place in sorted(set(nearest.tolist()))]


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(map(str, steps)) if len(steps) < 12 else f"{len(steps)} from {steps[0]} to {steps[-1]}"


def _check_branches(source: Source, branches: Iterable[str]) -> None:
    known = source.branches
    if unknown := [branch for branch in branches if branch not in known]:
        raise ValueError(f"{source.name} has no branch {unknown[0]!r}; it has {', '.join(map(repr, known))}")


def only_chosen(source: Source, branch: str | None, steps: Choice | None) -> Source:
    """Return a source with the checkpoints of one branch of training, of the chosen steps; None takes all."""
    _check_branches(source, [] if branch is None else [branch])
    of_branch = source.of(entry for entry in source.entries if branch in (None, entry.at.branch))
    if steps is None:
        return of_branch
    return of_branch.only(chosen_steps([entry.at.step for entry in of_branch.entries], steps, source.name))


def joined(source: Source, branches: Collection[str]) -> Source:
    """Return a source with these branches of training as one."""
    return source.of(
        dataclasses.replace(entry, at=entry.at._replace(branch="")) if entry.at.branch in branches else entry
        for entry in source.entries
    )


def continued(start: Source, source: Source) -> Source:
    """Return a source after the checkpoints that its training began from: its steps and tokens count on from the last
    of these, which stands for its own step 0. Tokens that were added to the vocabulary are left out of all.
    """
    last = max(start.entries, key=lambda entry: entry.at.step)
    known, larger = (int((one.config() or {}).get("vocab_size") or 0) for one in (last, source.entries[0]))
    grown = 0 < known < larger
    told = [f"{larger - known} tokens of {source.name} that {start.name} has not are left out"] if grown else []

    def later(entry: Entry) -> Entry:
        seen, own = last.at.tokens, entry.at.tokens
        at = Coordinates(last.at.step + entry.at.step, None if seen is None or own is None else seen + own)
        read = partial(_without_new, entry, known) if grown else entry.read
        return dataclasses.replace(entry, at=at, read=read, record=lambda: None)  # the trainer's record counts from 0

    place = "" if len(start.entries) == 1 else f"{start.name}/"
    before = (dataclasses.replace(one, label=place + one.label, at=one.at._replace(branch="")) for one in start.entries)
    return dataclasses.replace(
        source,
        entries=(*before, *(later(entry) for entry in source.entries if entry.at.step > 0)),
        remote=start.remote or source.remote,
        identity=f"{source.identity} after {start.identity}",
        architecture=source.architecture or start.architecture,
        names=(*source.names, *told),
        promised=(),
        lost=(),
        planned=None,
        begins=last.at.step,
    )


def _without_new(entry: Entry, known: int) -> Contents:
    """Read a checkpoint without the rows of the tokens that were added to a vocabulary of so many."""
    contents = entry.read()
    cut = {name: weight[:known] for name, weight in contents.weights.items() if name.endswith(BY_TOKEN)}
    return contents._replace(weights={**contents.weights, **cut})


def check_one_count(source: Source, branches: Collection[str]) -> None:
    """Refuse branches whose steps do not go on counting, from one to the next."""
    _check_branches(source, branches)
    taken = sorted((entry for entry in source.entries if entry.at.branch in branches), key=lambda entry: entry.at.step)
    for one, other in pairwise(taken):
        falls = one.at.tokens is not None and other.at.tokens is not None and other.at.tokens < one.at.tokens
        if one.at.branch != other.at.branch and (one.at.step == other.at.step or falls):
            raise ValueError(
                f"the steps of {', '.join(map(repr, branches))} are not one count: {one.label} and {other.label} do "
                "not follow each other. Open one of them: `branch` (--branch)"
            )
