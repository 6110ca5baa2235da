"""The decision on a curve, and why: the enumerations that turning points and onsets carry in `verdict`."""

from enum import StrEnum


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
    """It falls from the first checkpoint to the second, as every loss does."""

    SPIKE = "spike"
    """It is undone soon after, as where it is seen at three checkpoints or fewer."""

    COMMON = "common"
    """The curve moves as fast before or after."""

    STEADY = "steady"
    """Something gradual with noise explains it as well, over all curves that were followed."""

    COINCIDES = "coincides"
    """It moves when something was done to the run, as the learning rate changed, and no head changes much."""
