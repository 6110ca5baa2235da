"""The result of an audit: kinds of faults, findings as data, and the sentences made from them."""

import dataclasses
import enum
import json
from collections.abc import Mapping, Sequence
from typing import Any

from stagewise.plain_text import shortened, visible

SHOWN = 3
"""Names of weights that a sentence lists; the others are counted."""

CHANGES = 4
"""Fields of a config that a sentence lists."""


class Kind(enum.StrEnum):
    """The kinds of faults."""

    MISSING_STEP = "missing step"
    """Steps of a gap that the plan or the spacing of its neighbours implies are missing."""
    REPEATED_STEP = "repeated step"
    """Two checkpoints have the same step."""
    OUT_OF_ORDER = "out of order"
    """A step comes after a larger one."""
    OTHER_NAMES = "other names"
    """Names follow another convention than most, as where two trainings lie in one folder."""
    OTHER_ORDER = "other order"
    """Steps by name are in another order than those that were recorded, or than the times of writing."""
    OTHER_STEP_RECORDED = "other step recorded"
    """The step that the trainer wrote beside the weights differs from the one in the name."""
    IDENTICAL_WEIGHTS = "identical weights"
    """Two steps have the same weights."""
    WEIGHTS_OF_ANOTHER_STEP = "weights of another step"
    """A part of the weights, a shard or a layer, is another step's."""
    NO_WEIGHTS = "no weights"
    """There are none, or a shard of them is missing."""
    DAMAGED = "damaged"
    """A file cannot be read."""
    NOT_ONLY_WEIGHTS = "not only weights"
    """A file holds Python objects that could run code."""
    NON_FINITE_WEIGHTS = "non-finite weights"
    """Nan or infinity among the weights."""
    OUTLYING_WEIGHTS = "outlying weights"
    """Weights lie far from their path at this checkpoint alone: changed, or of another training."""
    OTHER_RUN = "other run"
    """From this checkpoint on the series continues from unrelated weights."""
    LEFT_ASIDE = "left aside"
    """Files hold more than weights, which was not read. No fault."""
    UNFINISHED = "unfinished"
    """The run has not come to its last step. No fault."""
    UNFIT = "unfit"
    """The weights do not fit the model that the config describes. Where nothing describes one: no fault."""
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
        steps: the steps that it affects; none where it is about the folder.
        checkpoints: the folders, files or revisions that it affects, or another file of theirs.
        branch: of training, where the series has several.
        other_step: the larger step before one that is out of order, the one that is recorded, the one whose weights
            these are, or the other end of a jump.
        weights: the names of the weights with the fault.
        differences: name -> this checkpoint's value and the usual one, None where there is none.
        reason: the message of the error when reading it, or where the fault was found.
        times: how many times longer than usual the way to the neighbours is.
    """

    kind: Kind
    steps: tuple[int, ...]
    checkpoints: tuple[str, ...] = ()
    branch: str = ""
    other_step: int | None = None
    weights: tuple[str, ...] = ()
    differences: Mapping[str, tuple[Any, Any]] = dataclasses.field(default_factory=dict)
    reason: str = ""
    times: float | None = None

    @property
    def message(self) -> str:
        """The exact fault, in a sentence.

        >>> Finding(Kind.MISSING_STEP, (300,), branch="stage1").message
        'step 300 of stage1 is missing'
        """
        return shortened(visible(_sentence(self)))


@dataclasses.dataclass(frozen=True)
class Audit:
    """The faults of a series.

    Args:
        name: of the series.
        checkpoints: how many there are.
        weights: whether the weights were read, or only names, hashes and configs.
        findings: the faults, kind by kind.
        ignored: names that were not recognised as checkpoints.
        notes: what is no fault, and may be of interest: how far a run that is not finished has come.
        names: lines that say how names were read, where anything in them was ignored or left out.
    """

    name: str
    checkpoints: int
    weights: bool
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...] = ()
    notes: tuple[Finding, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def __str__(self) -> str:
        read = "and weights" if self.weights else "but no weights"
        head = f"{self.name}: {self.checkpoints} checkpoints; compared: names, hashes, configs {read}"
        lines = [f"  {one.kind}: {one.message}" for one in self.findings] or ["  nothing is wrong"]
        lines += [f"  note: {one.message}" for one in self.notes]
        lines += [f"  not taken for checkpoints: {_some(self.ignored)}"] if self.ignored else []
        lines += [f"  name: {shortened(visible(each))}" for each in self.names]
        return "\n".join([head, *lines])

    @property
    def plain(self) -> dict[str, Any]:
        """Everything as plain data, each finding with its sentence."""

        def listed(findings: Sequence[Finding]) -> list[dict[str, Any]]:
            return [{**dataclasses.asdict(one), "message": one.message} for one in findings]

        return {**dataclasses.asdict(self), "findings": listed(self.findings), "notes": listed(self.notes)}

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.plain, indent=2)


SENTENCES = {
    Kind.UNFINISHED: "the run has come to step {step}{of} of {other}",
    Kind.LEFT_ASIDE: "{some}: {reason} beside the weights",
    Kind.REPEATED_STEP: "step {step}{of}: {labels}",
    Kind.OUT_OF_ORDER: "{labels}, step {step}, comes after step {other}",
    Kind.OTHER_STEP_RECORDED: "{labels}: its name says step {step}, {reason} {other}",
    Kind.OTHER_ORDER: "{reason}: the steps may be other numbers in the names",
    Kind.OTHER_NAMES: "{some}: most are named as {reason}. Are they of another training?",
    Kind.NON_FINITE_WEIGHTS: "{labels}: {weights}",
    Kind.WEIGHTS_OF_ANOTHER_STEP: "{labels}: {weights} are those of step {other}, the other weights are not",
    Kind.OTHER_RUN: "{labels}: its weights have nothing in common with those of step {other}{times} before it",
}
"""Kind -> its sentence, of those that need no more than the fields of a finding."""


def _sentence(finding: Finding) -> str:
    of = f" of {finding.branch}" if finding.branch else ""
    steps, labels, why = finding.steps, ", ".join(finding.checkpoints), finding.reason
    weights, times = _some(finding.weights), finding.times
    fields = {"of": of, "step": steps[0] if steps else "", "labels": labels, "other": finding.other_step, "reason": why}
    fields |= {"some": _some(finding.checkpoints), "weights": weights}
    fields |= {"times": "" if times is None else f", {times:.3g} times the usual way"}
    match finding.kind:
        case Kind.MISSING_STEP:
            those = (
                f"step {steps[0]}{of} is"
                if len(steps) == 1
                else f"{len(steps)} steps from {steps[0]} to {steps[-1]}{of} are"
            )
            return f"{those} missing{f': {why}' if why else ''}"
        case Kind.IDENTICAL_WEIGHTS:
            return f"{labels} have the same {why or 'bytes'}"
        case Kind.NO_WEIGHTS | Kind.DAMAGED | Kind.NOT_ONLY_WEIGHTS | Kind.UNFIT:
            return f"{labels}: {why or 'holds no weights'}"
        case Kind.OTHER_SHAPES | Kind.OTHER_TYPES:
            (name, values), *others = finding.differences.items()
            value, usual = ("missing" if each is None else each for each in values)
            return f"{labels}: {name} is {value}, usually {usual}{f', and {len(others)} more' if others else ''}"
        case Kind.OTHER_CONFIG:
            some = list(finding.differences.items())[:CHANGES]
            changes = ", ".join(f"{key} = {value}, usually {usual}" for key, (value, usual) in some)
            return f"{labels}: {changes or 'has none, most others have one'}"
        case Kind.OUTLYING_WEIGHTS:
            return f"{labels}: {weights or 'all weights'}: away from both neighbours{fields['times']}"
    return SENTENCES[finding.kind].format(**fields)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f", and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
