"""Scan and Snap's Figures 4 to 6 as commands: each trains, writes tables and a picture, and prints its findings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from stagewise.checkpoints import run_folder
from stagewise.experiments.scan_and_snap import plots
from stagewise.experiments.scan_and_snap import synthetic as experiment
from stagewise.experiments.scan_and_snap.figure_7 import figure_7
from stagewise.experiments.scan_and_snap.yz_hooked import series_of
from stagewise.experiments.scan_and_snap.yz_training import Rates
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionByToken, AttentionFreezing, GrowthFactor, TokenEntropy
from stagewise.table import select, tidy
from stagewise.tasks import syn_small

FREEZING_WINDOW, FREEZING_SHARE = 10, 0.05
"""Attention is frozen where its path over ten steps (changes added up) is below a twentieth of the longest one."""

ADAM_RATES = (0.1, 0.5, 1.0)


def draw(
    figure: int,
    folder: Path,
    *,
    seeds: int | None = None,
    fresh: bool = False,
    data: str | None = None,
    steps: int | None = None,
    progress: bool = True,
) -> str:
    """Make one of the figures in a folder; return what to print.

    Args:
        figure: 4, 5, 6 or 7.
        folder: where to write.
        seeds: how many, for figures 5 (20 by default) and 6 (10).
        fresh: figure 6 with new seeds in place of the published ones.
        data: figure 7's folder of text; see `WikiText`.
        steps: figure 7's minibatches, 1500 by default.
        progress: show bars.

    Raises:
        ValueError: an unknown figure, or a setting that it does not have.
    """
    if figure not in (4, 5, 6, 7):
        raise ValueError(f"there is no figure {figure} here; there are 4, 5, 6 and 7")
    if seeds is not None and (figure not in (5, 6) or seeds < figure - 4):
        raise ValueError(f"figure 5 takes a seed or more, figure 6 two or more, the others none; got {seeds}")
    if fresh and figure != 6:
        raise ValueError(f"only figure 6 has fresh seeds to compare with, got figure {figure}")
    if figure != 7 and (data is not None or steps is not None):
        raise ValueError(f"only figure 7 reads text and takes a number of steps, got figure {figure}")
    if figure == 4:
        return figure_4(folder, progress=progress)
    if figure == 5:
        return figure_5(folder, seeds=range(seeds or 20), progress=progress)
    if figure == 6:
        chosen = range(1, 1 + (seeds or len(experiment.SEEDS)))
        return figure_6(folder, seeds=chosen, published=not fresh, progress=progress)
    return figure_7(folder, data=data, steps=steps or 1500, progress=progress)


def figure_4(folder: Path, *, ratios: Sequence[int] = (1, 10), progress: bool = True) -> str:
    """Follow attention through training on Syn-Small (SGD, eta_Z = 1, the published stream of seed 2).

    Writes `measurements.parquet`, `attention.csv` and `figure_4.png` and `.svg`; returns what to print.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 4: eta_Y / eta_Z of 1 (left) and 10 (right).
    """
    batch = syn_small().population_batch()
    probes = [AttentionByToken(), TokenEntropy(), GrowthFactor(), AttentionFreezing()]
    tables = []
    for ratio in ratios:
        moments = experiment.moments_of_syn_small([Rates(y=float(ratio), z=1.0)])
        snapshots = ((moment.step, moment.weights) for moment in moments if moment.step % 2 == 0)
        series = series_of(f"eta_Y = {ratio}", snapshots, batch.tokens.shape[1])
        tables.append(measure(series, probes, batch, progress=progress))
    table = tidy(tables)
    run_folder.write(folder / "measurements.parquet", lambda partial: table.to_parquet(partial, index=False))
    attention = select(table, "AttentionByToken", "attention")[["run", "step", "row", "token", "value"]]
    _write_csv(folder / "attention.csv", attention.rename(columns={"row": "class", "value": "attention"}))
    _save(plots.attention_through_training(table), folder / "figure_4")
    _settings(folder, {"figure": 4, "ratios": list(ratios), "eta_z": 1.0, "seed": 2, "steps": experiment.STEPS})
    return "\n".join(_about_a_run(str(run), rows) for run, rows in table.groupby("run", sort=False))


def frozen_at(change: pd.Series) -> int | None:
    """Return the first step from which on attention is frozen, or None where it still moves at the end.

    Args:
        change: total-variation change between checkpoints two steps apart, by step.

    >>> frozen_at(pd.Series([0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0, 0.0], index=range(2, 22, 2)))
    20
    """
    window = change.rolling(FREEZING_WINDOW // 2).sum().dropna()
    moving = window[window >= FREEZING_SHARE * window.max()]
    after = window.index[window.index > moving.index[-1]]
    return int(after[0]) if len(after) else None


def _about_a_run(run: str, table: pd.DataFrame) -> str:
    entropy = select(table, "TokenEntropy", "entropy", among="distinct").set_index("step")["value"]
    attention = select(table, "AttentionByToken", "attention", row=0)
    common = attention[attention["token"] < 10].groupby("step")["value"].sum()
    growth = select(table, "GrowthFactor", "growth", token=19).set_index("step")["value"]
    frozen = frozen_at(select(table, "AttentionFreezing", "change").set_index("step")["value"])
    last = entropy.index[-1]
    return (
        f"{run}: distinct-token entropy {entropy[0]:.4f} -> {entropy[10]:.4f} (step 10) -> {entropy[last]:.4f} nats "
        f"(step {last}); growth of the most frequent one {growth[last]:.2f}; common tokens keep "
        f"{common[last]:.1%} of class 0; " + (f"frozen from step {frozen} on" if frozen else "still moving at the end")
    )


def figure_5(folder: Path, *, seeds: Sequence[int] = range(20), progress: bool = True) -> str:
    """Find which distinct token gets most attention on Syn-Small under Adam at three rates, eta_Y = eta_Z.

    Writes `winners.csv` (index 0 is the least frequent distinct token, 9 the most), `attention.csv` of the first
    seed, `figure_5.png` and `.svg`; returns what to print.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 5, whose seed is not known.
    """
    winners, attention = experiment.figure_5_runs(ADAM_RATES, seeds, progress)
    _write_csv(folder / "winners.csv", winners)
    _write_csv(folder / "attention.csv", attention)
    _save(plots.most_attended(winners, attention), folder / "figure_5")
    _settings(folder, {"figure": 5, "optimiser": "adam", "rates": list(ADAM_RATES), "seeds": list(seeds)})
    lines = []
    for rate, rows in winners.groupby("rate"):
        times = rows["index"].value_counts().sort_index()
        counts = ", ".join(f"{index} ({n}x)" for index, n in times.items())
        mass = rows["distinct_mass"].mean()
        lines.append(f"Adam, rate {rate:g}: most attended distinct token {counts}; distinct mass {mass:.2f}")
    return "\n".join(lines)


def figure_6(
    folder: Path,
    *,
    n_queries: Sequence[int] = experiment.N_QUERIES,
    seeds: Sequence[int] = experiment.SEEDS,
    published: bool = True,
    progress: bool = True,
) -> str:
    """Train Syn-Medium at all rates and sizes and give the entropy of each cell over the seeds.

    Writes `cells.csv`, `runs.csv` (single runs), `recall.csv` (Figures 11 and 12), `figure_6.png` and `.svg`;
    returns every cell as text.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 6. Its caption's "standard deviation of the mean" is the
    plain sample standard deviation over ten seeds.
    """
    runs, recalls = experiment.figure_6_runs(n_queries, seeds, published, progress)
    cells = experiment.cells(runs)
    _write_csv(folder / "runs.csv", runs)
    _write_csv(folder / "cells.csv", cells)
    by_cell = recalls.groupby([*experiment.CELL, "threshold"])["recall"]
    _write_csv(
        folder / "recall.csv",
        pd.DataFrame({"recall_mean": by_cell.mean(), "recall_std": by_cell.std()}).reset_index(),
    )
    _save(plots.entropy_by_rates(cells), folder / "figure_6")
    _settings(folder, {"figure": 6, "n_queries": list(n_queries), "seeds": list(seeds), "published": published})
    return cells_in_words(cells)


def cells_in_words(cells: pd.DataFrame) -> str:
    """Return every cell as mean +- standard deviation, a line for each size and rate of Z, a column for each ratio."""
    text = [f"{mean:.3f} +- {std:.3f}" for mean, std in zip(cells["entropy_mean"], cells["entropy_std"], strict=True)]
    wide = cells.assign(cell=text).pivot(index=["num_last", "num_next", "eta_z"], columns="ratio", values="cell")
    lines = ["distinct-token entropy, nats; columns: eta_Y / eta_Z", "queries   K  eta_Z  " + _columns(wide.columns)]
    for (queries, classes, eta_z), row in zip(wide.index.tolist(), wide.to_numpy(), strict=True):
        lines.append(f"{queries:7d} {classes:3d}  {eta_z:5.1f}  " + _columns(row))
    return "\n".join(lines)


def _columns(values: Iterable[object]) -> str:
    return "  ".join(f"{value!s:>15}" for value in values)


def _write_csv(path: Path, table: pd.DataFrame) -> None:
    run_folder.write(path, lambda partial: table.to_csv(partial, index=False))


def _settings(folder: Path, settings: Mapping[str, object]) -> None:
    settings = json.loads(json.dumps(settings))
    run_folder.write_json(folder / "settings.json", {**settings, "versions": run_folder.versions()})


def _save(figure: Figure, path: Path) -> None:
    for ending in ("png", "svg"):
        file = path.with_suffix(f".{ending}")
        run_folder.write(file, lambda partial, ending=ending: figure.savefig(partial, dpi=150, format=ending))  # type: ignore[misc]
