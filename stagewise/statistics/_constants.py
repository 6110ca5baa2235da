"""The numbers that decide, one table for the room: each with the reason for it, or the row that chose it.

Rows in quotation marks are those of the calibration, in docs/records/statistics.md; thresholds that a user may change
are fields of `StageCriteria`. Where neither a source nor a row is named, the value is a convention.
"""

import numpy as np

LEVEL = 0.95
"""Confidence level of all intervals, `lo` and `hi`."""

QUANTILE = 1.959963984540054
"""Standard deviations on either side of a mean that hold as much of a normal distribution."""

# Noise from second differences.

RATES = np.linspace(0, 0.95, 20)
"""Correlations that are distinguished."""

# Noise about a smooth fit, and outliers.

NOISE_CORRELATIONS = (-0.2, 0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.88, 0.94, 0.98)
"""Lag-1 correlations between checkpoints that are tried."""

GROWTHS = (0.0, -1.2, 1.2, -2.4, 2.4)
"""Changes of the logarithm of the noise's level over the run that are tried."""

WINDOWS, EIGHTH = (1 / 12, 1 / 6, 1 / 3), 1 / 8
"""Windows of a level of their own that are tried, as parts of the checkpoints: so long, half overlapping one another,
and from either end of the run to each multiple of an eighth."""

RAISED, IN_WINDOWS = (1.2, 2.2), (0.0, 0.4, 0.7)
"""Logarithms of how many times the deviation is larger within a window, and correlations that are tried with one."""

NARROWEST_WINDOW = 4
"""Checkpoints of a window at least: fewer are outliers."""

RARE = 8.0
"""Nats by which a window must make residuals more likely to be preferred: the logarithm of the number of windows, of
levels and correlations within is 5.8. A rise that is left out looks like a narrow window, but has fewer of them."""

LONGEST = 3
"""Checkpoints that an outlier lasts at most."""

BURST = 13
"""Checkpoints of which more than LONGEST are no outliers, but noise that is raised there."""

DEPENDENT = 1e-6
"""Part of the largest square, in the directions of columns, below which the others explain a direction."""

NORMAL = 1.4826
"""Deviation of normal noise over the median of its sizes."""

STANDS_OUT = 4.5
"""Deviations of the noise from which a value that returns within LONGEST checkpoints is an outlier."""

# Noise that fades over steps.

FADING_STEPS = np.geomspace(0.5, 64, 15)
"""Steps over which noise may fade to 1/e, over the smallest gap between checkpoints."""

SWINGS = (0.0, 1.0, 2.0, 3.0, 4.5, 6.0)
"""Radians by which noise may swing in the time in which it fades: momentum makes training overshoot, and come back."""

ENOUGH = 200
"""Checkpoints of a stretch that are enough to tell how noise fades; of more, those in its middle count."""

NUGGET = 1e-6
"""Part of the variance that is independent at each checkpoint: of smooth noise at close checkpoints rounding leaves
covariances that are not positive definite."""

# Noise about a curve that only rises.

AROUND = 8
"""Checkpoints on either side of the crossing whose noise counts too: an accuracy near a half is noisier than near 1."""

STRONGEST = 0.9
"""The strongest correlation between checkpoints that is allowed for."""

# Noise that running medians leave.

LEFT_BY_MEDIANS = 0.45
"""Part of the variance of white noise that a running median over three leaves."""

SLOWEST = 0.8
"""Correlation of noise between checkpoints that is allowed for: beyond it a bend of the curve looks the same."""

# Shapes of transitions, and smooth backgrounds.

PARTS = (0.1, 0.5, 0.9)
"""The parts of a transition whose times are reported: t10, t50 and t90."""

WIDEST_IN_STEPS = 0.36
"""The widest logistic in the step, as a part of its middle; a ramp with its times begins with the run."""

WIDEST = 0.6
"""The widest logistic of the search, in e-folds: 10 to 90 % in 2.6 e-folds, a little above one decade."""

WIDTHS = (0.1, 0.35, 0.7, 1.4, 2.8, 5.6, 11.2)
"""Widths of the search, in spacings of checkpoints."""

NARROW = 0.7
"""Spacings up to which a width has places at checkpoints as well as between them: of 20 checkpoints .95 of the jumps of
ten deviations are found with them, .78 without."""

TAILS = (0.5, 1.0, 2.0)
"""Exponents of the tail of an abrupt onset."""

BEFORE, AFTER = 2, 3
"""The least number of checkpoints before and after the middle of a transition: fewer are an outlier at an end."""

HALVES_APART = 2
"""Gaps between checkpoints by which the halves of two transitions of a curve differ at least: nearer ones are one,
whose shape is none of those that are fitted."""

MIDDLES = 400
"""Middles of transitions in the search, but for twice as many at most."""

POWERS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
"""Exponents of backgrounds that grow as a power of the step."""

DECAYS, FINE_DECAYS = (0.5, 1.0), (0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
"""Exponents of backgrounds that decay as a power of the step, in the search and in the fit."""

# A second look at what follows the largest part of a curve.

SMOOTHED, MOSTLY, REST = 3, 0.75, 0.5
"""Checkpoints of a running median; the part of a curve's way after which it is searched once more; and the part of its
range in which the rest must lie. Rows "found: bump" are .07 to .75 without this look, and .50 to .80 with it."""

# The scan for one more transition.

COARSE_SCALES, FINE_SCALES = 2, 6
"""Time scales of backgrounds to a decade of steps, in the search and in the fit without a further transition."""

UNEXPLAINED = 3e-3
"""Deviation of what no smooth model explains, as a part of the range of a curve."""

COLLINEAR = 1e-3
"""Least part of a transition that its background does not explain already."""

EXPLAINED = 1e-6
"""Part of a column's length below which the others explain it."""

# The null distribution of the scan.

NULL_CHECKPOINTS = (12, 20, 60, 150)
"""Numbers of checkpoints of the simulated nulls."""

NULL_CORRELATIONS = (0.0, 0.3, 0.62, 0.82, 0.95)
"""Lag-1 correlations that the fit with the transition estimates: the middles of their classes."""

NULL_MEDIANS = (
    (9.6, 9.6, 9.6, 9.6, 9.6),
    (9.3, 9.3, 9.3, 9.3, 9.3),
    (6.2, 7.9, 9.3, 9.6, 11.3),
    (6.0, 7.0, 8.2, 11.6, 15.0),
)
"""Medians of the statistic by number of checkpoints and estimated correlation."""

NULL_TWENTIETHS = (
    (25.0, 25.0, 25.0, 25.0, 25.0),
    (24.1, 24.1, 24.1, 24.1, 24.1),
    (16.2, 20.4, 20.4, 20.4, 22.0),
    (16.8, 16.8, 19.1, 20.6, 23.3),
)
"""The value that the statistic exceeds in one of twenty curves without the transition. Beyond a correlation of .9,
where slower noise than any that was simulated is estimated, it is larger than simulated."""

COARSE = 4
"""How many times less probable a transition of the grid may become once its place and width are refined: until then
the level is so many times as large. Rows "planted" with 12 and 16 checkpoints: .10 and .06 more are found than without
it, on the mean, and .002 more of nulls have an onset."""

TOGETHER = {2: 1.8, 3: 3.2}
"""The statistic of so many transitions at once over that of one, in curves without any: of slow noise, the largest."""

STAIRS, EACH_STAIR = (3, 4, 5, 6), 15.0
"""Steps of a staircase that are tried at once, since its line hides them; and by how much each beyond the first raises
the statistic of curves without any: in one of twenty of them, random walks among them, by 10, and by 15 where all
numbers are tried. Rows "six equal rises, 20 times" are .29 to .53 without it, .63 to 1.00 with it."""

# Backgrounds of two columns.

RIVAL = 0.25
"""How probable what transitions explain beyond two columns must be, by chance, for these to explain the curve."""

LEG, SLIGHT = 5, 5
"""Deviations of the noise by which two columns fall and rise; where they do so by less, as beside a wide sigmoid, they
count for so many nats less."""

# Grids around one shape.

LOGISTIC_LASTS = 4.4
"""Widths of a logistic from t10 to t90: 2 log 9."""

RAMPS = 2.75
"""Half the width of a ramp over the width of a logistic with about its times."""

NARROWEST_LOGISTIC = 0.03
"""The narrowest logistic, in spacings of checkpoints; what is narrower looks the same."""

STEEPEST = 64.0
"""The largest exponent of an abrupt onset: an exponential approach within a sixty-fourth of the steps before it."""

SPAN = 3.0
"""Widths or spacings, and powers of two of the width, by which a patch reaches beyond its middle to begin with."""

PATCH_PLACES, PATCH_SCALES = 17, 9
"""Points of a patch."""

LIKELY = 1e-3
"""Part of the largest weight of a patch from which a point stays within it."""

# The posterior of one transition.

CONCENTRATED = 25
"""Shapes among which the likelihood is spread, effectively, where a grid is fine enough."""

TEMPER = 0.65
"""Power of the likelihood that makes intervals cover: what is fitted besides is uncertain, too, and not on the grid."""

LIKELY_BACKGROUNDS, SHAPES_THINNED = 8, 7
"""Backgrounds that are kept beside a transition; one in so many shapes decides which."""

FINER_GRIDS = (1, 1, 1, 2, 4)
"""How fine each grid is, at most as many of them, each closer around what is likely than the one before."""

NEGLIGIBLE = (0.0, 1e-4, 1e-4, 1e-4, 1e-4)
"""Weight below which a family is left out after each grid: on the first one none may have come close yet."""

PLAUSIBLE, MOST_NOISES = 2.0, 6
"""Kinds of noise whose log likelihood falls short of the best by less are taken into account, so many at most."""

LEAST_FREE = 0.05
"""Part of a checkpoint that a fit leaves free, at least: the residual of one that decides the fit tells nothing."""

INTERVAL_MARGIN = 0.1
"""The margin on either side of an interval, in spacings of checkpoints."""

# The search for several transitions.

MOST_TRANSITIONS, ADDITIONS = 7, 10
"""Transitions of one curve that are looked for, and how often one is added: it may make an earlier one superfluous."""

CORRELATED, MOVES = 0.4, 3
"""Correlation from which several transitions at once are tried, and how often one is moved beside the others, or once
each."""

SHARP = 0.4
"""E-folds from t10 to t90 of the widest transition from which several at once are searched, beside the best one."""

BACKGROUNDS_THINNED = 3
"""One in so many backgrounds is tried with several at once: beside these it matters little, and costs most."""

FURTHER = 0.2
"""Part of the level at which a further transition of a curve is added."""

# Speeds.

SPEED_POINTS = 400
"""Points between checkpoints at which the speed of a fit is read."""

PAUSE = 0.5
"""Part of the mean speed between the middles of two transitions below which one waits for the other."""

# Stretches of finer checkpoints.

FINER_GAP = 0.5
"""Part of the largest gap so far below which a gap between checkpoints is finer than the schedule."""

# Minima.

DEGREE, HIGHER, FINE_POINTS = 4, (6, 8), 401
"""Degree of the polynomial fitted to a valley, those of one that is steep on one side and flat on the other, and points
at which it is evaluated."""

PRICE = 3.0
"""How many times Schwarz's penalty a coefficient costs: with 2 densified valleys in slow noise are covered less."""

TAIL = 12
"""Checkpoints from the lowest one on that are enough to tell how far noise is correlated."""

LONG, BENDS, EACH = 25, 12, 4
"""Checkpoints from the lowest one on from which the correlation is told by a likelihood, beside a polynomial of at most
so high a degree, and of at most one for so many checkpoints."""

BEND_FLOOR = 1e-6
"""Deviation, as a part of the range, that is added to what this polynomial leaves, which may be nothing."""

VALLEY = 0.1
"""Part of a valley's depth up to which it is fitted."""

# Crossings of a level.

CROSSING_QUANTILE = 2.269
"""The likelihood ratio that the right place exceeds in one of twenty curves: Banerjee and Wellner (2001)."""

FALLS, WINDOW = 3.0, 5
"""Deviations of the noise by which a running median over so many checkpoints must fall below the level again: what
comes after that is not of the rise."""

BELOW = 1e-6
"""How far, in ranges of the curve, a value is short of the level at least: one that is equal to it is past it."""

FAR = 1e6
"""Ranges of the curve from its middle within which a level counts as it is: all farther ones are as far."""

# Periods of change.

WIDE = 2.0
"""Median widths above which an interval joins no two times."""

FAR_WIDER = 4.0
"""Ratio of the widths of two windows from which on the wider one makes no two sharper ones one."""

# Means over seeds.

FEWEST_SEEDS = 4
"""Seeds from which t intervals are told: those of two are 12.7 standard errors wide, of three 4.3. Below, and where an
interval leaves the run, the range of the seeds is told, which promises nothing of others."""

# What size of change a search would find.

FACTOR = 2.0
"""Ratio of the steps at which nine tenths and a tenth of a change that is put into a curve have been made."""

PLACES, OFTEN = 5, 4
"""Times at which it is put in, evenly in log(1 + step), and at which it must be found."""

DOUBLINGS = 9
"""Times that the smallest change is doubled at most: from a hundredth of a curve's range to five times it."""

# Means over few values.

LEAST_DEVIATION = 1e-6
"""Part of what deviations are in proportion to, below which values are the same within rounding."""

MOST_PRIOR_VALUES = 1000.0
"""Values that a deviation common to many means is worth at most."""
