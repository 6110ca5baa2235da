"""A sweep in numbers: a row a run, then a mean and an interval over its seeds for every variant."""

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.findings.stages import Stages, find_stages
from stagewise.papers.incremental._early_stopping import early_stop
from stagewise.papers.published import mean_over
from stagewise.saved_findings import load_stages
from stagewise.table import families, select

_TITLES = {"base": "minimal model", "frobenius": "orthogonal matrices", "scale=xavier": "from Xavier's weights"}

_QUANTITIES = ("end_1", "end_2", "stages", "completed", "best_step", "best_excess", "final_kl", "distinct_heads")
"""Quantities averaged over seeds; ends and best steps in steps, `best_excess` and `final_kl` in nats."""


def title_of(name: str) -> str:
    """Return a run's or a variant's name in words.

    >>> title_of("full-layers=2-seed0"), title_of("scale=1e-06"), title_of("base-seed1")
    ('full, layers = 2, seed 0', 'scale = 1e-06', 'minimal model, seed 1')
    """
    variant, _, seed = name.partition("-seed")
    words = _TITLES.get(variant) or re.sub(r"-(?=[a-z])", ", ", variant).replace("=", " = ")
    return f"{words}, seed {seed}" if seed else words


def run_numbers(table: pd.DataFrame, folder: Path | None = None) -> dict[str, Any]:
    """Return the numbers of one run: the fields of `EarlyStop`, its stages' ends, and KL to the full reference.

    Args:
        table: from `measure`, of one run.
        folder: where it lies, with its stages.

    Returns:
        Beside the fields of `EarlyStop` (`completed` only where there are trained baselines): `stages`, the boundaries
        and one, since a model that overfits passes none; `final_kl`, nats, to the complete reference at the last
        checkpoint; and of every boundary its `end_1`, with the interval `end_1_lo`, `end_1_hi`, counted by its
        reference: a run may have the second without the first.
    """
    ended = boundaries(load_stages(table, folder=folder) or find_stages(table))
    ends = {
        f"end_{i}{bound}": int(row[bound.strip("_") or "step"])
        for i, row in ended.items()
        for bound in ("", "_lo", "_hi")
    }
    kl = select(table, "KLToReference", "kl")
    complete = families(kl)["nested"][-1]
    final = float(kl.loc[kl["reference"] == complete, "value"].iloc[-1])
    best = early_stop(table)._asdict()
    if not best["completed"]:  # no restricted-context model to compare with
        del best["completed"]
    return {**best, "stages": 1 + len(ended), "final_kl": final, **ends}


def boundaries(stages: Stages) -> dict[int, Mapping[Hashable, Any]]:
    """Return the turning points that end a stage, by the number of their nested reference, from 1 on."""
    numbers = {name: i for i, name in enumerate(stages.references, start=1)}
    rows = stages.turning_points.to_dict("records")
    return {numbers[row["reference"]]: row for row in rows if row["boundary"]}


def over_seeds(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of every quantity over the seeds of a variant, with its 95 % interval (Student's t).

    A boundary that some seeds do not have is averaged over the others: `n` of the `seeds`.

    Args:
        summary: a row a run, with `variant` and the numbers of `run_numbers`.

    Returns:
        A row a variant and quantity: `variant, quantity, mean, lo, hi, n, seeds`; no interval of a single value.

    >>> rows = over_seeds(pd.DataFrame({"variant": ["a"] * 3, "stages": [2, 3, 4]}))
    >>> rows.round(2).to_dict("records")
    [{'variant': 'a', 'quantity': 'stages', 'mean': 3.0, 'lo': 0.52, 'hi': 5.48, 'n': 3, 'seeds': 3}]
    """
    records = []
    for variant, rows in summary.groupby("variant", sort=False):
        for quantity in (name for name in _QUANTITIES if name in rows):
            values = rows[quantity].dropna().to_numpy(float)
            interval = mean_over(values)._asdict()
            records.append({"variant": variant, "quantity": quantity, **interval, "n": len(values), "seeds": len(rows)})
    return pd.DataFrame(records)
