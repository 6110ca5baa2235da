"""When each run of a table crosses a threshold."""

from typing import Literal

import pandas as pd

from stagewise.papers.emergence_interval import emergence_interval
from stagewise.table import select


def find_emergence_times(
    table: pd.DataFrame,
    probe: str,
    quantity: str,
    threshold: float,
    direction: Literal["up", "down"] = "up",
    **axes: object,
) -> pd.DataFrame:
    """Return when each run of a table crosses a threshold: columns `run, lo, hi, censored` (optimiser steps).

    Args:
        table: tidy rows of one or more runs.
        probe: whose rows.
        quantity: which of them.
        threshold: the value that counts as emergence.
        direction: "up" for an accuracy or attention, "down" for a loss.
        **axes: values on the axes, such as relation="query to value", layer=1; they must select one row a step.

    Raises:
        ValueError: no such rows, several rows a step, or what `emergence_interval` refuses, with the run's name.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 2.3. Deviation: the interval of `emergence_interval` and a
    censored mark in place of the first step past the threshold.
    """
    rows = []
    for run, curve in select(table, probe, quantity, **axes).groupby("run", sort=False):
        if curve["step"].duplicated().any():
            several = [
                name for name in curve if curve[name].nunique() > 1 and name not in ("step", "value", "lo", "hi")
            ]
            raise ValueError(f"run {run!r} has several rows a step: choose a value of {', '.join(map(str, several))}")
        try:
            time = emergence_interval(curve["step"].to_numpy(), curve["value"].to_numpy(), threshold, direction)
        except ValueError as reason:
            raise ValueError(f"run {run!r}: {reason}") from reason
        rows.append({"run": run, "lo": time.lo, "hi": time.hi, "censored": time.censored})
    return pd.DataFrame(rows)
