"""Train a recipe into a run folder; a killed run resumes and gives the same bits as one that was never killed."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from safetensors.torch import save_file
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.digest import digest
from stagewise.checkpoints.run_folder import read_checkpoint, read_resume
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.init import by_pattern, matching
from stagewise.loss import training_loss
from stagewise.models.fused import training_forward
from stagewise.recipe import Recipe, TrainPlan

Metrics = dict[str, int | float]
"""Of one update: step, loss, gradient_norm."""

STEADIER = "lower the learning rate or clip the gradient"
"""Advice where training diverges."""


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    progress: bool = True,
    device: str = "cpu",
) -> CheckpointSeries:
    """Train a recipe, saving checkpoints and metrics in `folder`, and return the series.

    A folder that holds an unfinished run of the same recipe is continued; a finished one is opened as it is.

    Args:
        recipe: task, architecture and plan.
        folder: the run folder, created if missing.
        progress: show a bar with the loss and the steps a second.
        device: where to train.

    Raises:
        ValueError: the folder holds a run of another recipe, or an unfinished one that another version began and this
            one cannot resume; or `plan.rates` names no parameter.
        FloatingPointError: the loss or a weight is not finite; no such checkpoint is written, those before it remain.
        OSError: a file could not be written; what was written before remains.
    """
    folder, plan = Path(folder), recipe.plan
    model = models.build(recipe.architecture, plan.seeds.init, device)
    optimiser = _optimiser(model, plan)
    averaged = _averaged(model, recipe)
    rates = [group["lr"] for group in optimiser.param_groups]
    run_folder.claim(folder, recipe)
    sample = recipe.task.sample(8, plan.seeds.data)
    sample.check_ids(recipe.architecture.config["d_vocab"])
    example = sample.tokens.to(device)
    # Chosen on the initial weights, before any are loaded: a resumed run must take the same pass as the first one.
    forward = training_forward(model, example)
    draws = _fingerprint(example)
    start, metrics = _resume(folder, plan, model, optimiser, draws)
    if start == plan.steps:
        return _open(folder, recipe)
    stream = recipe.task.stream(plan.seeds.data)

    def loss_at(step: int) -> Tensor:
        batch = stream(step, plan.batch_size).to(device)
        return training_loss(forward(batch.tokens)[batch.scored], batch.targets[batch.scored])

    def adjust(step: int) -> None:
        if averaged:
            models.average_over_heads(model, averaged)
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * plan.rate_factor(step)

    steps = descend(optimiser, loss_at, start, plan.steps, clip=plan.clip, adjust=adjust, metrics=metrics)
    try:
        for step in _shown(steps, start, plan.steps, folder.name, progress, metrics):
            if step in plan.saved_steps:
                _check_model(step, model, loss_at)
                _save(folder, step, model, optimiser, metrics, draws)
    except FloatingPointError as reason:
        saved = [step for step in plan.saved_steps if step < len(metrics)]
        kept = f"The checkpoints up to step {saved[-1]} are in {folder}" if saved else "Nothing was saved"
        raise FloatingPointError(f"{reason}. {kept}") from reason
    return _open(folder, recipe)


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
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if adjust is not None:
            adjust(step)
        if metrics is not None or clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(parameters, clip or math.inf).item()
            if metrics is not None:
                metrics.append({"step": step, "loss": loss.item(), "gradient_norm": norm})
            _check_finite(step, loss.item(), norm)
        optimiser.step()
    yield stop


def _check_finite(step: int, loss: float, norm: float) -> None:
    if not math.isfinite(loss + norm):
        raise FloatingPointError(f"the loss is {loss} and the gradient's norm {norm} at step {step}; {STEADIER}")


def _check_model(step: int, model: models.Model, loss_at: Callable[[int], Float[Tensor, ""]]) -> None:
    """Refuse a model that must not be saved: a weight or its loss is not finite."""
    for name, weight in models.parameters(model).items():
        if not bool(weight.isfinite().all()):
            raise FloatingPointError(f"{name} is not finite at step {step}; {STEADIER}")
    with torch.no_grad():
        loss = loss_at(step).item()
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss} at step {step}; {STEADIER}")


def _shown(
    steps: Iterator[int], start: int, stop: int, name: str, progress: bool, metrics: list[Metrics]
) -> Iterator[int]:
    """Hand the steps on, with a bar of the updates that shows the loss."""
    with tqdm(total=stop, initial=start, disable=not progress, desc=name, unit="step") as bar:
        for step in steps:
            if step > start:
                bar.update()
                bar.set_postfix(loss=f"{metrics[-1]['loss']:.3f}", refresh=False)
            yield step


def _fingerprint(tokens: Tensor) -> str:
    """Return a hash of token ids; of vectors nothing, whose last bits differ between machines."""
    return "" if tokens.is_floating_point() else digest(tokens)


def _open(folder: Path, recipe: Recipe) -> CheckpointSeries:
    return open_series(folder, classes=[type(recipe.architecture.init)])


def _optimiser(model: models.Model, plan: TrainPlan) -> torch.optim.Optimizer:
    parameters = {name: parameter for name, parameter in models.parameters(model).items() if parameter.requires_grad}
    rate = by_pattern(list(parameters), plan.learning_rate, plan.rates)
    groups = [{"params": [parameter], "lr": rate[name]} for name, parameter in parameters.items()]
    if plan.optimiser == "sgd":
        return torch.optim.SGD(groups, momentum=plan.momentum, weight_decay=plan.weight_decay)
    return torch.optim.AdamW(groups, weight_decay=plan.weight_decay)


def _averaged(model: models.Model, recipe: Recipe) -> list[str]:
    """Name the parameters whose gradients the initialisation wants averaged over heads."""
    names = list(models.parameters(model))
    return [name for pattern in recipe.architecture.init.averaged for name in matching(names, pattern)]


def _save(
    folder: Path,
    step: int,
    model: models.Model,
    optimiser: torch.optim.Optimizer,
    metrics: list[Metrics],
    draws: str,
) -> None:
    # resume.pt comes last: it is what a resumed run starts from, so all before it must be on disk.
    weights = models.weights(model)
    run_folder.write(run_folder.checkpoint_file(folder, step), lambda partial: save_file(weights, partial))
    frame = pd.DataFrame(metrics, columns=["step", "loss", "gradient_norm"])
    run_folder.write(folder / run_folder.METRICS, lambda partial: frame.to_parquet(partial, index=False))
    state = {"step": step, "optimiser": optimiser.state_dict(), "native": models.is_native(model), "draws": draws}
    run_folder.write(folder / run_folder.RESUME, lambda partial: torch.save(state, partial))


def _resume(
    folder: Path, plan: TrainPlan, model: models.Model, optimiser: torch.optim.Optimizer, draws: str
) -> tuple[int, list[Metrics]]:
    if not (folder / run_folder.RESUME).exists():
        return 0, []
    state = read_resume(folder / run_folder.RESUME)
    if state.get("native", False) != models.is_native(model) and state["step"] < plan.steps:
        raise ValueError(
            f"{folder} was begun on another major version of transformer-lens, whose optimiser state does not fit this "
            f"one: finish it there, or delete {run_folder.RESUME} in it to start over"
        )
    if state.get("draws", draws) != draws and state["step"] < plan.steps:
        raise ValueError(
            f"{folder} was begun on a version of this library whose task drew other sequences from the same seed: "
            f"finish it there, or delete {run_folder.RESUME} in it to start over"
        )
    past = (step for step in plan.saved_steps if step <= state["step"])
    if not all(run_folder.checkpoint_file(folder, step).exists() for step in past):
        return 0, []  # some were deleted: from the start again, it gives the same bits
    models.load(model, read_checkpoint(folder, state["step"]))
    optimiser.load_state_dict(state["optimiser"])
    metrics = pd.read_parquet(folder / run_folder.METRICS)
    earlier: list[Metrics] = metrics[metrics.step < state["step"]].to_dict("records")
    return state["step"], earlier
