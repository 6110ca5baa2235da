"""The laws of a sweep of emergence, or why there is none, and their rows beside the published ones."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stagewise.papers.power_law import NoLaw, PowerLaw, fit_interval_censored
from stagewise.papers.published import bounds, number

_Bounds = tuple[int | float, int | float]
"""Between which a time lies: after the first, at the latest at the second; inf where it was not reached."""


def law_of(runs: pd.DataFrame, terms: Sequence[str]) -> PowerLaw | NoLaw:
    """Fit a law of those terms that vary over the runs, or return why there is none.

    Runs that agree in all columns of the terms are seeds of one setting, by which the errors are clustered.

    Args:
        runs: a row a run: the columns of the terms, `lo` and `hi` (steps).
        terms: expressions over the columns.
    """
    varying = [term for term in terms if len(np.unique(np.asarray(runs.eval(term), dtype=float))) > 1]
    if not varying:
        return NoLaw(f"no law: nothing of {', '.join(terms)} varies over {len(runs)} runs")
    columns = [name for name in runs if re.search(rf"\b{name}\b", " ".join(terms))]
    groups = runs.groupby(columns, sort=False).ngroup()
    try:
        return fit_interval_censored(
            runs.assign(setting=groups), ", ".join(varying), settings="setting" if groups.duplicated().any() else None
        )
    except NoLaw as reason:
        return NoLaw(f"no law: {reason}")


def law_numbers(what: str, published: str, law: PowerLaw | NoLaw, remark: str = "") -> list[dict[str, str]]:
    """Return a law as rows: its formula, then each exponent with its 95 % interval; or why there is none."""
    if isinstance(law, NoLaw):
        return [number(what, published, law, remark=remark)]
    formula = f"{law.formula()} (R2 {law.r_squared:.4f})"
    runs = f"{law.n} runs" + (f", {law.n_censored} censored" if law.n_censored else "")
    exponents = zip(law.terms, law.exponents, law.lo[1:], law.hi[1:], strict=True)
    return [
        number(what, published, formula, remark="; ".join(filter(None, [runs, remark]))),
        *(
            number(f"- exponent of {term}", published_exponent(published, term), f"{at:.2f}", bounds(lo, hi))
            for term, at, lo, hi in exponents
        ),
    ]


def published_exponent(law: str, term: str) -> str:
    """Return the exponent of a term in a law as it is written, or nothing.

    >>> [published_exponent("0.76 d^1.29 (T/B)^.80 (R2 .995)", term) for term in ("d", "T / B", "T")]
    ['1.29', '.80', '']
    """
    name = re.escape(term.replace(" ", ""))
    match = re.search(rf"(?<![\w/]){name}\)?\^(-?\d*\.\d+)", law, re.IGNORECASE)
    return match[1] if match else ""


def published_time(law: str, sizes: Mapping[str, Any]) -> Any:
    """Return the value of a written law for a size, or a column of them, of each of its terms.

    >>> round(published_time("0.76 d^1.29 (T/B)^.80 (R2 .995)", {"d": 16, "T / B": 32}))
    435
    """
    constant, *_ = law.split()
    return float(constant) * math.prod(size ** float(published_exponent(law, term)) for term, size in sizes.items())


def ratio_number(what: str, published: str, slow: _Bounds, fast: _Bounds) -> dict[str, str]:
    """Return how many times later one time is than another as a row, both known to an interval (lo, hi].

    >>> row = ratio_number("times faster", "2", (400, 500), (200, 250))
    >>> row["ours"], row["interval"], ratio_number("times faster", "2", (400, math.inf), (200, 250))["ours"]
    ('2.00', '[1.6, 2.5]', 'at least 1.60')
    """
    if math.isinf(fast[1]):
        return number(what, published, "not known, censored")
    low, high = slow[0] / fast[1], slow[1] / max(fast[0], 1)
    if math.isinf(high):
        return number(what, published, f"at least {low:.2f}")
    return number(what, published, f"{math.sqrt(low * high):.2f}", bounds(low, high))


def mean_times(runs: pd.DataFrame, by: Sequence[str], suffix: str = "") -> dict[tuple[Any, ...], _Bounds]:
    """Return the interval of the time, its ends averaged over the seeds, for each value of the columns."""
    ends = runs.groupby(list(by))[[f"lo{suffix}", f"hi{suffix}"]].mean().reset_index()
    return {tuple(row[:-2]): (float(row[-2]), float(row[-1])) for row in ends.itertuples(index=False, name=None)}
