"""Restricted-context baselines that the runs of a sweep share: trained once, stored under the hash of their recipe."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from stagewise.architectures import OneHotInit
from stagewise.checkpoints import run_folder, short_digest
from stagewise.checkpoints.run_folder import SHARED
from stagewise.recipe import Recipe, Seeds
from stagewise.tasks import MarkovChain
from stagewise.tasks.windows import restricted_recipe
from stagewise.training import train

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
    baseline = baseline_recipe(recipe, context)
    folder = cache / short_digest(baseline)
    train(baseline, folder, progress=progress)
    return folder


def link_baselines(folder: Path, baselines: Mapping[int, Path]) -> None:
    """Let a run folder refer to shared baselines, by context, so that a later measurement compares with them."""
    links = {str(c): os.path.relpath(path, folder) for c, path in sorted(baselines.items())}
    run_folder.write_json(folder / SHARED, links)
