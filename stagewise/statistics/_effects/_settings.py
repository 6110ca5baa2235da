"""Every number that decides in the model of a curve, each with its source."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class EffectSettings:
    """The numbers of `find_transitions`; sizes are in ranges of the curve, widths in e-folds of 1 + the step.

    "Nulls" and "planted" are rows of the calibration: curves without a change, and with known ones.
    """

    threshold: tuple[float, float] = (1.3, -1.0)
    """Log Bayes factor, nats, that all changes together must bring, and each beside the others: at the first .003 of
    4,200 smooth nulls show an onset, and 1 of 288 waves, walks, bursts and other special ones. The second is for the
    only change of a curve with given errors, whose noise is not to be estimated, where it most likely begins and ends
    with two or three checkpoints in between: .01 of steady accuracies have one, .06 at -1.2, and .02 of growing ones
    at 14 and 22 checkpoints. Of any width, .5 of exponential approaches had one."""

    false: tuple[float, float] = (0.02, 0.01)
    """How often a smooth null has a change with a log Bayes factor of 0, without and with given errors; each nat makes
    it rarer by a factor of e, or nearly: at -1, 0, .7 it is .04, .02, .012."""

    each: tuple[float, float] = (8.0, 4.0)
    """Checkpoints, at least, to a change: with fewer, changes would follow the noise, unless its errors are given."""

    widths: tuple[float, ...] = tuple(0.56 * 0.5 ** (np.arange(11) / 2))
    """Widths of sigmoids that are changes: the widest takes a decade from 10 to 90 %, an exponential more; the
    narrowest lies below the gaps of 100 checkpoints. Twice as many follow a change of hundreds of deviations, at a
    tenth more time. The next three to the wider side, half an octave apart, are no change."""

    apart: float = 0.5
    """Widths between the places of sigmoids: closer ones differ by less than an eighth of their height. As much of the
    time from t50 to t10 and t90 is not known beside the place: a shape stands for those up to the next width."""

    tails: tuple[float, ...] = (16.0, 8.0, 4.0, 2.0, 1.0, 0.5)
    """Exponents of abrupt onsets that approach their level as a power of the step: those that are planted."""

    narrowest: float = 0.3
    """Part of a gap between checkpoints below which a sigmoid is a jump within the gap."""

    margin: float = 0.2
    """Part of the spacing of checkpoints by which intervals are wider on either side: shapes lie on a grid. With
    `apart`, t10, t50 and t90 of 434 planted rises were covered in .95, .97 and .95."""

    like: float = 0.5
    """Part of a speed or of a size from which on another one is like it: the speed between two changes of one
    direction, where the curve does not pause; the ends of an excursion; what a gradual shape makes of its change within
    the first gap, at most."""

    undone: float = 0.25
    """Part of the larger of two changes that is left of both, at most, where they undo one another."""

    nearly: float = 0.75
    """Part from which on something is nearly all: of a change, made by the end of the run; of a transition's speed,
    next to it, as in a staircase; of noise, kept from one checkpoint to the next, so that it leaves nothing to a smooth
    process."""

    brief: int = 3
    """Checkpoints, at most, that are no level: an excursion, else it is a change and its return. As many lie before an
    abrupt onset with a tail, which from the start on is a power law, and so many gaps make a spacing of checkpoints."""

    soon: float = 0.1
    """Part of the checkpoints, and more than `brief` ones, within which a curve that comes back was on an excursion."""

    slow: tuple[float, ...] = (1.0, 1.4)
    """Durations of halves of a cosine, in parts of the run, that are no change: schedules have that shape."""

    powers: tuple[float, ...] = (-1.0, -0.6, -0.3, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.5)
    """Exponents of powers of the step: of decay, the range of fitted scaling laws, and of growth, up to a parabola."""

    finer: float = 1.35
    """Ratio of the time scales of exponentials, from half the first gap to twice the run; a ratio of two leaves a
    misfit that looks like a change. Power laws have twice this spacing."""

    size: float = 0.5
    """Prior deviation of a size: half of the range, one range is two deviations."""

    alike: float = 0.15
    """Deviation of sizes from their mean, as a part of it, where they are held to be alike, as in a staircase."""

    sharing: float = 2.0
    """Dirichlet concentration of widths: changes of a curve tend to share theirs."""

    shares: tuple[float, float, float] = (0.4, 0.51, 0.09)
    """Prior probabilities that a further shape beside the changes is none, is gradual, is an excursion."""

    resolution: float = 1e-3
    """Deviation of noise below which a curve is not resolved: what a fit by these shapes leaves of a smooth curve."""

    correlations: tuple[tuple[float, float], ...] = (
        (0.0, 0.4), (0.3, 0.2), (0.6, 0.2), (0.85, 0.1), (0.95, 0.05), (0.99, 0.05),
    )  # fmt: skip
    """Correlations of noise between checkpoints with their prior probabilities; a random walk is the rarest."""

    further: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 1e2, 1e3, 1e4)
    """Variances of further noise, in those of given errors: what evaluation does not see, as of optimisation. Up
    to 10 alone, .87 of curves of 40 checkpoints with noise of ten of their errors showed a change; so none does."""

    louder: float = 1.6
    """Logarithm of the ratio of the noise at the last checkpoint to that at the first, either way, and of that in a
    burst to that around it: a factor of five."""

    burst: float = 0.17
    """Part of the run that a burst of noise lasts: a tenth to a quarter, as in rows of bursts."""

    bursting: float = 0.05
    """Prior probability of a burst."""

    lengths: tuple[float, ...] = (0.35, 0.7, 1.4)
    """Lengths of the smooth process, in spans of the run: waves of a third of it, up to bends of the whole."""

    bends: bool = False
    """Whether the smooth process also bends at once, as curves do between two stages: Matern's 5/2 in place of the
    squared exponential, which follows waves and no step: planted changes of a tenth of the run gain 2 to 5 nats."""

    ratios: tuple[float, ...] = (1.0, 30.0, 1e3, 3e4, 1e6)
    """Variances of the smooth process over that of the noise, from equal to a thousand deviations: all of the range of
    a curve without noise."""

    smooth: float = 0.15
    """Prior probability of a smooth process, and of noise beside errors that are given. At a half, rises of 5
    deviations have 1 to 2 nats less, and fewer changes of one gap are found among accuracies."""

    checkpoints: int = 160
    """Checkpoints at most; a longer curve is averaged in as many stretches, the first of them short."""


DEFAULT = EffectSettings()

FINE = dataclasses.replace(
    DEFAULT, widths=tuple(0.56 * 0.5 ** (np.arange(21) / 4)), bends=True, smooth=0.5,
    correlations=((0.0, 0.4), (0.3, 0.2), (0.6, 0.2), (0.85, 0.2)),
    checkpoints=240,
)  # fmt: skip
"""For what is read off the curve without its noise, as a minimum: where it bends, and not only where it changes. What
hardly fades is no noise there, as a level that walks is the curve's own: with it rises of a third are noise in half of
the rows "three stages, AR .9". A run that was densified twice keeps its checkpoints."""
