"""The figures of incremental learning as sweeps: shared run folders, a row a run, averages over seeds."""

from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from tqdm.auto import tqdm

from stagewise.checkpoints import run_folder
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.incremental import markov
from stagewise.papers.incremental._shared_baselines import link_baselines, shared_baseline
from stagewise.papers.incremental._summary import run_numbers
from stagewise.papers.incremental.recipes import FIGURES, Run, runs, seeds_of
from stagewise.processes import worker_pool
from stagewise.recipe import Recipe
from stagewise.reporting import write_batch
from stagewise.tasks import MarkovChain
from stagewise.training import train

_ROUNDING = 8
"""Units of rounding of the largest weight that lie between heads that are one: after 8 steps of Adam those that start
1e-8 apart differ by 3 or 4, those that start 1e-6 apart by 50 or more."""


def distinct_heads(series: CheckpointSeries) -> int:
    """Return how many heads of the first layer differ in W_Q by more than rounding at the last checkpoint.

    Fewer than there are means that symmetry was not broken: the run shows nothing of the cooperative phase.
    """
    queries = series.weights(series.steps[-1])["blocks.0.attn.W_Q"]
    rounding = _ROUNDING * torch.finfo(queries.dtype).eps * float(queries.abs().max())
    representatives: list[Tensor] = []
    for query in queries:
        if all(float((query - other).abs().max()) > rounding for other in representatives):
            representatives.append(query)
    return max(len(representatives), 1)


def _run_recipe(
    recipe: Recipe, folder: Path, cache: Path | None = None, until: int | None = None, *, progress: bool = True
) -> pd.DataFrame:
    """Train a run, or resume it, measure its checkpoints and write its table.

    Args:
        recipe: on a `MarkovChain`.
        folder: the run folder.
        cache: where the sweep's restricted-context baselines are, to which the run folder then refers; None trains
            none, and compares with those that the folder refers to already.
        until: the step to end at for now, one that is saved.
        progress: show bars.

    Raises:
        ValueError: the folder belongs to another recipe.
    """
    series = train(recipe, folder, progress=progress, until=until)
    if not isinstance(recipe.task, MarkovChain):
        raise ValueError(f"this measures runs on MarkovChain, the recipe's task is {type(recipe.task).__name__}")
    _link_shared(recipe, folder, cache, progress)
    probes, batch = markov.few_probes(recipe.task, recipe.architecture), load_batch(recipe, folder)
    parts, table = folder / "tables" / "parts", folder / run_folder.TABLE
    rows = measure(series, probes, batch, folder=parts, save=table, progress=progress)
    write_batch(folder, batch)
    return rows


def _link_shared(recipe: Recipe, folder: Path, cache: Path | None, progress: bool) -> None:
    if cache is not None and isinstance(recipe.task, MarkovChain):
        contexts = recipe.task.contexts
        link_baselines(folder, {c: shared_baseline(recipe, c, cache, progress=progress) for c in contexts})


def run_sweep(
    sweep: Sequence[Run],
    folder: str | Path,
    *,
    restricted: bool = False,
    until: int | None = None,
    workers: int = 1,
    progress: bool = True,
) -> pd.DataFrame:
    """Train and measure every run of a sweep, each in its folder; what is finished is not done again.

    Args:
        sweep: the runs.
        folder: holds the run folders, and the shared baselines in `baselines`.
        restricted: whether to train restricted-context baselines to compare with.
        until: the step to end every run at for now, one that is saved.
        workers: processes, of one thread each; the baselines train before, in this one.
        progress: show bars.

    Returns:
        A row a run: `run`, `variant`, `seed`, its `folder`, the numbers of `run_numbers`, and `distinct_heads`.

    Raises:
        ValueError: a folder belongs to another recipe.
    """
    folder = Path(folder)
    cache = folder / "baselines" if restricted else None
    if workers > 1:
        _run_beside_each_other(sweep, folder, cache, until, workers, progress)
    rows: list[dict[str, Any]] = []
    for run in sweep:
        table = _run_recipe(run.recipe, folder / run.folder, cache, until, progress=progress)
        heads = distinct_heads(open_series(folder / run.folder, classes=[type(run.recipe.architecture.init)]))
        named = {"run": run.name, "variant": run.variant, "seed": run.seed, "folder": run.folder}
        rows.append({**named, **run_numbers(table, folder / run.folder), "distinct_heads": heads})
    return pd.DataFrame(rows)


def _run_beside_each_other(
    sweep: Sequence[Run], folder: Path, cache: Path | None, until: int | None, workers: int, progress: bool
) -> None:
    if cache is not None:  # two processes must not train the same baseline
        for run in sweep:
            _link_shared(run.recipe, folder / run.folder, cache, progress)
    recipes = {folder / run.folder: run.recipe for run in sweep}
    with worker_pool(workers) as pool:
        futures = [
            pool.submit(_run_recipe, recipe, path, until=until, progress=False) for path, recipe in recipes.items()
        ]
        for future in tqdm(as_completed(futures), total=len(futures), disable=not progress, unit="run"):
            future.result()


def run_figure(
    figure: str,
    folder: str | Path,
    setting: str = "small",
    seeds: Sequence[int] | None = None,
    *,
    restricted: bool | None = None,
    block: bool = False,
    until: int | None = None,
    workers: int = 1,
    progress: bool = True,
) -> pd.DataFrame:
    """Run all that a figure shows, for every seed, write `summary-FIGURE.csv` and return it.

    Args:
        figure: one of FIGURES.
        folder: holds the run folders; figures of one setting share it, and so the runs that they have in common.
        setting: "small" or "paper".
        seeds: of everything; None takes those of `seeds_of`.
        restricted: whether to train the shared baselines; None trains them where the figure shows them.
        block: whether the whole transformer has the paper's own block.
        until: the step to end every run at for now, one that is saved; the same call without it resumes.
        workers: processes, of one thread each.
        progress: show bars.

    Raises:
        ValueError: there is no such figure or setting, or a run folder belongs to another recipe.
    """
    sweep = runs(figure, setting, seeds if seeds is not None else seeds_of(figure, setting), block=block)
    baselines = FIGURES[figure].restricted if restricted is None else restricted
    summary = run_sweep(sweep, folder, restricted=baselines, until=until, workers=workers, progress=progress)
    path = Path(folder) / f"summary-{figure}{'-block' if block else ''}.csv"
    run_folder.write(path, lambda partial: summary.to_csv(partial, index=False))
    return summary
