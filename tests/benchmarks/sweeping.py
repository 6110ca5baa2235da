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

from stagewise import models
from stagewise.checkpoints.run_folder import read_checkpoint
from stagewise.experiments.incremental import markov
from stagewise.recipe import Recipe
from stagewise.sweeping import grid, sweep
from stagewise.training import train
from tests.benchmarks.timing import Row, ratio, timed_in_turn

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


ROWS = (sweep_minimal, sweep_full)


def _sweep(preset: str) -> Row:
    """Train the models both ways, the sweep's processes started anew each time."""
    folder = Path(tempfile.mkdtemp())
    _check(preset, folder / "few")
    settings = grid(preset=[preset], seed=list(range(MODELS)))

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
