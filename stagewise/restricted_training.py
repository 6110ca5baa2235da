"""Restricted-context models beside a run: which are trained, and their training in other processes."""

import concurrent.futures
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from stagewise.checkpoints.run_folder import RESTRICTED
from stagewise.processes import worker_pool
from stagewise.recipe import Recipe
from stagewise.tasks.windows import restricted_contexts, restricted_recipe
from stagewise.training import train

Contexts = bool | Sequence[int] | None
"""Baselines to train: none (False), those of the task's contexts (True), or those of the contexts given; None trains
them where the task names contexts for them."""


def _train_restricted(recipe: Recipe, folder: Path) -> Path:
    """Train a baseline without a progress bar; return its folder."""
    train(recipe, folder, progress=False)
    return folder


def chosen_contexts(recipe: Recipe, restricted: Contexts) -> tuple[int, ...]:
    """Return the contexts of the requested baselines, checked before anything is trained."""
    task = recipe.task
    if restricted is None:
        restricted = task.contexts is not None
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
            pool.submit(_train_restricted, restricted_recipe(recipe, context), folder / RESTRICTED / str(context))
            for context in contexts
        ]

    # A thread waits until the first worker has imported torch, and not this one, which imports as much meanwhile.
    processes = worker_pool(1) if executor is None else contextlib.nullcontext(executor)
    with processes as pool, concurrent.futures.ThreadPoolExecutor(1) as thread:
        begun = thread.submit(begin)
        yield
        for baseline in begun.result():
            baseline.result()
