"""The recorded WikiText trajectories: validation loss and probe entropy over training by Adam."""

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from stagewise.papers.published import Result, number, over_seeds, table_of, write_csv
from stagewise.papers.running import run_each
from stagewise.papers.scan_and_snap._wikitext_model import columns, probe_entropy, text_loss
from stagewise.papers.scan_and_snap._wikitext_training import COLUMNS, Setting, train_baseline
from stagewise.papers.scan_and_snap.published import BASELINE, BASELINE_START
from stagewise.papers.scan_and_snap.wikitext_recipe import CHECKPOINTS, baseline_recipe, basic_english
from stagewise.plot.axes import OKABE_ITO

ENTROPY_EVERY = 100
"""Minibatches between two looks at the probe sequence's attention; the validation loss takes a minute."""

_VALIDATION_COLUMNS = 10

_READ = {"validation_loss": "validation loss", "entropy_0": "entropy of the probe map"}
"""Quantities that are compared with the record, and their names."""

_RECORDED = (1, 1e-3, 1000)
"""Layers, rate and minibatches of the recorded runs."""


def trajectories(
    folder: Path,
    *,
    seeds: int = 1,
    n_layers: int = 1,
    rate: float = 1e-3,
    steps: int = 1000,
    workers: int = 1,
    progress: bool = True,
    **settings: Any,
) -> Result:
    """Train the model by Adam from several seeds, draw its loss and entropy, and compare them with the recorded ones.

    Args:
        folder: where to write, a folder a seed in it.
        seeds: how many, from 1 on.
        n_layers: of the model.
        rate: Adam's learning rate.
        steps: minibatches.
        workers: processes that train at the same time.
        progress: show a bar.
        settings: the others of `trajectory`.

    Raises:
        ValueError: fewer than one seed, or what `trajectory` refuses.
    """
    if seeds < 1:
        raise ValueError(f"seeds count from 1: take at least one, got {seeds}")
    each: dict[str, Any] = {"n_layers": n_layers, "rate": rate, "steps": steps, **settings}
    train = functools.partial(_of_seed, folder, each)
    runs = range(1, 1 + seeds)
    tables = dict(zip(runs, run_each(train, runs, workers, progress=progress), strict=True))
    recorded = BASELINE if (n_layers, rate, steps) == _RECORDED else ("-", "-")
    return Result(_draw(tables), table_of(_rows(tables, recorded, BASELINE_START if n_layers == 1 else {})))


def trajectory(
    folder: Path,
    *,
    n_layers: int = 1,
    rate: float = 1e-3,
    steps: int = 1000,
    seed: int = 1,
    data: str | None = None,
    checkpoints: int = CHECKPOINTS,
    progress: bool = True,
) -> pd.DataFrame:
    """Train the paper's WikiText model by Adam; write `trajectory.csv` and return it.

    Columns: `step, loss` (mean training loss since the row before), `validation_loss` (first and last row) and
    `entropy_0, entropy_1, ...`, the layers' attention entropy on the probe sequence of the validation text; nats.
    It takes ten minutes of one core; an interrupted run resumes. Its checkpoints, `checkpoints` at most and 47 MB each,
    make the folder one that can be measured and reported on.

    Raises:
        ValueError: a setting is out of range, or the folder holds a run of other settings.

    Source: the configurations and logs released with Tian et al. (2023), arXiv:2305.16380; they belong to its sequel.
    """
    task = basic_english(data)
    corpus = task.corpus()
    rows = columns(corpus.ids["train"], COLUMNS)
    held_out = columns(corpus.ids["validation"], _VALIDATION_COLUMNS)
    steps_seen = sorted({*range(0, steps, ENTROPY_EVERY), steps})

    def with_loss(model: Any) -> dict[str, Any]:
        return {"entropy": probe_entropy(model, held_out), "validation_loss": text_loss(model, held_out)}

    looks: dict[int, Any] = dict.fromkeys(steps_seen, lambda model: {"entropy": probe_entropy(model, held_out)})
    looks |= {0: with_loss, steps: with_loss}
    setting = Setting("adam", rate, steps=steps, n_layers=n_layers, seed=seed)
    recipe = baseline_recipe(setting, task, checkpoints)
    losses, seen = train_baseline(setting, rows, task.d_vocab, looks, folder, recipe=recipe, progress=progress)
    table = _table(losses, {step: seen[step] for step in steps_seen})
    write_csv(folder / "trajectory.csv", table)
    return table


def _of_seed(folder: Path, settings: Mapping[str, Any], seed: int, *, progress: bool) -> pd.DataFrame:
    return trajectory(folder / f"seed={seed}", seed=seed, **settings, progress=progress)


def _table(losses: list[float], seen: dict[int, dict[str, Any]]) -> pd.DataFrame:
    rows, before = [], 0
    for step, reading in seen.items():
        since = losses[before:step]
        row = {"step": step, "loss": sum(since) / len(since) if since else None}
        row["validation_loss"] = reading.get("validation_loss")
        rows.append(row | {f"entropy_{layer}": value for layer, value in enumerate(reading["entropy"])})
        before = step
    return pd.DataFrame(rows)


def _rows(
    tables: Mapping[int, pd.DataFrame], recorded: tuple[str, str], start: Mapping[int, tuple[str, str]]
) -> list[dict[str, str]]:
    """Return validation loss and lowest layer's entropy of each seed at the start, and their means at the end."""
    rows = []
    for seed, table in tables.items():
        first = table.iloc[0]
        for name, what, published in zip(_READ, _READ.values(), start.get(seed, ("-", "-")), strict=True):
            rows.append(number(f"{what} at minibatch 0, seed {seed}, nats", published, f"{first[name]:.6f}"))
    last = max(table["step"].iloc[-1] for table in tables.values())
    for (name, what), published in zip(_READ.items(), recorded, strict=True):
        values = [float(table[name].iloc[-1]) for table in tables.values()]
        rows.append(over_seeds(f"{what} at minibatch {last}, nats", published, values))
    return rows


def _draw(tables: Mapping[int, pd.DataFrame]) -> Figure:
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for (seed, table), colour in zip(tables.items(), itertools.cycle(OKABE_ITO), strict=False):
        for ax, name in zip(panels, ("loss", "entropy_0"), strict=True):
            seen = table.dropna(subset=[name])
            ax.plot(seen["step"], seen[name], color=colour, label=f"seed {seed}")
    for ax, what in zip(panels, ("training loss, nats", "entropy of the probe map, nats"), strict=True):
        ax.set(xlabel="minibatch", ylabel=what)
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    return figure
