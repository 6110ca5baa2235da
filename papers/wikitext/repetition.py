"""WikiText with windows that repeat: how soon induction heads form by their share, and what the text has of it."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from stagewise.analysis import measure_run, run
from stagewise.checkpoints.run_folder import REPORT, read_table
from stagewise.findings.crossings import Crossing, crossings
from stagewise.papers.published import Result, number, over_seeds, table_of
from stagewise.papers.running import run_each
from stagewise.papers.tasks import wiki_text
from stagewise.papers.wikitext.text_figures import HEAD_KINDS, N_GRAMS
from stagewise.papers.wikitext.text_heads import head_onsets
from stagewise.plot.axes import curve, label_ends, marker, ordered_colours, set_step_axis
from stagewise.recipe import Recipe
from stagewise.sweeping import parameter_grid
from stagewise.table import head_label, select
from stagewise.training import train

SHARES = (0.0, 0.1, 0.2, 0.3, 0.5)
WARM_UP = 200
"""Steps of the warm-up with which the published table was made."""

_Tables = Mapping[float, Mapping[int, pd.DataFrame]]
"""Share -> seed -> the table of its run."""


def repetition(
    folder: Path,
    *,
    shares: Sequence[float] = SHARES,
    seeds: int = 3,
    workers: int = 1,
    progress: bool = True,
    **sizes: Any,
) -> Result:
    """Train a model of text for every share and seed, and say when its heads came and how it predicts plain text.

    Every run is one of `analysis.run`, in a folder of its own with its report; what is finished is not done again.
    A run of 5000 steps takes eight minutes of one core.

    Args:
        folder: holds the run folders.
        shares: of the training windows that repeat an excerpt; losses are compared with the first one's.
        seeds: how many, from 0 on.
        workers: processes that train at the same time.
        progress: show bars.
        sizes: other arguments of `tasks.wiki_text.recipe`.

    Returns:
        The induction mass of the best head over training, a panel a seed, and a row a number: half-way steps of the
        first heads, losses in nats a token on the unchanged text with intervals over seeds (Student's t).

    Raises:
        ValueError: no share, one that comes twice, fewer than one seed, or what the recipe refuses.
    """
    if not shares or len(set(shares)) < len(shares):
        raise ValueError(
            f"give each share of repeating windows once, and at least one; got {', '.join(map(str, shares))}"
        )
    if seeds < 1:
        raise ValueError(f"seeds count from 0: take at least one, got {seeds}")
    cases = parameter_grid(repeating=shares, seed=range(seeds))
    for case in cases:
        _recipe(case, sizes)  # refused before anything is trained
    measured = run_each(functools.partial(_table, folder=folder, sizes=sizes), cases, workers, progress=progress)
    tables: dict[float, dict[int, pd.DataFrame]] = {share: {} for share in shares}
    for case, table in zip(cases, measured, strict=True):
        tables[case["repeating"]][case["seed"]] = table
    return Result(_draw(tables), table_of([row for share in tables for row in _rows(tables, share)]))


def _recipe(case: Mapping[str, Any], sizes: Mapping[str, Any]) -> Recipe:
    recipe = wiki_text.recipe(**case, **sizes)
    return dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, warmup=WARM_UP))


def _table(case: Mapping[str, Any], *, folder: Path, sizes: Mapping[str, Any], progress: bool) -> pd.DataFrame:
    path = folder / f"repeating={case['repeating']:g}-seed{case['seed']}"
    recipe = _recipe(case, sizes)
    if (path / REPORT).exists():
        train(recipe, path, progress=progress)  # which refuses a run of another recipe
        return measure_run(recipe, path, progress=progress)
    run(recipe, path, progress=progress)
    return read_table(path)


def _rows(tables: _Tables, share: float) -> list[dict[str, str]]:
    """Return the results of the runs of a share, seeds apart where it is a step, else as their mean."""
    runs, of = tables[share], f"{100 * share:g}% repeat"
    onsets = {seed: head_onsets(table) for seed, table in runs.items()}
    rows = [
        _by_seed(f"first {kind} head, half-way step, {of}", (_first(of_seed, kind) for of_seed in onsets.values()))
        for kind in HEAD_KINDS
    ]
    rows.append(
        _by_seed(
            f"loss change, nats, where the first induction head is mean-ablated in the end, {of}",
            (_without_first(runs[seed], of_seed) for seed, of_seed in onsets.items()),
        )
    )
    for each in zip(*(crossings(table, N_GRAMS) for table in runs.values()), strict=True):
        rows.append(_by_seed(f"steps from which on the {each[0].after} model is closer, {of}", map(_between, each)))
    rows.append(over_seeds(f"loss in the end, nats, {of}", "-", _last(runs, "Loss", "cross_entropy")))
    for name in N_GRAMS:
        gaps = _last(runs, "LossAgainstReferences", "gap", reference=name)
        rows.append(over_seeds(f"loss in the end less the {name} model's, {of}", "-", gaps))
    first, *_ = tables
    if share != first:
        change = _last(runs, "Loss", "cross_entropy") - _last(tables[first], "Loss", "cross_entropy")
        rows.append(over_seeds(f"loss in the end less that of {100 * first:g}%, seed by seed, {of}", "-", change))
    return rows


def _by_seed(quantity: str, ours: Iterable[str]) -> dict[str, str]:
    texts = list(ours)
    return number(quantity, "-", "; ".join(texts), remark=f"seeds 0 to {len(texts) - 1}" if len(texts) > 1 else "")


def _first(onsets: pd.DataFrame, kind: str) -> str:
    """Name the first head of a kind and its half-way step; without one, say the largest mass."""
    named = _named(onsets, kind)
    if named is None:
        return f"none, mass {onsets.loc[onsets['kind'] == kind, 'largest'].max():.2f}"
    times = f"{named['t50']:.0f} [{named['t50_lo']:.0f}, {named['t50_hi']:.0f}]"
    return f"{head_label(int(named['layer']), int(named['head']))} {times}"


def _named(onsets: pd.DataFrame, kind: str) -> Mapping[Any, Any] | None:
    named = onsets[onsets["named"] & (onsets["kind"] == kind)].sort_values("t50", kind="stable")
    return next(iter(named.to_dict("records")), None)


def _without_first(table: pd.DataFrame, onsets: pd.DataFrame) -> str:
    first = _named(onsets, "induction")
    if first is None:
        return "none"
    ablation = {"kind": "mean", "layer": first["layer"], "head": first["head"], "control": "head"}
    last = select(table, "HeadAblation", "loss_change", **ablation).iloc[-1]
    return f"{last['value']:+.3f} [{last['lo']:+.3f}, {last['hi']:+.3f}]"


def _between(crossing: Crossing) -> str:
    return f"{crossing.lo:g} to {crossing.hi:g}" if crossing.seen else f"after {crossing.lo:g}"


def _last(runs: Mapping[int, pd.DataFrame], probe: str, quantity: str, **axes: object) -> np.ndarray:
    """Return the value at the last checkpoint of every seed."""
    return np.array([select(table, probe, quantity, **axes)["value"].iloc[-1] for table in runs.values()])


def _draw(tables: _Tables) -> Figure:
    """Draw the induction mass of the best head on text, a panel a seed."""
    seeds = list(next(iter(tables.values())))
    figure = Figure(figsize=(1 + 2.9 * len(seeds), 3), layout="constrained")
    panels = figure.subplots(1, len(seeds), sharey=True, squeeze=False)[0]
    colours = ordered_colours(list(tables))
    for seed, ax in zip(seeds, panels, strict=True):
        for i, (share, runs) in enumerate(tables.items()):
            mass = select(runs[seed], "AttentionTo", "along", relation="induction")
            best = mass.loc[mass.groupby("step")["value"].idxmax()]
            curve(ax, best, f"{100 * share:g}% repeat", colours[share], marker(i))
        set_step_axis(ax, mass["step"])
        ax.set_title(f"seed {seed}", loc="left", fontsize=10)
    panels[0].set(ylabel="induction mass of the best head", ylim=(0, None))
    label_ends(panels[-1])
    return figure
