"""Restricted-context baselines that the runs of a sweep share: trained once, found by the hash of their recipe."""

import dataclasses
import os
from pathlib import Path

from stagewise.architecture import OneHotInit
from stagewise.checkpoints.digest import short_digest
from stagewise.checkpoints.json_files import read_json
from stagewise.checkpoints.run_folder import write_json
from stagewise.experiments.incremental.restricted_context import restricted_recipe
from stagewise.recipe import Recipe, Seeds
from stagewise.tasks import MarkovChain
from stagewise.training import train

LINKS = "restricted/shared.json"
"""In a run folder: where the baselines are that it shares with others, by context, relative to it."""

DATA = 20_000
"""Sequences that a baseline trains on, at least: it must stand for a short context, not for a lack of data."""


def baseline_recipe(recipe: Recipe, context: int) -> Recipe:
    """Return the recipe of the baseline for a run: the same for runs that differ in data, initial scale or seeds.

    Args:
        recipe: of the run, on a `MarkovChain`.
        context: number of tokens that the baseline sees.

    Raises:
        ValueError: the run is on another task.
    """
    task, architecture = recipe.task, recipe.architecture
    if not isinstance(task, MarkovChain):
        raise ValueError(f"baselines are made for runs on MarkovChain, this one is on {type(task).__name__}")
    enough = max(task.n_sequences or 0, DATA)
    if isinstance(architecture.init, OneHotInit):
        architecture = dataclasses.replace(architecture, init=OneHotInit())
    plan = dataclasses.replace(recipe.plan, seeds=Seeds())
    return restricted_recipe(Recipe(dataclasses.replace(task, n_sequences=enough), architecture, plan), context)


def shared_baseline(recipe: Recipe, context: int, cache: Path, *, progress: bool = True) -> Path:
    """Train a run's baseline, or find it trained, and return its run folder: `cache` / hash of its recipe."""
    wanted = baseline_recipe(recipe, context)
    folder = cache / short_digest(wanted)
    train(wanted, folder, progress=progress)
    return folder


def link_baselines(folder: Path, baselines: dict[int, Path]) -> None:
    """Let a run folder refer to shared baselines, by context, so that measuring it anew compares with them."""
    write_json(folder / LINKS, {str(c): os.path.relpath(path, folder) for c, path in sorted(baselines.items())})


def linked_baselines(folder: Path) -> dict[int, Path]:
    """Return the shared baselines that a run folder refers to, by context; none where it refers to none.

    Raises:
        FileNotFoundError: one is not where it was.
        ValueError: the file that refers to them is damaged.
    """
    if not (folder / LINKS).exists():
        return {}
    links = read_json(folder / LINKS, "restore it, or delete it to compare with no baselines")
    found = {int(c): folder / path for c, path in links.items()}
    if missing := [str(path) for path in found.values() if not path.exists()]:
        raise FileNotFoundError(
            f"{folder / LINKS} refers to baselines that are not there: {', '.join(missing)}. Put them back, run the "
            "figure's command again, or delete that file to compare with none"
        )
    return found
