"""Scan and Snap's Figures 6, 11 and 12: entropy and recall of attention on Syn-Medium, by rates and sizes."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from stagewise.papers.published import Result, number, table_of, write_csv
from stagewise.papers.scan_and_snap import _plots as plots
from stagewise.papers.scan_and_snap import _synthetic as experiment
from stagewise.papers.scan_and_snap._syn_small_figures import write_settings
from stagewise.papers.scan_and_snap.published import ENTROPIES

_NO_DIP = 2
"""K of which the recorded cells have none of the dips that the paper reports."""


def figure_6(
    folder: Path,
    *,
    n_queries: Sequence[int] = experiment.N_QUERIES,
    seeds: Sequence[int] = experiment.SEEDS,
    published: bool = True,
    progress: bool = True,
) -> Result:
    """Train Syn-Medium at all rates and sizes and give the entropy of each cell over the seeds.

    Writes `cells.csv`, `runs.csv` (single runs) and `recall.csv` (Figures 11 and 12).

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 6. Its caption's "standard deviation of the mean" is the
    plain sample standard deviation over ten seeds.
    """
    runs, recalls = experiment.figure_6_runs(n_queries, seeds, published, progress)
    cells = experiment.cells(runs)
    write_csv(folder / "runs.csv", runs)
    write_csv(folder / "cells.csv", cells)
    write_csv(folder / "recall.csv", experiment.recall_cells(recalls))
    write_settings(folder, {"figure": 6, "n_queries": list(n_queries), "seeds": list(seeds), "published": published})
    return Result(plots.entropy_by_rates(cells), table_of(trend_rows(cells)), cells=table_of(_cell_rows(cells)))


def figure_recall(
    folder: Path,
    n_queries: Sequence[int],
    *,
    seeds: Sequence[int] = experiment.SEEDS,
    published: bool = True,
    progress: bool = True,
) -> Result:
    """Draw the recall of distinct tokens over the threshold of attention, a panel a size and rate of Z.

    Writes `recall.csv`. How the sizes are shared between the two figures is not recorded: K = 2 and 6 are Figure 11
    here, K = 10 and 20 Figure 12.

    Source: Tian et al. (2023), arXiv:2305.16380, Figures 11 and 12.
    """
    _, recalls = experiment.figure_6_runs(n_queries, seeds, published, progress)
    cells = experiment.recall_cells(recalls)
    write_csv(folder / "recall.csv", cells)
    rows = []
    for (classes, eta_z, ratio), line in cells.groupby(["num_next", "eta_z", "ratio"]):
        first, last = line.iloc[0], line.iloc[-1]
        what = (
            f"recall at thresholds {first['threshold']:g} and {last['threshold']:g}, K = {classes}, eta_Z = {eta_z:g}"
        )
        ours = f"{first['recall_mean']:.3f}, {last['recall_mean']:.3f}"
        rows.append(number(f"{what}, ratio {ratio}", "falls more slowly at smaller ratio", ours))
    return Result(plots.recall_by_threshold(cells), table_of(descent_rows(cells)), cells=table_of(rows))


def descent_rows(cells: pd.DataFrame) -> list[dict[str, str]]:
    """Return in how many panels recall falls less, from the first threshold to the last, at a smaller ratio eta_Y /
    eta_Z, and in how many lines it falls less at a larger eta_Z."""
    ends = cells.groupby(["num_next", "eta_z", "ratio"])["recall_mean"].agg(["first", "last"])
    falls = (ends["first"] - ends["last"]).unstack("ratio")
    ratios, rates = falls.columns, falls.groupby("eta_z").mean().index
    slower = int((falls[ratios[0]] < falls[ratios[-1]]).sum())
    least, most = (falls.xs(rate, level="eta_z") for rate in (rates[0], rates[-1]))
    later = int((most < least).to_numpy().sum())
    what = f"recall falls less at ratio {ratios[0]} than at {ratios[-1]}, panels"
    return [
        number(what, "all", f"{slower} of {len(falls)}"),
        number(
            f"recall falls less at eta_Z = {rates[-1]:g} than at {rates[0]:g}, lines", "all", f"{later} of {most.size}"
        ),
    ]


def _cell_rows(cells: pd.DataFrame) -> list[dict[str, str]]:
    """Return every cell of Figure 6: mean and standard deviation over the seeds beside the published ones."""
    rows = []
    for cell in cells.to_dict("records"):
        classes, eta_z, ratio = (cell[name] for name in ("num_next", "eta_z", "ratio"))
        recorded = ENTROPIES.get(classes, {}).get(eta_z)
        published = recorded[experiment.RATIOS.index(ratio)] if recorded else "-"
        what = f"entropy of distinct tokens, nats, K = {classes}, eta_Z = {eta_z:g}, ratio {ratio}"
        rows.append(number(what, published, f"{cell['entropy_mean']:.3f} +- {cell['entropy_std']:.3f}"))
    return rows


def trend_rows(cells: pd.DataFrame) -> list[dict[str, str]]:
    """Return in how many columns entropy falls with eta_Z, and in how many rows it dips at ratio 2, by size."""
    by_rate = cells.pivot(index="eta_z", columns=["num_next", "ratio"], values="entropy_mean")
    by_ratio = cells.pivot(index=["num_next", "eta_z"], columns="ratio", values="entropy_mean")
    falling = int((by_rate.diff().iloc[1:] < 0).all().sum())
    rows = [
        number("columns in which entropy falls with eta_Z", "all", f"{falling} of {by_rate.shape[1]}"),
        *difference_rows(cells),
    ]
    for classes, of_size in by_ratio.groupby("num_next"):
        dips = f"{int((of_size[2] < of_size[1]).sum())} of {len(of_size)}"
        published = "all (0 of 4 in the record)" if classes == _NO_DIP else "all"
        rows.append(number(f"rows with a dip from ratio 1 to 2, K = {classes}", published, dips))
    return rows


def difference_rows(cells: pd.DataFrame) -> list[dict[str, str]]:
    """Return the largest differences from the recorded cells, in the mean and in the standard deviation."""
    recorded = [
        (classes, eta_z, ratio, *map(float, text.split(" +- ")))
        for classes, rates in ENTROPIES.items()
        for eta_z, row in rates.items()
        for ratio, text in zip(experiment.RATIOS, row, strict=True)
    ]
    names = ["num_next", "eta_z", "ratio", "mean", "deviation"]
    both = cells.merge(pd.DataFrame(recorded, columns=names), on=names[:3])
    what = f"largest difference from the {len(both)} recorded"
    return [
        number(f"{what} {name}s, nats", "0", f"{(both[ours] - both[theirs]).abs().max():.4f}")
        for name, ours, theirs in (("mean", "entropy_mean", "mean"), ("deviation", "entropy_std", "deviation"))
        if len(both)
    ]
