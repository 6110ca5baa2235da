"""An ordered set of (step, weights), loaded lazily: at most one checkpoint is in memory at a time."""

import dataclasses
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints import openers, run_folder, sources
from stagewise.checkpoints._choice import Choice, check_one_count, continued, joined, only_chosen
from stagewise.checkpoints._digest import short_digest
from stagewise.checkpoints._weight_files import State as State
from stagewise.checkpoints.names import GIVE_PARSE, Parse, seed_of, whole
from stagewise.plain_text import file_part, shortened, visible
from stagewise.table import heads_in_words

ON_PAIRS = "-on-"
"""In the name of a folder: before the file of prompts that a series was measured on."""


@dataclasses.dataclass(frozen=True)
class CheckpointSeries:
    """The checkpoints of one run, in the order of their steps.

    Iterating gives (step, weights) pairs, one loaded at a time; a slice is a series of fewer steps.

    Args:
        name: what the run is called in tables and figures.
        architecture: the model that the weights belong to.
        steps: optimiser steps, ascending.
        load: returns the weights of a step, by TransformerLens's parameter names or Hugging Face's.
        tokens: how many the model had seen at a step, where the source records it.
        source: where the checkpoints were found; None for a series made by hand.
        seed: of several trainings, where its name holds one.
    """

    name: str
    architecture: Architecture
    steps: tuple[int, ...]
    load: Callable[[int], State] = dataclasses.field(repr=False)
    tokens: Mapping[int, int] = dataclasses.field(default_factory=dict, repr=False)
    source: sources.Source | None = dataclasses.field(default=None, repr=False)
    seed: int | None = None

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError(f"the series {self.name!r} has no checkpoints")
        object.__setattr__(self, "steps", tuple(map(whole, self.steps)))
        if list(self.steps) != sorted(set(self.steps)):
            raise ValueError(f"the steps of a series ascend, each once; got {self.steps}")

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[tuple[int, State]]:
        return ((step, self.load(step)) for step in self.steps)

    def __getitem__(self, chosen: slice) -> "CheckpointSeries":
        if not isinstance(chosen, slice):
            raise TypeError(
                f"checkpoints are chosen by a slice, as in series[-5:], which is a series; got series[{chosen!r}]. "
                "The weights of a step are series.weights(step)"
            )
        steps = self.steps[chosen]
        source = None if self.source is None else self.source.only(steps)
        return dataclasses.replace(self, steps=steps, source=source)

    def __repr__(self) -> str:
        span = f"{len(self)} checkpoints, steps {self.steps[0]} to {self.steps[-1]}"
        heads = heads_in_words(self.architecture.n_layers, self.architecture.n_heads)
        return f"CheckpointSeries({self.name!r}: {span}; {heads})"

    def weights(self, step: int) -> State:
        """Load the weights of a step.

        Raises:
            ValueError: the series has no such step; the message names the nearest.
        """
        if step not in self.steps:
            nearest = min(self.steps, key=lambda other: abs(other - step))
            raise ValueError(f"the series {self.name!r} has no step {step}; the nearest is {nearest}")
        return self.load(step)

    def model(self, step: int) -> models.Model:
        """Return the model of a step with its weights: a HookedTransformer, or a TransformerBridge.

        Raises:
            ValueError: as `weights`, or the weights do not fit the model.

        >>> model = series.model(300)  # doctest: +SKIP
        >>> model.run_with_cache(batch.tokens)  # doctest: +SKIP
        """
        return models.holding(self.architecture, self.weights(step))


def open_series(
    source: str | Path | Sequence[tuple[int, Any]] | Sequence[str | Path] | Mapping[int, Any],
    classes: Iterable[type] = (),
    *,
    architecture: Any = None,
    branch: str | None = None,
    join: Collection[str] = (),
    parse: Parse | str | None = None,
    steps: Choice | None = None,
    name: str | None = None,
    hub: Mapping[str, Any] | None = None,
    base: str | Path | None = None,
    start: Any = None,
    tokens_per_step: int | None = None,
) -> CheckpointSeries:
    """Open the checkpoints of one training run. Weights are read on demand.

    Args:
        source: a run folder (an interrupted run opens as far as it came); a folder of `checkpoint-N` folders, as
            transformers' Trainer writes them; a folder of .safetensors, .pt, .pth, .bin or .ckpt (Lightning) files with
            a step in their names; a repository of the hub, "owner/name", whose revisions are checkpoints; a list of
            repositories, folders or files, one a step, or a name with the steps in braces, as
            "owner/model-step_{0,20,40}k"; or (step, model) pairs, or a mapping from steps to models.
        classes: for a run folder, your own classes of initialisation that its recipe names.
        architecture: what the models are, where no config.json lies beside the weights: a HookedTransformerConfig or
            a Hugging Face config, as it is, as a dict or as a JSON file; a model; or a name that TransformerLens knows.
        branch: of a training with several, as "stage1" in the revision "stage1-step1000".
        join: branches whose steps go on counting, as ("stage1", "stage2"), which are opened as one; those of a known
            public suite are by themselves.
        parse: where `names.read_names` cannot read the names: a function from a name to its step or `Coordinates`, or
            a regular expression with a group `step`, as r"run(?P<step>\\d+)of", and `tokens` and `branch` if need be.
        steps: open only these: steps; a number of checkpoints, log-spaced with the first and the last one; or a text,
            "0:10000:1000" for the checkpoints nearest to every thousandth step.
        name: what the series is called in tables; None takes the folder's or the repository's.
        hub: for a repository, `cache`, `cache_bytes` and `endpoint` of `hub.Hub`.
        base: of LoRA adapters, as peft saves them: the model that they are merged into, a folder, a file or a
            repository.
        start: what a post-training began from, a model or a series, as `source`: its checkpoints come first, and the
            steps count on from its last one, whose predictions are the reference "the base" of the probe batch.
        tokens_per_step: of a training whose names and logs do not say how many tokens the model had seen; None takes
            what is known of a public suite: `suites.suites`.

    Raises:
        FileNotFoundError: there are no checkpoints, or one is missing in the middle of a run folder.
        OSError: the hub does not answer.
        ValueError: two checkpoints of one step, several branches, a missing step, none at all, a step that is no whole
            number, or no config of the models.
    """
    origin = find(source, join=join, classes=classes, parse=parse, hub=hub, base=base)
    if origin.promised and (missing := sorted(set(origin.promised) - {entry.at.step for entry in origin.entries})):
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise FileNotFoundError(
            f"{run_folder.checkpoint_file(Path(str(source)), missing[0])} is missing{more}: the plan saved steps up to "
            f"{max(origin.promised)}. Restore the files, or delete {Path(str(source)) / 'checkpoints'} and train "
            "again: that gives the same bits"
        )
    chosen = _chosen(origin, branch, steps)
    if start is not None:
        chosen = _after(start, chosen, classes=classes, hub=hub)
    entries = {entry.at.step: entry for entry in chosen.entries}
    described = sources.architecture_of(chosen, architecture)
    for line in origin.names:
        print(shortened(visible(line)), file=sys.stderr)
    if disorder := sources.other_order([entries[step] for step in sorted(entries)]):
        warnings.warn(f"the steps of {origin.name} may be other numbers: {disorder}. {GIVE_PARSE}", stacklevel=2)
    seeds = (seed_of(text) for text in (origin.name, chosen.entries[0].at.branch))
    return CheckpointSeries(
        name or origin.name,
        described,
        steps=tuple(entries),
        load=lambda step: entries[step].load(),
        tokens=sources.tokens_of(chosen.entries, tokens_per_step or chosen.tokens_per_step),
        source=chosen,
        seed=next((seed for seed in seeds if seed is not None), None),
    )


def find(source: Any, *, join: Collection[str] = (), start: Any = None, **options: Any) -> sources.Source:
    """Find the checkpoints of a source, as `open_series` does, faults included; `options` are those of its openers.

    Raises:
        FileNotFoundError: there are none.
        OSError: the hub does not answer.
        ValueError: models without steps, steps that are no whole numbers, or branches that cannot be joined.
    """
    opener = openers.opener_of(source)
    if opener.checkpoints is None:
        raise ValueError(
            f"{source} holds curves and no checkpoints: `stagewise report {source}` shows them, in Python `read_log`"
        )
    origin = opener.checkpoints(source, openers.Options(**options))
    check_one_count(origin, join)
    origin = joined(origin, join)
    if start is None:
        return origin
    of_start = {name: options[name] for name in ("classes", "hub") if name in options}
    return _after(start, origin, **of_start)


def _after(start: Any, source: sources.Source, **options: Any) -> sources.Source:
    """Return a source after all checkpoints of the one that its training began from."""
    return continued(_chosen(find(start, **options), None, None), source)


def _chosen(source: sources.Source, branch: str | None, steps: Choice | None) -> sources.Source:
    """Return the source with the checkpoints of one branch, of the requested steps; each step once."""
    if branch is None and len(source.branches) > 1:
        raise ValueError(
            f"{source.name} has several branches of training, whose steps are not one series: "
            f"give `branch` (--branch), one of {', '.join(map(repr, source.branches))}"
        )
    source = only_chosen(source, branch, steps)
    if not source.entries:
        raise ValueError(f"no checkpoints of {source.name}: it has none")
    for one, other in pairwise(sorted(source.entries, key=lambda entry: entry.at.step)):
        if one.at.step == other.at.step:
            twice = f"two checkpoints of step {one.at.step}: {one.label} and {other.label}"
            raise ValueError(f"{source.name} has {twice}. Where that is not the step of both, {GIVE_PARSE}")
    if of := source.entries[0].at.branch:
        source = dataclasses.replace(source, identity=f"{source.identity} {of}")
    return source


def folder_of(series: CheckpointSeries | sources.Source, pairs: str | Path | None = None) -> Path:
    """Return the default folder of the table and report of a series, or of its source: one in `runs`; another
    one on each file of `pairs`.

    Never the folder of the checkpoints themselves; two sources of one name have two, and so do two files.
    """
    source = series if isinstance(series, sources.Source) else series.source
    name, identity = series.name, source.identity if source else ""
    other = "" if identity in ("", name) else f"-{short_digest(identity)[:8]}"
    beside = "" if pairs is None else f"{ON_PAIRS}{Path(pairs).stem}"
    beside += f"-{short_digest(os.path.realpath(pairs))[:8]}" if pairs and Path(pairs).is_file() else ""
    return Path("runs", f"analysis-{file_part(name.replace('/', '--'))}{other}{beside}")
