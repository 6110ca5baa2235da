"""Where checkpoints come from: the checkpoints of a folder or a list, before any weights are read."""

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints import names
from stagewise.checkpoints._architectures import UnknownModelError, architecture_from, asked_for, read_off, some_fields
from stagewise.checkpoints._digest import digest, short_digest
from stagewise.checkpoints._weight_files import INSIDE, Contents, State, unusable

TRAINER = "trainer_state.json"
STEP, TOKENS = "global_step", "num_input_tokens_seen"
"""Trainer's counters: the tokens where its arguments say `include_num_input_tokens_seen`; zero otherwise."""


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """One checkpoint as it was found. Nothing is read before a function is called.

    Args:
        label: the revision, folder or file; for a model in memory its index in the list.
        at: its step, and the tokens and branch that its name gives.
        read: reads the weights, with the step that is saved in their file if there is one.
        digest: hashes them, without reading them where the source knows the hash; None if there are no weights.
        config: reads the model's config, None if the source has none beside this checkpoint.
        record: reads what the trainer wrote beside the weights, None if it wrote nothing.
        commit: says which commit of a repository it is, where it lies in one: the name of a revision may move.
        time: says when it was written, seconds since 1970, where that is known.
        within: reads the config that is saved in the file of the weights, which takes as long as the weights.
        download: says how many bytes have to be downloaded before the weights can be read.
        file: finds a file of its own revision, None where there is none.
    """

    label: str
    at: names.Coordinates
    read: Callable[[], Contents] = dataclasses.field(repr=False)
    digest: Callable[[], str | None] = dataclasses.field(repr=False)
    config: Callable[[], Mapping[str, Any] | None] = dataclasses.field(repr=False, default=lambda: None)
    record: Callable[[], Mapping[str, Any] | None] = dataclasses.field(repr=False, default=lambda: None)
    commit: Callable[[], str] = dataclasses.field(repr=False, default=lambda: "")
    within: Callable[[], Mapping[str, Any] | None] = dataclasses.field(repr=False, default=lambda: None)
    time: Callable[[], float | None] = dataclasses.field(repr=False, default=lambda: None)
    download: Callable[[], int] = dataclasses.field(repr=False, default=lambda: 0)
    file: Callable[[str], Path | None] = dataclasses.field(repr=False, default=lambda name: None)

    def load(self) -> State:
        """Read the weights alone."""
        return self.read().weights

    @cached_property
    def recorded(self) -> Mapping[str, int]:
        """The trainer's counts, `STEP` and `TOKENS`; empty where it wrote none that can be read."""
        record = self.readable_record()
        return {key: record[key] for key in (STEP, TOKENS) if names.is_step(record.get(key))}

    def readable_record(self) -> Mapping[str, Any]:
        """Read what the trainer wrote; empty where that cannot be read: the audit names it, weights may be whole."""
        try:
            return self.record() or {}
        except (ValueError, OSError):
            return {}


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """The checkpoints that were found, branch by branch in the order of their steps, or in the given order.

    Args:
        name: what the series is called.
        entries: the checkpoints.
        architecture: of the models, where the source has it without a checkpoint's config.
        promised: steps that must exist, where a plan lists them.
        lost: steps after the last checkpoint that training had reached, and so had saved.
        ignored: names that are no checkpoints'.
        names: lines that say how names were read, where anything in them was ignored or left out.
        ordered: whether the entries were given in an order, as in a list.
        remote: whether reading weights downloads them.
        beside: finds a file that belongs to all checkpoints, as their tokenizer; None where there is none.
        identity: by which two sources of one name are distinguished: a folder's path, a repository; "" if it has none.
        planned: the last step that a run is to come to, where its plan says so.
        folder: on this machine, in which they lie.
        tokens_per_step: where it is known, and names do not say how many tokens were seen.
        begins: the step of the model that the training began from, where that was given.
        chosen: makes some of the entries anew, which then are all that there is: none is downloaded between them.
    """

    name: str
    entries: tuple[Entry, ...]
    architecture: Architecture | None = None
    promised: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    ignored: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    ordered: bool = False
    remote: bool = False
    beside: Callable[[str], Path | None] = dataclasses.field(repr=False, default=lambda name: None)
    identity: str = ""
    planned: int | None = None
    folder: Path | None = None
    tokens_per_step: int | None = None
    begins: int | None = None
    chosen: Callable[[tuple[Entry, ...]], tuple[Entry, ...]] = dataclasses.field(
        repr=False, default=lambda entries: entries
    )

    def __post_init__(self) -> None:
        if not self.ordered:
            ascending = sorted(self.entries, key=lambda entry: (entry.at.branch, entry.at.step, entry.label))
            object.__setattr__(self, "entries", tuple(ascending))

    @property
    def branches(self) -> list[str]:
        """The branches of training that the checkpoints are of, sorted; "" of those that name none."""
        return sorted({entry.at.branch for entry in self.entries})

    def file(self, name: str) -> Path | None:
        """Return a file as the tokenizer, of the last checkpoint's revision or beside all; None where there is none."""
        return (self.entries[-1].file(name) if self.entries else None) or self.beside(name)

    def log(self) -> list[Mapping[str, Any]]:
        """Return the log of transformers' Trainer until the last checkpoint; empty where it cannot be read."""
        history = self.entries[-1].readable_record().get("log_history") if self.entries else None
        return [one for one in history if isinstance(one, dict)] if isinstance(history, list) else []

    def only(self, steps: Iterable[int]) -> "Source":
        """Return the source with only these steps."""
        taken = set(steps)
        return self.of(entry for entry in self.entries if entry.at.step in taken)

    def of(self, entries: Iterable[Entry]) -> "Source":
        """Return the source with only these of its entries."""
        taken = tuple(entries)
        if taken == self.entries:
            return self
        whole = self if len(taken) == len(self.entries) else dataclasses.replace(self, promised=(), lost=())
        return dataclasses.replace(whole, entries=self.chosen(taken))


def in_memory(given: Sequence[tuple[int, Any]], name: str) -> Source:
    """Take (step, model) pairs: HookedTransformers, bridges, Hugging Face models, or just their weights by name.

    Raises:
        ValueError: something else is given, or a step is no whole number.
    """
    if others := [item for item in given if not (isinstance(item, tuple | list) and len(item) == 2)]:
        raise ValueError(f"a model in memory has a step: give [(step, model), ...]; got {type(others[0]).__name__}")
    loads = [(names.whole(step), partial(weights_of, model)) for step, model in given]
    entries = [_loaded(f"item {number}", step, load) for number, (step, load) in enumerate(loads)]
    built = [model for _, model in given if not isinstance(model, Mapping)]
    if extras := sorted({name for model in built for name in models.extras(model)}):
        beside = " and ".join(extras)
        warnings.warn(f"{beside} of a model in memory: no part of a series, its weights alone are taken", stacklevel=3)
    return Source(name, tuple(entries), models.described(built[0]) if built else None, ordered=True)


def given(items: Sequence[Any]) -> Source:
    """Take models in memory as a source, which their steps and weights tell from another one."""
    source = in_memory([item for item in items if not isinstance(item, str | Path)], "models in memory")
    ends = [(entry.at.step, entry.digest()) for entry in (*source.entries[:1], *source.entries[-1:])]
    return dataclasses.replace(source, identity=f"{len(source.entries)} models {short_digest(ends)}")


def by_hand(name: str, steps: Iterable[int], load: Callable[[int], State]) -> Source:
    """Take the checkpoints of a series that was made by hand."""
    entries = [_loaded(f"step {step}", step, partial(load, step)) for step in steps]
    return Source(name, tuple(entries), ordered=True)


def weights_of(model: Any) -> State:
    """Copy the weights of a model in memory, or take those by name; ValueError where one cannot be read."""
    named = model if isinstance(model, Mapping) else models.weights(model)
    for name, weight in named.items():
        if kind := unusable(weight):
            raise ValueError(f"a model in memory holds {name} {kind}")
    return {INSIDE.sub("", name): weight.detach() for name, weight in named.items()}


def _loaded(label: str, step: int, load: Callable[[], State]) -> Entry:
    return Entry(label, names.Coordinates(step), lambda: Contents(load()), lambda: digest(load()))


def architecture_of(source: Source, given: Any) -> Architecture:
    """Return the architecture of a source's models: the given one, the source's own, or that of the first checkpoint.

    Where no config says it, the shapes of the weights do, with the fields that are given.

    Raises:
        ValueError: none of these exists, or what is given is no architecture.
    """
    some = some_fields(given)
    if given is not None and some is None:
        return architecture_from(given)
    if source.architecture is not None:
        return source.architecture
    if not source.entries:
        raise UnknownModelError(asked_for(source.name))
    first = source.entries[0]
    config = first.config() or first.within()
    config = read_off(first.load(), source.name, some or {}) if config is None else config
    return architecture_from({**config, **(some or {})})


def tokens_of(entries: Iterable[Entry], tokens_per_step: int | None = None) -> dict[int, int]:
    """Return how many tokens the model had seen at a step: by its name, as Trainer counted, or so many a step."""
    tokens = {one.at.step: one.recorded.get(TOKENS) if one.at.tokens is None else one.at.tokens for one in entries}
    known = {step: number for step, number in tokens.items() if number is not None}
    if any(known.values()):
        return known
    return {} if tokens_per_step is None else {step: step * tokens_per_step for step in tokens}


def other_order(entries: Sequence[Entry]) -> str:
    """Return in words what contradicts the order of checkpoints by their names; empty where nothing does.

    Recorded steps do where any two are in the other order, times of writing where all are: folders are copied.
    """
    for before, after in pairwise(entry for entry in entries if STEP in entry.recorded):
        if after.recorded[STEP] < before.recorded[STEP]:
            names_say = f"{before.label} comes before {after.label} by name"
            return f"{names_say}, and after it by the steps that the trainer recorded"
    return written_backwards(entries)


def written_backwards(entries: Sequence[Entry]) -> str:
    """Return in words that checkpoints, in the order of their steps, were written in the reverse one; else nothing."""
    times = [entry.time() for entry in entries]
    if len(times) >= names.FEW and all(a is not None and b is not None and b < a for a, b in pairwise(times)):
        return f"each checkpoint was written before the one that precedes it by name, {entries[-1].label} first"
    return ""
