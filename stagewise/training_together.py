"""Train several recipes as one batched step: parameters stacked on an axis `run`, each run in a folder of its own."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from stagewise.checkpoints import run_folder
from stagewise.checkpoints._requests import requested
from stagewise.checkpoints._training_state import Metrics, begun_together, leaves_parent, resume
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.recipe import Recipe, describe, differences
from stagewise.stacked_training import Stack, rule_of
from stagewise.training import Dtype, Training, check_finite, checkpoints_saved, is_finished, prepare

_EXAMPLES = 8
"""Sequences of each run by which it is known whether all score the same predictions."""


class RunsDiverged(FloatingPointError):  # noqa: N818 - named by what happened
    """Some of the runs that were trained together diverged; the others are finished.

    Args:
        reasons: why, by run folder.
    """

    def __init__(self, reasons: Mapping[Path, str]) -> None:
        """Name the folders in the message, and keep the reasons."""
        super().__init__("\n".join(f"{folder}: {reason}" for folder, reason in reasons.items()))
        self.reasons = reasons


def train_together(
    recipes: Sequence[Recipe],
    folders: Sequence[str | Path],
    *,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> list[CheckpointSeries]:
    """Train several recipes as one batched step, each into its own run folder, and return their series.

    Architecture, number of steps, batch size and shape of sequences are the same for all; seeds, rates, optimisers,
    saved steps and parameters of the task may differ. Each folder holds what `train` writes. Sums come in another order
    than in `train`, and in another one for each number of runs, so that weights agree to rounding; the state to resume
    from records it. Where none of the unfinished runs has begun, those that are finished are left out; else give the
    same recipes in the same order, and the bits are those of runs that were never stopped.

    Args:
        recipes: of runs with the same shape.
        folders: a run folder for each, created if missing.
        progress: show a bar with the mean loss.
        device: where to train.
        dtype: of matrix products, as in `train`.

    Raises:
        ValueError: recipes that do not fit together, or that only `train` trains: with heads held, gradients averaged
            over heads, or a config that its fused pass does not cover; a folder that was begun in another way; or an
            error of `train`.
        RunsDiverged: the loss or a weight of some is not finite, and no such checkpoint is written; the others are
            finished.
        BlockingIOError: another process trains in a folder.
        OSError: a file could not be written; what was written before remains.
    """
    given = [(recipe, Path(folder)) for recipe, folder in zip(recipes, folders, strict=True)]
    _check_shapes(given)
    unfinished = [each for each in given if not is_finished(*each)]
    begun = any(begun_together(folder) for _, folder in unfinished)
    with contextlib.ExitStack() as locks:
        for _, folder in unfinished:
            locks.enter_context(run_folder.held(folder, "trains"))
        runs = _runs(given if begun else unfinished, unfinished, device, dtype) if unfinished else []
        diverged = _train(runs, dtype, progress) if runs else []
    if diverged:
        raise RunsDiverged({run.folder: run.failure for run in diverged})
    return [open_series(folder, classes=[type(recipe.architecture.init)]) for recipe, folder in given]


def fitting(recipes: Sequence[Recipe], most: int) -> list[list[int]]:
    """Return the numbers of the recipes that can be trained together, in groups of two to `most`."""
    alike: dict[str, list[int]] = {}
    for number, recipe in enumerate(recipes):
        alike.setdefault(json.dumps(_shape(recipe)), []).append(number)
    groups = []
    for numbers in alike.values():
        free = [number for number in numbers if not recipes[number].plan.clamps]
        if len(free) > 1 and _refusal(recipes[free[0]], prepare(recipes[free[0]])) is None:
            groups += [free[start : start + most] for start in range(0, len(free), most)]
    return [group for group in groups if len(group) > 1]


@dataclasses.dataclass
class _Run:
    """A run, which counts from its `start` on, and until it fails: else it only keeps its place in the stack."""

    recipe: Recipe
    folder: Path
    training: Training
    start: int
    metrics: list[Metrics]
    failure: str = ""
    asked: frozenset[int] = frozenset()

    def counts(self, step: int) -> bool:
        """Whether it is trained and saved at a step."""
        return self.start <= step and not self.failure

    def saves(self, step: int) -> bool:
        """Whether it writes the checkpoint of a step."""
        return self.counts(step) and (step in self.recipe.plan.saved_steps or step in self.asked)

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """End this run alone where it diverges."""
        try:
            yield
        except FloatingPointError as reason:
            self.failure = f"{reason}. {checkpoints_saved(self.folder, self.recipe.plan, self.metrics)}"

    def record(self, step: int, loss: float, norm: float) -> None:
        """Keep the numbers of an update."""
        with self.ending():
            self.metrics.append({"step": step, "loss": loss, "gradient_norm": norm})
            check_finite(step, loss, norm)

    def save(self, step: int) -> None:
        """Write the checkpoint of a step, as `train` does."""
        with self.ending():
            self.training.save(self.folder, self.recipe.plan, step, self.metrics)
        self.asked = requested(self.folder)


def _runs(
    given: Sequence[tuple[Recipe, Path]], unfinished: Sequence[tuple[Recipe, Path]], device: str, dtype: Dtype
) -> list[_Run]:
    """Prepare the runs, those with the same rule of updates side by side, and load what they resume from."""
    rules = [rule_of(recipe) for recipe, _ in given]
    sorted_runs = [each for _, each in sorted(zip(map(rules.index, rules), given, strict=True), key=lambda one: one[0])]
    runs = []
    for number, (recipe, folder) in enumerate(sorted_runs):
        training = prepare(recipe, device, dtype)
        if (refusal := _refusal(recipe, training)) is not None:
            raise ValueError(f"{folder} cannot be trained together with others, since {refusal}: train it by itself")
        training = training._replace(way={**training.way, "together": f"{number + 1} of {len(given)}"})
        runs.append(_Run(recipe, folder, training, recipe.plan.steps + 1, []))
    for run in runs:
        if (run.recipe, run.folder) in unfinished:
            run_folder.claim(run.folder, run.recipe)
            alone = leaves_parent(run.folder) and not begun_together(run.folder)
            way = {name: value for name, value in run.training.way.items() if not (alone and name == "together")}
            state = (run.training.model, run.training.optimiser, way)
            run.start, run.metrics = resume(run.folder, run.recipe.plan, *state)
            run.asked = requested(run.folder)
    return runs


def _train(runs: Sequence[_Run], dtype: Dtype, progress: bool) -> list[_Run]:
    """Train the runs to the end, saving each at its steps; return those that diverged."""
    stack = Stack([(run.recipe, run.training) for run in runs], dtype)
    first, last = min(run.start for run in runs), runs[0].recipe.plan.steps
    with tqdm(total=last, initial=first, disable=not progress, desc=f"{len(runs)} runs", unit="step") as bar:
        for step in range(first, last + 1):
            for number, run in enumerate(runs):
                if run.start == step:
                    stack.put(number)
                if run.saves(step):
                    stack.take(number)
                    run.save(step)
            if step == last or all(run.failure or run.start > last for run in runs):
                break
            losses, norms = stack.update(step)
            for run, loss, norm in zip(runs, losses, norms, strict=True):
                if run.counts(step):
                    run.record(step, loss, norm)
            bar.update()
            bar.set_postfix(loss=f"{sum(losses) / len(losses):.3f}", refresh=False)
    return [run for run in runs if run.failure]


def _shape(recipe: Recipe) -> dict[str, Any]:
    """Return the common settings of runs that are trained together."""
    plan, schedules = recipe.plan, recipe.schedules or {}
    batch = recipe.task.sample(_EXAMPLES, plan.seeds.data)
    return {
        "architecture": describe(recipe.architecture),
        "plan": {"steps": plan.steps, "batch_size": min(plan.batch_size, recipe.task.n_sequences or plan.batch_size)},
        "sizes": describe({path: schedules.get(path) for path in ("plan.batch_size", "task.n_sequences")}),
        "tokens": [str(batch.tokens.dtype), *batch.tokens.shape[1:]],
        "targets": [str(batch.targets.dtype), *batch.targets.shape[1:]],
        "scored": batch.scored.tolist(),
    }


def _check_shapes(given: Sequence[tuple[Recipe, Path]]) -> None:
    if len({folder.resolve() for _, folder in given}) < max(len(given), 1):
        raise ValueError(
            f"give one recipe or more, and each a folder of its own; got {[str(path) for _, path in given]}"
        )
    first, *others = [_shape(recipe) for recipe, _ in given]
    for shape, (_, folder) in zip(others, given[1:], strict=True):
        if different := differences(shape, first):
            apart = "\n  ".join(
                f"{each.field}: {each.requested} here, {each.recorded} in {given[0][1]}" for each in different
            )
            raise ValueError(f"{folder} does not fit to what it is trained together with:\n  {apart}")


def _refusal(recipe: Recipe, training: Training) -> str | None:
    """Say why `train` alone trains a recipe; None where it can be one of several."""
    if recipe.plan.clamps:
        return "its plan holds heads"
    if recipe.architecture.init.averaged:
        return "its gradients are averaged over heads"
    return None if training.forward.of is not None else "the fused pass of training does not cover its config"
