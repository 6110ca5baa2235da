"""Scan and Snap: the ratio of the two rates at which attention ends sparsest, by a finer grid than Figure 6."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from stagewise.papers.published import Result, bounds, mean_over, number, table_of, write_csv
from stagewise.papers.scan_and_snap import _synthetic as experiment
from stagewise.papers.scan_and_snap._theory_figures import finish, panels
from stagewise.papers.scan_and_snap.yz_training import Rates
from stagewise.papers.tasks import syn_medium
from stagewise.plot.axes import ordered_colours

RATIOS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
"""Ratios eta_Y / eta_Z, a factor of about the root of two apart, around Figure 6's threshold of about 2."""

ETA_Z = (1.0, 2.0)


def figure_ratio(
    folder: Path,
    *,
    n_queries: Sequence[int] = experiment.N_QUERIES,
    seeds: Sequence[int] = experiment.SEEDS,
    progress: bool = True,
) -> Result:
    """Train Syn-Medium at every ratio on the published streams, and find the ratio at which entropy is least.

    Writes `runs.csv`, a row a run.

    Source: Tian et al. (2023), arXiv:2305.16380, section 7 and Figure 6: a threshold of about 2.
    """
    runs = ratio_runs(n_queries, seeds, progress)
    write_csv(folder / "runs.csv", runs)
    figure, axes = panels(len(ETA_Z))
    colours, rows = ordered_colours([2 * n for n in n_queries]), []
    for ax, eta_z in zip(axes, ETA_Z, strict=True):
        for classes, of in runs[runs["eta_z"] == eta_z].groupby("num_next"):
            mean = of.groupby("ratio")["entropy"].mean()
            ax.semilogx(mean.index, mean, "o-", color=colours[int(str(classes))], label=f"K = {classes}")
            rows.append(_row(f"K = {classes}, eta_Z = {eta_z:g}", of))
        finish(ax, f"Syn-Medium, eta_Z = {eta_z:g}", "entropy of distinct tokens, nats", "eta_Y / eta_Z")
    return Result(figure, table_of(rows))


def ratio_runs(n_queries: Sequence[int], seeds: Sequence[int], progress: bool = True) -> pd.DataFrame:
    """Return the entropy (nats) of each run after its last update: `num_next, eta_z, ratio, seed, entropy`."""
    pairs = [Rates(y=ratio * eta_z, z=eta_z) for eta_z in ETA_Z for ratio in RATIOS]
    rows = []
    streams = [(n, seed) for n in n_queries for seed in seeds]
    for n, seed in tqdm(streams, disable=not progress, desc="ratio", unit="stream"):
        task = syn_medium(n)
        _, z = experiment.final_scores(n, seed, pairs=pairs)
        entropy = experiment.distinct_entropy(task, experiment.attention_by_class(task, z)).tolist()
        rows += [(task.n_classes, each.z, each.y / each.z, seed, h) for each, h in zip(pairs, entropy, strict=True)]
    return pd.DataFrame(rows, columns=["num_next", "eta_z", "ratio", "seed", "entropy"])


def least_ratio(ratios: Sequence[float] | np.ndarray, entropies: Sequence[float] | np.ndarray) -> float:
    """Return the ratio of least entropy, by a parabola in ln(ratio) around the least value; nan at an end of the grid.

    >>> round(least_ratio([1.0, 2.0, 4.0], [1.0, 0.0, 1.0]), 3)
    2.0
    """
    x, y = np.log(np.asarray(ratios)), np.asarray(entropies)
    at = int(y.argmin())
    if at in (0, len(y) - 1):
        return np.nan
    a, b, _ = np.polyfit(x[at - 1 : at + 2], y[at - 1 : at + 2], 2)
    return float(np.exp(-b / (2 * a)))


def _row(cell: str, runs: pd.DataFrame) -> dict[str, str]:
    """Return the ratio of least entropy over the seeds whose least value lies within the grid."""
    curves = [of.sort_values("ratio") for _, of in runs.groupby("seed")]
    least = np.array([least_ratio(of["ratio"].to_numpy(), of["entropy"].to_numpy()) for of in curves])
    inside = least[np.isfinite(least)]
    remark = f"{len(inside)} of {len(least)} seeds" + "; the others are least at an end" * (len(inside) < len(least))
    what = f"ratio eta_Y / eta_Z of least entropy, {cell}"
    if len(inside) < 2:
        return number(what, "about 2", f"{inside[0]:.2f}" if len(inside) else "never", remark=remark)
    mean, lo, hi = np.exp(mean_over(np.log(inside)))
    return number(what, "about 2", f"{mean:.2f}", bounds(lo, hi), remark)
