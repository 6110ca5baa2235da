"""The numbers that decide, one table for the room: each with the reason for it, or the row that chose it.

Rows in quotation marks are those of the calibration, in docs/records/statistics.md; thresholds that a user may change
are fields of `StageCriteria`. Where neither a source nor a row is named, the value is a convention.
"""

LEVEL = 0.95
"""Confidence level of all intervals, `lo` and `hi`."""

QUANTILE = 1.959963984540054
"""Standard deviations on either side of a mean that hold as much of a normal distribution."""

LEFT_BY_MEDIANS = 0.45
"""Part of the variance of white noise that a running median over three leaves."""

PARTS = (0.1, 0.5, 0.9)
"""The parts of a transition whose times are reported: t10, t50 and t90."""

FEWEST_SEEDS = 4
"""Seeds from which t intervals are told: those of two are 12.7 standard errors wide, of three 4.3. Below, and where an
interval leaves the run, the range of the seeds is told, which promises nothing of others."""
