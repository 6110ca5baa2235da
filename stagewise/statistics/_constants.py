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

# Noise that running medians leave.

LEFT_BY_MEDIANS = 0.45
"""Part of the variance of white noise that a running median over three leaves."""

SLOWEST = 0.8
"""Correlation of noise between checkpoints that is allowed for: beyond it a bend of the curve looks the same."""

# Transitions.

PARTS = (0.1, 0.5, 0.9)
"""The parts of a transition whose times are reported: t10, t50 and t90."""

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

# Periods of change.

WIDE = 2.0
"""Median widths above which an interval joins no two times."""

FAR_WIDER = 4.0
"""Ratio of the widths of two windows from which on the wider one makes no two sharper ones one."""

# Means over seeds.

FEWEST_SEEDS = 4
"""Seeds from which t intervals are told: those of two are 12.7 standard errors wide, of three 4.3. Below, and where an
interval leaves the run, the range of the seeds is told, which promises nothing of others."""
