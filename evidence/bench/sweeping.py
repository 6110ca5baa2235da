"""Many small models: a plain loop of HookedTransformer over stagewise's sweep, in wall time."""

import dataclasses
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from evidence.bench.timing import Row, ratio, timed_in_turn
from stagewise import models
from stagewise.checkpoints.run_folder import read_checkpoint
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.incremental import markov
from stagewise.papers.training_together import train_together
from stagewise.recipe import Recipe, Seeds
from stagewise.sweeping import parameter_grid, sweep
from stagewise.training import train

MODELS, BATCH = 16, 256
STEPS = {"minimal": 200, "full": 150}
"""Updates of a model, fewer than the presets have, so that a row takes some ten minutes."""

GOAL = 4.0

FEW, AGREE = 20, 1e-3
"""Steps after which both ways agree, and the norm of the weights' difference over that of their change at most: float32
sums come in another order, which Adam and training enlarge."""


def sweep_minimal() -> Iterator[Row]:
    """16 one-layer models of the `minimal` preset."""
    yield _sweep("minimal")


def sweep_full() -> Iterator[Row]:
    """16 models of the `full` preset."""
    yield _sweep("full")


def together_minimal() -> Iterator[Row]:
    """Models of the `minimal` preset in one process, one after another and together."""
    yield _together("minimal", _recipe("minimal", 0, 40))


def together_full() -> Iterator[Row]:
    """Models of the `full` preset."""
    yield _together("full", _recipe("full", 0, 40))


def together_recall() -> Iterator[Row]:
    """Two-layer models on associative recall, whose steps are mostly overhead of single operations."""
    recipe = recall_recipe(8, 64)
    yield _together(
        "2-layer recall", dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, steps=200, save=()))
    )


ROWS = (sweep_minimal, sweep_full, together_minimal, together_full, together_recall)


def _together(name: str, recipe: Recipe) -> Row:
    """Train the models both ways, on a GPU where there is one, saving the first and the last weights of each."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    plans = [dataclasses.replace(recipe.plan, seeds=Seeds(seed, seed, seed), save=()) for seed in range(MODELS)]
    recipes = [dataclasses.replace(recipe, plan=plan) for plan in plans]
    folder = Path(tempfile.mkdtemp())

    def one_by_one() -> None:
        shutil.rmtree(folder / "alone", ignore_errors=True)
        for number, each in enumerate(recipes):
            train(each, folder / "alone" / str(number), progress=False, device=device)

    def together() -> None:
        shutil.rmtree(folder / "together", ignore_errors=True)
        folders = [folder / "together" / str(number) for number in range(MODELS)]
        train_together(recipes, folders, progress=False, device=device)

    pairs = timed_in_turn(one_by_one, together, pairs=5)
    shutil.rmtree(folder)
    title = f"{MODELS} models one after another over together, {device}, {recipe.plan.steps} updates: {name}"
    return ratio(title, pairs, better="higher", clock="cpu" if device == "cpu" else "wall")


def _sweep(preset: str) -> Row:
    """Train the models both ways, the sweep's processes started anew each time."""
    folder = Path(tempfile.mkdtemp())
    _check(preset, folder / "few")
    settings = parameter_grid(preset=[preset], seed=list(range(MODELS)))

    def in_a_sweep() -> None:
        shutil.rmtree(folder / "sweep", ignore_errors=True)
        each = [{**setting, "folder": str(folder / "sweep" / str(setting["seed"]))} for setting in settings]
        sweep(trained, each, folder / "sweep", workers=2, progress=False)

    def in_a_loop() -> None:
        for setting in settings:
            torch.save(_loop(_recipe(**setting)), folder / f"{setting['seed']}.pt")

    pairs = timed_in_turn(in_a_loop, in_a_sweep, pairs=5, warm=False)
    shutil.rmtree(folder)
    name = f"plain loop of HookedTransformer over a sweep of {MODELS} models on two cores, wall time: {preset}"
    return ratio(name, pairs, GOAL, "higher", clock="wall")


def _check(preset: str, folder: Path) -> None:
    """Check that both ways train the same model."""
    recipe = _recipe(preset, 0, FEW)
    train(recipe, folder, progress=False)
    start, ours, theirs = read_checkpoint(folder, 0), read_checkpoint(folder, FEW), _loop(recipe)
    apart, moved = (
        sum(float((ours[name] - others[name]).square().sum()) ** 0.5 for name in ours) for others in (theirs, start)
    )
    assert apart <= AGREE * moved, f"weights differ by {apart / moved} of their change in {FEW} steps"


def trained(preset: str, seed: int, folder: str) -> Mapping[str, Any]:
    """Train one model of the sweep, saving its first and its last weights."""
    series = train(_recipe(preset, seed), folder, progress=False)
    return {"steps": series.steps[-1]}


def _recipe(preset: str, seed: int, steps: int | None = None) -> Recipe:
    recipe = markov.recipe(preset, seed)
    steps = STEPS[preset] if steps is None else steps
    return dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, steps=steps, batch_size=BATCH, save=()))


def _loop(recipe: Recipe) -> dict[str, torch.Tensor]:
    """Train a HookedTransformer as its users do, by its own forward pass, and return its weights."""
    plan = recipe.plan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = models.build(recipe.architecture, plan.seeds.init)  # a HookedTransformer with the same initial weights
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(parameters, plan.learning_rate, weight_decay=plan.weight_decay)
    stream = recipe.task.stream(plan.seeds.data)
    for step in range(plan.steps):
        batch = stream(step, plan.batch_size)
        logits = model(batch.tokens)
        loss = F.cross_entropy(logits[batch.scored], batch.targets[batch.scored])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, plan.clip or torch.inf)
        optimiser.step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}
