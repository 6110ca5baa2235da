"""Train a recipe into a run folder; a killed run resumes and gives the same bits as one that was never killed."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints import Metrics as Metrics
from stagewise.checkpoints import digest, is_complete, run_folder, save
from stagewise.checkpoints import resume as resume
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.init import by_pattern, check_trained_here, matching
from stagewise.loss import training_loss
from stagewise.models import Clamps, TrainingPass, check_device, check_dtype, targets, training_pass
from stagewise.models import Dtype as Dtype
from stagewise.models import products_in as products_in
from stagewise.prediction_classes import without_classes
from stagewise.recipe import Recipe, TrainPlan
from stagewise.task import TRAINING, Batch, derive_seed

Log = Callable[[Metrics], object]
"""A function that takes the numbers of an update, by name."""

_STEADIER = "lower the learning rate or clip the gradient"
"""Advice where training diverges."""


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
    log: Log | None = None,
    until: int | None = None,
) -> CheckpointSeries:
    """Train a recipe, saving checkpoints and metrics in `folder`, and return the series.

    A folder that holds an unfinished run of the same recipe is continued; a finished one is opened as it is.

    Args:
        recipe: task, architecture and plan.
        folder: the run folder, created if missing.
        progress: show a bar with the loss and the steps a second.
        device: where to train.
        dtype: of matrix products. Weights, their updates and reductions are in float32 either way; under "bfloat16"
            torch's autocast chooses what is taken in which.
        log: called with the step, the loss and the gradient norm of every update, as `wandb.log` can be.
        until: the step to end at for now, one that is saved; the same call without it resumes.

    Raises:
        ValueError: there is no such device or dtype here; another command trains such a model; the folder holds a run
            of another recipe, a damaged file, or an unfinished run that another version, or another dtype, began and
            this one cannot resume; or `plan.rates` names no parameter.
        FloatingPointError: the loss or a weight is not finite; no such checkpoint is written, those before it remain.
        BlockingIOError: another process trains in the folder.
        OSError: a file could not be written; what was written before remains.
    """
    folder = Path(folder)
    if is_finished(recipe, folder):
        run_folder.remove_leftovers(folder, within=True)
    else:
        with run_folder.held(folder, "trains"):
            _train(recipe, folder, progress, device, dtype, log, recipe.plan.steps if until is None else until)
    return open_series(folder, classes=[type(recipe.architecture.init)])


def is_finished(recipe: Recipe, folder: Path) -> bool:
    """Whether nothing is left to train; the errors are those of `train`."""
    if not (folder / run_folder.RUN).exists():
        return False
    run_folder.claim(folder, recipe)
    return is_complete(folder, recipe.plan)


class Training(NamedTuple):
    """A recipe's model and what trains it, the same for a first training, a resumed one and a replay.

    `optimiser`, `loss_at`, `adjust` and `clip` are as in `descend`; `way` is as in `training_state.save`; `batch_at` is
    that of `Recipe.batches` less `plan.leave_out`, and `forward` the pass that `loss_at` takes; `alike` names the
    parameters in which heads stay one.
    """

    model: models.Model
    optimiser: torch.optim.Optimizer
    loss_at: Callable[[int], Float[Tensor, ""]]
    adjust: Callable[[int], None]
    clip: float | None
    clamps: Clamps
    way: Mapping[str, object]
    batch_at: Callable[[int], Batch]
    forward: TrainingPass
    alike: Sequence[str]

    def steps(self, start: int, stop: int, metrics: list[Metrics]) -> Iterator[int]:
        """Train from one step to another: see `descend`."""
        how: Any = {"clip": self.clip, "adjust": self.adjust, "metrics": metrics}
        for step in descend(self.optimiser, self.loss_at, start, stop, **how):
            self.clamps.restore()
            models.keep_heads_alike(self.model, self.alike, self.clamps.parted)
            yield step
            self.clamps.begin(step)

    def save(self, folder: Path, plan: TrainPlan, step: int, metrics: list[Metrics]) -> None:
        """Write the checkpoint of a step, unless a weight or the loss is not finite: see `_check_model`."""
        _check_model(step, self.model, self.loss_at)
        states = plan.state_steps(sum(each.numel() for each in self.model.parameters()))
        save(folder, step, self.model, self.optimiser, metrics, self.way, replayed=step in states)


def prepare(recipe: Recipe, device: str = "cpu", dtype: Dtype = "float32") -> Training:
    """Build the model of a recipe and what trains it; the errors are those of `train`."""
    check_device(device)
    check_dtype(dtype)
    plan, init = recipe.plan, recipe.architecture.init
    model = models.build(recipe.architecture, plan.seeds.init, device)
    optimiser = optimiser_of(models.parameters(model), plan)
    check_trained_here(init)
    alike = [name for pattern in init.averaged for name in matching(list(models.parameters(model)), pattern)]
    held = plan.clamps or ()
    clamps = Clamps(model, held, targets(recipe.task, held))
    rates = [group["lr"] for group in optimiser.param_groups]

    def adjust(step: int) -> None:
        models.average_over_heads(model, alike, clamps.parted)
        clamps.without_gradients()
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group |= {name: value for name, value in recipe.rates(rate, step).items() if name in group}

    stream = recipe.batches()

    def batch_at(step: int) -> Batch:
        left_out = recipe.at(step).plan.leave_out
        return without_classes(stream(step), left_out) if left_out else stream(step)

    example = recipe.task.sample(8, plan.seeds.data).to(device)
    example.check_ids(recipe.architecture.config["d_vocab"], outputs=recipe.architecture.n_outputs)
    module: Any = model
    module.train(init.draws)

    def loss_at(step: int) -> Tensor:
        batch = batch_at(step).to(device)
        with products_in(dtype, device), torch.random.fork_rng(devices=[], enabled=init.draws):
            if init.draws:
                torch.manual_seed(derive_seed(plan.seeds.data, TRAINING, step, 0))
            predictions = forward.predict(batch.tokens, batch.scored)
        return training_loss(predictions.float(), batch.targets[batch.scored])

    # Chosen on the initial weights, before any are loaded: a resumed run must take the same pass as the first one.
    forward = training_pass(model, example.tokens, example.scored, plan.batch_size)
    # The last bits of vectors differ between machines.
    draws = "" if example.tokens.is_floating_point() else digest(example.tokens)
    way = {"draws": draws, "native": models.is_native(model), "pass": f"{forward.name}, {dtype}"}
    return Training(model, optimiser, loss_at, adjust, plan.clip, clamps, way, batch_at, forward, alike)


def _train(recipe: Recipe, folder: Path, progress: bool, device: str, dtype: Dtype, log: Log | None, stop: int) -> None:
    plan = recipe.plan
    if stop not in plan.saved_steps:
        raise ValueError(f"`until` is a step that the plan saves, up to {plan.steps}; got {stop}")
    training = prepare(recipe, device, dtype)
    run_folder.claim(folder, recipe)
    start, metrics = resume(folder, plan, training.model, training.optimiser, training.way)
    if start >= stop:
        return
    with tqdm(total=stop, initial=start, disable=not progress, desc=folder.name, unit="step") as bar:
        try:
            for step in training.steps(start, stop, metrics):
                if step > start:
                    bar.update()
                    bar.set_postfix(loss=f"{metrics[-1]['loss']:.3f}", refresh=False)
                    if log is not None:
                        log(dict(metrics[-1]))
                if step in plan.saved_steps:
                    training.save(folder, plan, step, metrics)
        except FloatingPointError as reason:
            raise FloatingPointError(f"{reason}. {checkpoints_saved(folder, plan, metrics)}") from reason


def checkpoints_saved(folder: Path, plan: TrainPlan, metrics: Sequence[Metrics]) -> str:
    """Say which checkpoints a run has that diverged."""
    saved = [step for step in plan.saved_steps if step < len(metrics)]
    return f"The checkpoints up to step {saved[-1]} are in {folder}" if saved else "Nothing was saved"


def descend(
    optimiser: torch.optim.Optimizer,
    loss_at: Callable[[int], Float[Tensor, ""]],
    start: int,
    stop: int,
    *,
    clip: float | None = None,
    adjust: Callable[[int], None] | None = None,
    metrics: list[Metrics] | None = None,
) -> Iterator[int]:
    """Yield each step before its update, and `stop` after the last one: the training loop of every model here.

    Leaving the loop ends training.

    Args:
        optimiser: whose parameters are updated, at its rates.
        loss_at: the loss of a step.
        start: the first step.
        stop: the step to end at.
        clip: largest norm of the gradient; None does not clip.
        adjust: changes the gradients of a step, before they are clipped, or the rates of its update.
        metrics: a list to append each update's step, loss and gradient norm (before clipping) to; None records none.

    Raises:
        FloatingPointError: the loss or the gradient is not finite; the update is skipped.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    for step in range(start, stop):
        yield step
        loss = loss_at(step)
        for parameter in parameters:  # as zero_grad does, which records for a profiler at every step
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        if adjust is not None:
            adjust(step)
        if metrics is not None or clip is not None:
            norm = _gradient_norm(parameters, clip)
            if metrics is not None:
                metrics.append({"step": step, "loss": loss.item(), "gradient_norm": norm})
            check_finite(step, loss.item(), norm)
        optimiser.step()
    yield stop


def _gradient_norm(parameters: Sequence[Tensor], clip: float | None) -> float:
    """Return the norm of the gradient, which is scaled down to the largest one allowed."""
    if clip is not None:
        return torch.nn.utils.clip_grad_norm_(parameters, clip).item()
    # As torch.nn.utils.get_total_norm, which sorts them by device at every step.
    norms = torch._foreach_norm([each.grad for each in parameters if each.grad is not None])
    norm: float = torch.linalg.vector_norm(torch.stack(norms)).item()
    return norm


def check_finite(step: int, loss: float, norm: float) -> None:
    """Raise FloatingPointError where an update's loss or gradient is not finite."""
    if not math.isfinite(loss + norm):
        raise FloatingPointError(f"the loss is {loss} and the gradient's norm {norm} at step {step}; {_STEADIER}")


def _check_model(step: int, model: models.Model, loss_at: Callable[[int], Float[Tensor, ""]]) -> None:
    """Raise FloatingPointError for a model that must not be saved: a weight or its loss is not finite."""
    for name, weight in models.parameters(model).items():
        if not models.is_finite(weight):
            raise FloatingPointError(f"{name} is not finite at step {step}; {_STEADIER}")
    with torch.no_grad():
        loss = loss_at(step).item()
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss} at step {step}; {_STEADIER}")


def optimiser_of(parameters: Mapping[str, torch.nn.Parameter], plan: TrainPlan) -> torch.optim.Optimizer:
    """Return the optimiser of a plan for the parameters that train, by name: a group for each rate."""
    parameters = {name: parameter for name, parameter in parameters.items() if parameter.requires_grad}
    for parameter in parameters.values():  # in order: torch's fused update goes through memory, whatever the strides
        parameter.data = parameter.data.contiguous()
    by_rate: dict[float, list[torch.nn.Parameter]] = {}  # a group is one call a step, whatever is in it
    for name, rate in by_pattern(list(parameters), plan.learning_rate, plan.rates).items():
        by_rate.setdefault(rate, []).append(parameters[name])
    groups = [{"params": each, "lr": rate} for rate, each in by_rate.items()]
    if plan.optimiser == "sgd":
        return torch.optim.SGD(groups, momentum=plan.momentum, weight_decay=plan.weight_decay, fused=True)
    return torch.optim.AdamW(groups, weight_decay=plan.weight_decay, fused=True)
