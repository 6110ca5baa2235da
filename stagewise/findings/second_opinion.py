"""A second opinion on onsets: change points of straight lines, by another method and another library."""

import numpy as np
import pandas as pd

from stagewise.findings._scores import curves_of

PARAMETERS = 3
"""Parameters of each further segment: offset, slope, and where it begins."""

SHORTEST = 3
"""Checkpoints of a segment."""


def find_second_opinion(table: pd.DataFrame, onsets: pd.DataFrame) -> pd.DataFrame:
    """Return the onsets of a table with a column `contested`: whether a piecewise linear fit does not break there.

    Segments of the curve are straight in log(1 + step). They are found by binary segmentation at every checkpoint, as
    many as lower the squared error by more than Schwarz's criterion asks for at the onset's own noise. An onset is
    contested where no segment ends between the checkpoint before its t10 and the one behind its t90; missing for rows
    that are no onsets. It changes no decision: the calibration has how often it contests planted and false onsets.

    Args:
        table: of one run, from `measure`.
        onsets: of this table, from `find_onsets`.

    Raises:
        ValueError: the table lacks a curve of the onsets.

    Source: Truong, Oudre, Vayatis (2020), Selective review of offline change point detection methods, Signal Processing
    167, and its library ruptures; Fryzlewicz (2014), arXiv:1411.0858, for binary segmentation.
    """
    chosen = onsets[onsets["onset"]]
    contested = pd.Series(pd.NA, onsets.index, dtype="boolean")
    contested[onsets["onset"]] = [
        not breaks(curve["step"].to_numpy(float), curve["value"].to_numpy(float), row["noise"], row["t10"], row["t90"])
        for curve, row in zip(curves_of(table, chosen), chosen.to_dict("records"), strict=True)
    ]
    return onsets.assign(contested=contested)


def breaks(steps: np.ndarray, values: np.ndarray, noise: float, t10: float, t90: float) -> bool:
    """Return whether a segment of a curve ends between the checkpoint before a step and the one behind another.

    Args:
        steps: ascending.
        values: finite.
        noise: standard deviation of the values about the segments.
        t10: the first step.
        t90: the last one.
    """
    ends = change_points(steps, values, noise)
    first, last = np.searchsorted(steps, [t10, t90])
    return bool(((ends > first - 1) & (ends <= last + 1)).any())


def change_points(steps: np.ndarray, values: np.ndarray, noise: float) -> np.ndarray:
    """Return the numbers of the checkpoints at which a new straight segment of a curve begins.

    Args:
        steps: ascending.
        values: finite.
        noise: standard deviation of the values about the segments.
    """
    import ruptures  # only who asks for the opinion waits for it

    u = np.log1p(steps)
    signal = np.column_stack([values, u, np.ones_like(u)])
    search = ruptures.Binseg(model="linear", min_size=SHORTEST, jump=1).fit(signal)
    return np.array(search.predict(pen=PARAMETERS * noise**2 * np.log(len(u)))[:-1], dtype=int)
