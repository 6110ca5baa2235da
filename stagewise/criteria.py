"""Every threshold by which stages, onsets and heads are decided, each with its source or calibration; the decisions."""

import dataclasses
from enum import StrEnum
from typing import Annotated, get_type_hints

# Each with what the values are called that a threshold takes, and which these are.
_Share = Annotated[int | float, "between 0 and 1", lambda value: 0 <= value <= 1]
_Probability = Annotated[int | float, "between 0 and 1, neither included", lambda value: 0 < value < 1]
_Ratio = Annotated[int | float, "a ratio of steps above 1", lambda value: 1 < value < float("inf")]
_Size = Annotated[int | float, "a finite number, 0 or more", lambda value: 0 <= value < float("inf")]
_Count = Annotated[int, "a whole number of at least 1", lambda value: isinstance(value, int) and value >= 1]


@dataclasses.dataclass(frozen=True)
class StageCriteria:
    """The thresholds of `find_stages`, `find_onsets` and the findings on heads; written beside their results.

    First those of turning points, from `approach` on, then those of onsets, from `false_discoveries` on, then those of
    heads and of what emerges, from `enter` on.

    Where a field names no source it is a convention, or it was set on planted curves and on nulls (constants, power
    laws, drifts, exponential approaches, correlated noise); docs/records/statistics.md has their error rates at these
    defaults, by rows of the calibration, which are named here by the thresholds that they chose.

    Raises:
        ValueError: a threshold is out of range; the message names it and the value.

    >>> StageCriteria(depth=0.1).depth
    0.1
    """

    checkpoints: _Count = 4
    """Fewer of them show no stages: a fall and a rise take two each."""

    approach: _Share = 1 / 3
    """A reference is approached when KL to it falls by this part of its start."""

    close: _Share = 1 / 4
    """A model has come close to a reference, pause or not, when KL to it fell to half of this part of what it comes to
    again, which is how far apart the solutions are. Where noise hides a pause: of its start, and to twice this part of
    the other. Rows "three stages"; on 16 pairs of contexts no model that goes straight to the complete solution has."""

    depth: _Share = 0.05
    """The least rise after a boundary, as a part of the fall before it."""

    significance: _Probability = 0.01
    """The probability, at most, that the curve without its noise does not rise: below it a minimum counts
    as a turning point. Rows "all fall together" and "random walk of .03"."""

    further: _Share = 0.05
    """KL to the complete reference falls by this part of its whole fall after a boundary, at least: where all turn up
    together, the model overfits. Row "all overfit"."""

    slowdown: _Share = 0.7
    """Two stages are separate where learning slows to this part of its speed in the slower of the two."""

    nearby: _Ratio = 1.25
    """Another curve corroborates the nearest boundary if no wider ratio of steps lies between their intervals."""

    window: _Ratio = 1.15
    """Speeds are falls over a step ratio of this size, per e-fold of steps: two or three checkpoints at usual
    spacings."""

    peak: _Size = 3
    """A fast time falls by this many standard deviations of the noise."""

    simulations: _Count = 1000
    """Draws of a curve without its noise; the smallest p-value of a turning point is one over their number."""

    false_discoveries: _Probability = 0.05
    """False discovery rate over the onsets of a table; about one in twenty tables of noise shows one (Benjamini and
    Hochberg, 1995): six of a hundred with 21 curves in noise of AR 0, .5 or .9 (`calibration.hidden`), 13 at .07.
    Rows "130 of 144 scores drift"."""

    smallest: _Size = 0.1
    """The least rise that counts: of a score in [0, 1], or in nats; of a curve that declares neither a unit nor bounds,
    as one that was logged elsewhere, in tenths of its range. A batch is foreign where the last loss is not below
    that of a guess by as much: section "Foreign batches"."""

    stands_out: _Size = 1.3
    """The least speed within an onset, in value per step, over that before and after it: an exponential approach, a
    power law and a straight line have 1, a sigmoid of one decade 1.7. Rows "t^1.2" and "stretched exponential"."""

    fewest: _Count = 10
    """With fewer checkpoints no transition can be distinguished from noise."""

    fewest_with_errors: _Count = 5
    """The same where the errors of the values are given."""

    consecutive: _Count = 6
    """So many onsets apart from one another, at least, may be one period of change (`periods`), if no curve has one at
    each time: fewer, such as three heads one after another, are a stage each. Rows "14 heads one after another"."""

    back: _Share = 0.5
    """A rise that loses at least this part of itself by the end is transient."""

    most: _Share = 0.5
    """A head becomes one of a relation when at least this part of its attention is there."""

    enter: _Share = 0.5
    """A head takes a relation's name at this share of its attention: Yüksel et al. (2026), arXiv:2602.19143, the
    analysis released with it."""

    leave: _Share = 0.4
    """A head keeps the name down to this share: hysteresis is this library's. Rows "false head events"."""

    dwell: _Count = 2
    """The least number of checkpoints that a head keeps a name for, as in the same analysis."""

    named: _Share = 0.3
    """Attention from which a head with an onset is called by a kind's name, as in "induction head": a convention. For
    heads at a fixed offset: rows "heads named by an offset"."""

    growth: _Share = 0.2
    """Attention, a cosine or an accuracy that grows by less over the run does not emerge, nor does a loss that falls
    by less of itself."""

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            words, allows = hint.__metadata__
            if not allows(value := getattr(self, name)):
                raise ValueError(f"{name} must be {words}, got {value!r}")
        if self.leave > self.enter:
            raise ValueError(f"a head leaves at a share no larger than it enters at, got {self.leave}, {self.enter}")


DEFAULT = StageCriteria()
"""The criteria for stages and onsets where no others are given."""


class TurnVerdict(StrEnum):
    """Whether the turning point of a KL curve ends a stage, and why, or why not.

    The numbers of each decision are in the other columns of its row; `words.turning_point` makes a sentence of both.
    """

    PLATEAU = "plateau"
    """Ends a stage: learning slowed down there."""

    CLOSE = "close"
    """Ends a stage: the model came close to this reference, without a pause."""

    COMPLETE = "complete"
    """Is the complete reference, which ends no stage."""

    PASSED = "passed"
    """Has a turning point, but the model neither came close nor paused."""

    OUT_OF_ORDER = "out of order"
    """Has its minimum, within the errors of both, no later than the reference before it."""

    NOT_FINITE = "not finite"
    """Cannot be judged: it, or the complete reference, has a value that is missing or infinite."""

    NOT_APPROACHED = "not approached"
    """Falls by too small a part of its start."""

    NO_RISE = "no rise"
    """Rises by too small a part of its fall."""

    NOISE = "noise"
    """Rises by no more than noise on a curve that only falls could cause."""

    OVERFITS = "overfits"
    """Turns up when the complete reference does, too: the model leaves them all."""

    CORROBORATES = "corroborates"
    """Another curve, which has its minimum near a boundary."""

    ELSEWHERE = "elsewhere"
    """Another curve, which has its minimum away from every boundary."""

    @property
    def ends_stage(self) -> bool:
        """Whether the turning point is a boundary of stages."""
        return self in (TurnVerdict.PLATEAU, TurnVerdict.CLOSE)


class OnsetVerdict(StrEnum):
    """Whether a curve has an onset, or why it has none; its numbers are in the other columns of its row."""

    ONSET = "onset"
    """It has one."""

    NOT_FINITE = "not finite"
    """A value is missing or infinite."""

    FEW_CHECKPOINTS = "few checkpoints"
    """Too few to distinguish an onset from noise."""

    SMALL = "small"
    """The largest change is too small to count."""

    EARLY = "early"
    """It falls from the first checkpoint to the second, as every loss does, or changes in the first update of a run,
    before which there is no stage."""

    SPIKE = "spike"
    """It is undone soon after, as where it is seen at three checkpoints or fewer."""

    COMMON = "common"
    """The curve moves as fast before or after."""

    STEADY = "steady"
    """Something gradual with noise explains it as well, over all curves that were followed, or it falls, as a loss, and
    is not over at the last checkpoint."""

    COINCIDES = "coincides"
    """It moves when something was done to the run, as the learning rate changed, and no head changes much."""
