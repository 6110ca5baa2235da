"""The result of an audit: kinds of faults, findings as data, and the sentences made from them."""

import dataclasses
import enum
import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

SHOWN = 3
"""Names of weights that a sentence lists; the others are counted."""

CHANGES = 4
"""Fields of a config that a sentence lists."""


class Kind(enum.StrEnum):
    """The kinds of faults."""

    MISSING_STEP = "missing step"
    """A step that the plan or the spacing of its neighbours implies is missing."""
    REPEATED_STEP = "repeated step"
    """Two checkpoints have the same step."""
    OUT_OF_ORDER = "out of order"
    """A step comes after a larger one."""
    OTHER_STEP_RECORDED = "other step recorded"
    """The step that the trainer wrote beside the weights differs from the one in the name."""
    IDENTICAL_WEIGHTS = "identical weights"
    """Two steps have the same bytes."""
    NO_WEIGHTS = "no weights"
    """There are none, or a shard of them is missing."""
    DAMAGED = "damaged"
    """A file cannot be read."""
    NON_FINITE_WEIGHTS = "non-finite weights"
    """Nan or infinity among the weights."""
    OUTLYING_NORM = "outlying norm"
    """A weight's norm doubles or halves at this checkpoint alone."""
    OTHER_SHAPES = "other shapes"
    """Names or shapes differ from most checkpoints'."""
    OTHER_TYPES = "other types"
    """The weights' data types differ from most checkpoints'."""
    OTHER_CONFIG = "other config"
    """The model's config differs from most checkpoints'."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One fault, as data.

    Args:
        kind: of the fault.
        steps: the steps that it affects.
        checkpoints: the folders, files or revisions that it affects.
        branch: of training, where the series has several.
        other_step: the larger step before one that is out of order, or the one that the trainer recorded.
        weights: the names of the weights with the fault.
        differences: name -> this checkpoint's value and the usual one, None where there is none.
        reason: the message of the error when reading it.
    """

    kind: Kind
    steps: tuple[int, ...]
    checkpoints: tuple[str, ...] = ()
    branch: str = ""
    other_step: int | None = None
    weights: tuple[str, ...] = ()
    differences: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    reason: str = ""

    @property
    def message(self) -> str:
        """What exactly is wrong, in a sentence."""
        return sentence(self)


@dataclasses.dataclass(frozen=True)
class Audit:
    """The faults of a series.

    Args:
        name: of the series.
        checkpoints: how many there are.
        weights: whether the weights were read, or only names, hashes and configs.
        findings: the faults, kind by kind.
        ignored: names that were not recognised as checkpoints.
    """

    name: str
    checkpoints: int
    weights: bool
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def table(self) -> pd.DataFrame:
        """The findings, a row each: `kind`, `steps`, `message`."""
        rows = [(str(one.kind), ", ".join(map(str, one.steps)), one.message) for one in self.findings]
        return pd.DataFrame(rows, columns=["kind", "steps", "message"])

    def __str__(self) -> str:
        read = "and weights" if self.weights else "but no weights"
        head = f"{self.name}: {self.checkpoints} checkpoints; compared: names, hashes, configs {read}"
        lines = [f"  {one.kind}: {one.message}" for one in self.findings] or ["  nothing is wrong"]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        head = f"<p>{html.escape(str(self).splitlines()[0])}</p>"
        return head + ("<p>nothing is wrong</p>" if self.clean else self.table.to_html(index=False))

    @property
    def plain(self) -> dict[str, Any]:
        """Everything as plain data, each finding with its sentence."""
        findings = [{**dataclasses.asdict(one), "message": one.message} for one in self.findings]
        return {**dataclasses.asdict(self), "findings": findings}

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.plain, indent=2)


def sentence(finding: Finding) -> str:
    """Describe a finding in a sentence.

    >>> sentence(Finding(Kind.MISSING_STEP, (300,), branch="stage1"))
    'step 300 of stage1 is missing'
    """
    step = f"step {finding.steps[0]}" + (f" of {finding.branch}" if finding.branch else "")
    labels = ", ".join(finding.checkpoints)
    match finding.kind:
        case Kind.MISSING_STEP:
            return f"{step} is missing"
        case Kind.REPEATED_STEP:
            return f"{step}: {labels}"
        case Kind.OUT_OF_ORDER:
            return f"{labels}, step {finding.steps[0]}, comes after step {finding.other_step}"
        case Kind.OTHER_STEP_RECORDED:
            steps = f"its name says step {finding.steps[0]}, its trainer_state.json {finding.other_step}"
            return f"{labels}: {steps}"
        case Kind.IDENTICAL_WEIGHTS:
            return f"{labels} have the same bytes"
        case Kind.NO_WEIGHTS | Kind.DAMAGED:
            return f"{labels}: {finding.reason or 'holds no weights'}"
        case Kind.NON_FINITE_WEIGHTS | Kind.OUTLYING_NORM:
            return f"{labels}: {_some(finding.weights)}"
        case Kind.OTHER_SHAPES | Kind.OTHER_TYPES:
            return f"{labels}: {_first(finding.differences)}"
        case Kind.OTHER_CONFIG:
            return f"{labels}: {_changes(finding.differences)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f", and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _first(differences: Mapping[str, tuple[Any, Any]]) -> str:
    name, values = next(iter(differences.items()))
    value, usual = ("missing" if each is None else each for each in values)
    return f"{name} is {value}, usually {usual}" + (
        f", and {len(differences) - 1} more" if len(differences) > 1 else ""
    )


def _changes(differences: Mapping[str, tuple[Any, Any]]) -> str:
    changes = [f"{key} = {value}, usually {usual}" for key, (value, usual) in list(differences.items())[:CHANGES]]
    return ", ".join(changes) or "has none, most others have one"
