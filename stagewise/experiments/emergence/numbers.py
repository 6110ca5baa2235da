"""What a figure of the emergence of sparse attention gives: the drawing, and the published numbers beside ours."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from stagewise.detection.power_law import NoLaw, PowerLaw, fit_interval_censored


class Result(NamedTuple):
    """A figure, the published numbers beside ours, and the report of one of its runs where there is one."""

    figure: Figure
    numbers: pd.DataFrame
    report: Path | None = None


def number(what: str, published: str, ours: object, remark: str = "") -> dict[str, str]:
    """Return a row of the table of published numbers."""
    return {"what": what, "published": published, "ours": str(ours), "remark": remark}


def law_of(runs: pd.DataFrame, terms: Sequence[str]) -> PowerLaw | NoLaw:
    """Fit a law of those terms that vary over the runs, or return why there is none.

    Args:
        runs: a row a run: the columns of the terms, `lo` and `hi` (steps).
        terms: expressions over the columns.
    """
    varying = [term for term in terms if len(np.unique(np.asarray(runs.eval(term), dtype=float))) > 1]
    if not varying:
        return NoLaw(f"no law: nothing of {', '.join(terms)} varies over {len(runs)} runs")
    try:
        return fit_interval_censored(runs, ", ".join(varying))
    except NoLaw as reason:
        return NoLaw(f"no law: {reason}")


def in_words(numbers: pd.DataFrame) -> str:
    """Return the published numbers and ours as text, a block a number."""
    lines = []
    for row in numbers.to_dict("records"):
        remark = f"   ({row['remark']})" if row["remark"] else ""
        lines += [f"{row['what']}{remark}", f"  published  {row['published']}", f"  ours       {row['ours']}"]
    return "\n".join(lines)
