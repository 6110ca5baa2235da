"""Separately trained restricted-context models: their recipes, their training, and their use as references."""

import concurrent.futures
import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.architecture import resized
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.json_files import read_json
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.processes import worker_pool
from stagewise.recipe import Recipe
from stagewise.task import AbstractTask, Batch
from stagewise.tasks.windows import Windows, window_positions, window_scored
from stagewise.training import train

Contexts = bool | Sequence[int]
"""Baselines to train: none (False), those of the task's contexts (True), or those of the contexts given."""

WINDOWS_A_SEQUENCE = 3
"""Windows in a batch, for each sequence in a batch of the full model."""

NUMBERS = 5 * 10**7
"""Log-probabilities of windows that are in memory at once."""

FOLDER = "restricted"
"""In a run folder: the folder of its baselines, each in a run folder named by its context."""

LINKS = "restricted/shared.json"
"""In a run folder: the paths of baselines that it shares with others, by context, relative to it."""


def restricted_contexts(task: AbstractTask) -> tuple[int, ...]:
    """Return the contexts to train baselines for: those that the task names, or the powers of two below its length."""
    if task.contexts is not None:
        return task.contexts
    return tuple(2**power for power in range(task.n_ctx.bit_length()) if 2**power < task.n_ctx)


def restricted_recipe(recipe: Recipe, context: int) -> Recipe:
    """Return the recipe of a model of the same kind that sees the last `context` tokens only, positions from 0.

    It trains as long as the full model and at its rate: a baseline must have passed all its own stages.

    Args:
        recipe: of the full model.
        context: number of tokens it sees.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the restricted-context transformers of Figures 3 and 5.
    """
    task = Windows(recipe.task, context)
    plan = dataclasses.replace(
        recipe.plan, batch_size=WINDOWS_A_SEQUENCE * recipe.plan.batch_size, save=(0, recipe.plan.steps)
    )
    return Recipe(task, resized(recipe.architecture, context), plan)


def train_restricted(recipe: Recipe, folder: Path) -> Path:
    """Train a baseline without a progress bar; return its folder."""
    train(recipe, folder, progress=False)
    return folder


def chosen_contexts(recipe: Recipe, restricted: Contexts) -> tuple[int, ...]:
    """Return the contexts of the requested baselines, checked before anything is trained.

    Raises:
        ValueError: a context that the task's sequences do not have, or a regression, which has no tokens.
    """
    task = recipe.task
    if restricted is False:
        return ()
    contexts = restricted_contexts(task) if restricted is True else tuple(restricted)
    if contexts and task.sample(1, recipe.plan.seeds.data).is_regression:
        raise ValueError(
            f"restricted-context models are trained on tasks of tokens; {type(task).__name__} is a regression: "
            "leave them out"
        )
    if outside := [context for context in contexts if not 1 <= context <= task.n_ctx]:
        raise ValueError(f"a context is between 1 and the task's {task.n_ctx} positions, got {outside[0]}")
    return contexts


@contextlib.contextmanager
def baselines_beside(
    recipe: Recipe, folder: Path, contexts: Sequence[int], executor: concurrent.futures.Executor | None = None
) -> Iterator[None]:
    """Train the baselines of a run folder in other processes, without an executor in one, during the `with` block."""
    if not contexts:
        yield
        return

    def begin() -> list[concurrent.futures.Future[Path]]:
        return [
            pool.submit(train_restricted, restricted_recipe(recipe, context), folder / FOLDER / str(context))
            for context in contexts
        ]

    # A thread waits until the first worker has imported torch, and not this one, which imports as much meanwhile.
    processes = worker_pool(1) if executor is None else contextlib.nullcontext(executor)
    with processes as pool, concurrent.futures.ThreadPoolExecutor(1) as thread:
        begun = thread.submit(begin)
        yield
        for baseline in begun.result():
            baseline.result()


def restricted_log_probs(series: CheckpointSeries, batch: Batch) -> Float[Tensor, "batch pos token"]:
    """Return the log-probabilities of the last checkpoint of a restricted-context model at each scored position, nats.

    Positions that are not scored hold the uniform distribution.
    """
    context, d_vocab = series.architecture.config["n_ctx"], series.architecture.config["d_vocab"]
    model = models.unloaded(series.architecture)
    models.load(model, series.weights(series.steps[-1]))
    log_probs = torch.full((*batch.tokens.shape, d_vocab), -math.log(d_vocab))
    at_once = max(1, NUMBERS // (batch.tokens.shape[1] * context * d_vocab))
    for rows in torch.split(torch.arange(len(batch)), at_once):
        part = batch[rows]
        positions, scored = window_positions(part, context), window_scored(part, window_positions(part, context))
        sequence = positions.sequence[:, None].expand_as(positions.position)
        predicted, _ = models.clean_pass(model, part.tokens[sequence, positions.position], hooks=())
        log_probs[rows[sequence[scored]], positions.position[scored]] = predicted[scored]
    return log_probs


def with_baselines(batch: Batch, folders: Mapping[int, Path]) -> Batch:
    """Return the batch with the trained baselines, by context, among its references as "trained c=2", ..."""
    contexts = {f"trained c={c}": c for c in folders}
    trained = {name: restricted_log_probs(open_series(folders[c]), batch) for name, c in contexts.items()}
    return batch.with_references(trained, contexts)


def trained_baselines(folder: Path) -> dict[int, Path]:
    """Return, by context, a run folder's baselines that are trained to the end: its own, and the shared ones.

    Raises:
        FileNotFoundError: a shared one is missing.
    """
    unshared = {int(path.name): path for path in (folder / FOLDER).glob("[0-9]*")}
    finished = {c: path for c, path in {**linked_baselines(folder), **unshared}.items() if run_folder.is_finished(path)}
    return dict(sorted(finished.items()))


def link_baselines(folder: Path, baselines: Mapping[int, Path]) -> None:
    """Let a run folder refer to shared baselines, by context, so that a later measurement compares with them."""
    links = {str(c): os.path.relpath(path, folder) for c, path in sorted(baselines.items())}
    run_folder.write_json(folder / LINKS, links)


def linked_baselines(folder: Path) -> dict[int, Path]:
    """Return the shared baselines that a run folder refers to, by context; none where it refers to none.

    Raises:
        FileNotFoundError: one is missing.
        ValueError: the file that refers to them is damaged.
    """
    if not (folder / LINKS).exists():
        return {}
    links = read_json(folder / LINKS, "restore it, or delete it to compare with no baselines")
    baselines = {int(c): folder / path for c, path in links.items()}
    if missing := [str(path) for path in baselines.values() if not path.exists()]:
        raise FileNotFoundError(
            f"{folder / LINKS} refers to missing baselines: {', '.join(missing)}. Put them back, run the "
            "figure's command again, or delete that file to compare with none"
        )
    return baselines
