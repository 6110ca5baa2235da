"""Train several recipes as one batched step: parameters stacked on an axis `run`, each run in a folder of its own."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.loss import training_loss
from stagewise.recipe import Recipe, describe, differences
from stagewise.training import (
    Dtype,
    Metrics,
    Training,
    check_finite,
    checkpoints_saved,
    is_finished,
    optimiser_of,
    prepare,
    products_in,
    resume,
)

_EPSILON = 1e-6
"""Added to a norm before it divides, as torch.nn.utils.clip_grad_norm_ does."""

_EXAMPLES = 8
"""Sequences of each run by which it is known whether all score the same predictions."""


class _Rule(NamedTuple):
    """Runs of a stack that one optimiser updates, at its rates."""

    runs: slice
    recipe: Recipe
    parameters: dict[str, nn.Parameter]
    optimiser: torch.optim.Optimizer
    rates: list[float]

    def step(self, step: int, gradients: Mapping[str, Tensor | None]) -> None:
        """Update the runs' part of the stack, which the parameters are views of."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group |= {name: value for name, value in self.recipe.rates(rate, step).items() if name in group}
        for name, parameter in self.parameters.items():
            gradient = gradients[name]
            parameter.grad = None if gradient is None else gradient[self.runs]
        self.optimiser.step()


class _Stack:
    """The parameters of several runs [run ...] by name, and what updates them.

    Runs with the same rule (see `rule_of`) stand side by side, for one optimiser.
    """

    def __init__(self, runs: Sequence[tuple[Recipe, Training]], dtype: Dtype) -> None:
        """Stack the parameters as they are now."""
        self.runs, self.dtype, predict = runs, dtype, runs[0][1].forward.of
        assert predict is not None
        self.predict = predict
        each = [models.parameters(training.model) for _, training in runs]
        self.weights = {name: torch.stack([one[name].detach() for one in each]) for name in each[0]}
        for name, stacked in self.weights.items():
            stacked.requires_grad_(each[0][name].requires_grad)
        clips = [torch.inf if recipe.plan.clip is None else recipe.plan.clip for recipe, _ in runs]
        self.clip = torch.tensor(clips, device=next(iter(self.weights.values())).device)
        self.clips = min(clips) < torch.inf
        rules = [_rule_of(recipe) for recipe, _ in runs]
        self.rules = [
            self._rule(slice(rules.index(rule), rules.index(rule) + rules.count(rule))) for rule in dict.fromkeys(rules)
        ]

    def _rule(self, runs: slice) -> _Rule:
        recipe, _ = self.runs[runs.start]
        views = {
            name: nn.Parameter(stacked.detach()[runs], stacked.requires_grad) for name, stacked in self.weights.items()
        }
        optimiser = optimiser_of(views, recipe.plan)
        return _Rule(runs, recipe, views, optimiser, [group["lr"] for group in optimiser.param_groups])

    def update(self, step: int) -> tuple[list[float], list[float]]:
        """Take one step of every run; return their losses, and the norms of their gradients before clipping."""
        for stacked in self.weights.values():
            stacked.grad = None
        losses = self._losses(step)
        # Not autograd.grad: only what is accumulated has the parameters' own layout, which fused optimisers read.
        losses.sum().backward()  # type: ignore[no-untyped-call]
        gradients = {name: stacked.grad for name, stacked in self.weights.items()}
        there = [gradient for gradient in gradients.values() if gradient is not None]
        norms = torch.cat([gradient.flatten(1) for gradient in there], 1).norm(dim=1)
        if self.clips:
            factor = (self.clip / (norms + _EPSILON)).clamp(max=1.0)
            for gradient in there:
                gradient *= factor.view(-1, *[1] * (gradient.ndim - 1))
        for rule in self.rules:
            rule.step(step, gradients)
        first, second = torch.stack([losses.detach(), norms]).tolist()  # one wait for the device
        return first, second

    def _losses(self, step: int) -> Float[Tensor, " run"]:
        """Return the loss of each run on its own batch of a step."""
        batches = [training.batch_at(step) for _, training in self.runs]
        scored = batches[0].scored
        if not all(torch.equal(batch.scored, scored) for batch in batches):
            raise ValueError(
                f"the tasks score other predictions in each run at step {step}, and runs that are trained together "
                "score the same ones: train them by themselves"
            )
        tokens = torch.stack([batch.tokens for batch in batches]).to(self.clip.device)
        targets = torch.stack([batch.targets[scored] for batch in batches]).to(self.clip.device)

        def loss(weights: Mapping[str, Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
            with products_in(self.dtype, tokens.device):
                predictions = self.predict(weights, tokens, scored)
            return training_loss(predictions.float(), targets)

        losses: Tensor = torch.func.vmap(loss)(self.weights, tokens, targets)
        return losses

    @torch.no_grad()
    def put(self, number: int) -> None:
        """Copy a run's model and the state of its optimiser into the stack."""
        _, training = self.runs[number]
        for name, parameter in models.parameters(training.model).items():
            self.weights[name][number] = parameter
        rule, row = self._place(number)
        for stacked, own in _paired_parameters(rule.optimiser, training.optimiser):
            for key, value in training.optimiser.state.get(own, {}).items():
                state = rule.optimiser.state[stacked]
                if value is None:  # no momentum
                    state[key] = None
                elif key == "step":  # the same for all
                    state[key] = value.clone()
                else:
                    state.setdefault(key, value.new_zeros(stacked.shape))[row] = value

    @torch.no_grad()
    def take(self, number: int) -> None:
        """Copy a run's part of the stack into its model and its optimiser."""
        _, training = self.runs[number]
        for name, parameter in models.parameters(training.model).items():
            parameter.copy_(self.weights[name][number])
        rule, row = self._place(number)
        for stacked, own in _paired_parameters(rule.optimiser, training.optimiser):
            for key, value in rule.optimiser.state.get(stacked, {}).items():
                part = value if value is None or key == "step" else value[row]
                training.optimiser.state[own][key] = None if part is None else part.clone()
        for theirs, group in zip(rule.optimiser.param_groups, training.optimiser.param_groups, strict=True):
            group["lr"] = theirs["lr"]

    def _place(self, number: int) -> tuple[_Rule, int]:
        """Return the rule of a run, and the run's number in it."""
        rule = next(rule for rule in self.rules if rule.runs.start <= number < rule.runs.stop)
        return rule, number - rule.runs.start


def _paired_parameters(stacked: torch.optim.Optimizer, own: torch.optim.Optimizer) -> Iterator[tuple[Tensor, Tensor]]:
    """Pair the parameters of a stack with those of one of its runs."""
    for theirs, group in zip(stacked.param_groups, own.param_groups, strict=True):
        yield from zip(theirs["params"], group["params"], strict=True)


def _rule_of(recipe: Recipe) -> str:
    """Return the settings that decide an optimiser's updates, as text."""
    fields = ("optimiser", "learning_rate", "warmup", "cooldown", "weight_decay", "momentum", "rates")
    schedules = {path: schedule for path, schedule in (recipe.schedules or {}).items() if path.startswith("plan.")}
    return json.dumps(describe({**{field: getattr(recipe.plan, field) for field in fields}, **schedules}))


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
    begun = any(_begun(folder) for _, folder in unfinished)
    with contextlib.ExitStack() as locks:
        for _, folder in unfinished:
            locks.enter_context(run_folder.held(folder, "trains"))
        runs = _runs(given if begun else unfinished, unfinished, device, dtype) if unfinished else []
        diverged = _train(runs, dtype, progress) if runs else []
    if diverged:
        raise RunsDiverged({run.folder: run.failure for run in diverged})
    return [open_series(folder, classes=[type(recipe.architecture.init)]) for recipe, folder in given]


def _begun(folder: Path) -> bool:
    """Whether a run's newest state is that of one of several that are trained together."""
    path = folder / run_folder.RESUME
    return path.exists() and "together" in run_folder.read_resume(path)


@dataclasses.dataclass
class _Run:
    """A run, which counts from its `start` on, and until it fails: else it only keeps its place in the stack."""

    recipe: Recipe
    folder: Path
    training: Training
    start: int
    metrics: list[Metrics]
    failure: str = ""

    def counts(self, step: int) -> bool:
        """Whether it is trained and saved at a step."""
        return self.start <= step and not self.failure

    def saves(self, step: int) -> bool:
        """Whether it writes the checkpoint of a step."""
        return self.counts(step) and step in self.recipe.plan.saved_steps

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


def _runs(
    given: Sequence[tuple[Recipe, Path]], unfinished: Sequence[tuple[Recipe, Path]], device: str, dtype: Dtype
) -> list[_Run]:
    """Prepare the runs, those with the same rule of updates side by side, and load what they resume from."""
    rules = [_rule_of(recipe) for recipe, _ in given]
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
            state = (run.training.model, run.training.optimiser, run.training.way)
            run.start, run.metrics = resume(run.folder, run.recipe.plan, *state)
    return runs


def _train(runs: Sequence[_Run], dtype: Dtype, progress: bool) -> list[_Run]:
    """Train the runs to the end, saving each at its steps; return those that diverged."""
    stack = _Stack([(run.recipe, run.training) for run in runs], dtype)
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
