"""Train a recipe into a run folder; a killed run resumes and gives the same bits as one that was never killed."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.digest import digest
from stagewise.checkpoints.run_folder import read_checkpoint, read_resume
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.init import by_pattern
from stagewise.loss import training_loss
from stagewise.models.fused import training_forward
from stagewise.models.native import is_native
from stagewise.recipe import Recipe, TrainPlan


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
        folder: the run folder, made where it is not there.
        progress: show a bar with the loss and the steps a second.
        device: where to train.

    Raises:
        ValueError: the folder holds a run of another recipe, or an unfinished one that another version began and this
            one cannot go on with; or `plan.rates` names no parameter.
        FloatingPointError: the loss is not finite; the last checkpoint before it stands.
        OSError: a file could not be written; what was written before stands.
    """
    folder, plan = Path(folder), recipe.plan
    model = models.build(recipe.architecture, plan.seeds.init, device)
    optimiser = _optimiser(model, plan)
    rates = [group["lr"] for group in optimiser.param_groups]
    run_folder.claim(folder, recipe)
    example = recipe.task.sample(8, plan.seeds.data).tokens.to(device)
    # Chosen on the initial weights, before any are loaded: a resumed run must take the same pass as the first one.
    forward = training_forward(model, example)
    draws = _fingerprint(example)
    start, metrics = _resume(folder, plan, model, optimiser, draws)
    if start == plan.steps:
        return _open(folder, recipe)

    stream = recipe.task.stream(plan.seeds.data)
    trained = [parameter for parameter in models.parameters(model).values() if parameter.requires_grad]
    saves = set(plan.saved_steps)
    bar = tqdm(total=plan.steps, initial=start, disable=not progress, desc=folder.name, unit="step")
    with bar:
        for step in range(start, plan.steps + 1):
            if step in saves:
                _save(folder, step, model, optimiser, metrics, draws)
            if step == plan.steps:
                break
            batch = stream(step, plan.batch_size).to(device)
            loss = training_loss(forward(batch.tokens)[batch.scored], batch.targets[batch.scored])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(trained, plan.clip or math.inf)
            metrics.append({"step": step, "loss": loss.item(), "gradient_norm": norm.item()})
            if not math.isfinite(loss.item() + norm.item()):
                raise FloatingPointError(
                    f"the loss is {loss.item()} and the gradient's norm {norm.item()} at step {step}; lower the "
                    "learning rate or clip the gradient. "
                    f"The checkpoints up to step {max(s for s in saves if s <= step)} stand in {folder}"
                )
            for group, rate in zip(optimiser.param_groups, rates, strict=True):
                group["lr"] = rate * plan.rate_factor(step)
            optimiser.step()
            bar.update()
            bar.set_postfix(loss=f"{metrics[-1]['loss']:.3f}", refresh=False)
    return _open(folder, recipe)


def _fingerprint(tokens: Tensor) -> str:
    """Return a hash of token ids; of vectors nothing, whose last bits differ between machines."""
    return "" if tokens.is_floating_point() else digest(tokens)


def _open(folder: Path, recipe: Recipe) -> CheckpointSeries:
    return open_series(folder, classes=[type(recipe.architecture.init)])


def _optimiser(model: Any, plan: TrainPlan) -> torch.optim.Optimizer:
    parameters = {name: parameter for name, parameter in models.parameters(model).items() if parameter.requires_grad}
    rate = by_pattern(list(parameters), plan.learning_rate, plan.rates)
    groups = [{"params": [parameter], "lr": rate[name]} for name, parameter in parameters.items()]
    if plan.optimiser == "sgd":
        return torch.optim.SGD(groups, momentum=plan.momentum, weight_decay=plan.weight_decay)
    return torch.optim.AdamW(groups, weight_decay=plan.weight_decay)


def _save(
    folder: Path,
    step: int,
    model: Any,
    optimiser: torch.optim.Optimizer,
    metrics: list[dict[str, int | float]],
    draws: str,
) -> None:
    # resume.pt comes last: it is what a resumed run starts from, so all before it must be on disk.
    weights = models.weights(model)
    run_folder.write(run_folder.checkpoint_file(folder, step), lambda partial: save_file(weights, partial))
    frame = pd.DataFrame(metrics, columns=["step", "loss", "gradient_norm"])
    run_folder.write(folder / run_folder.METRICS, lambda partial: frame.to_parquet(partial, index=False))
    state = {"step": step, "optimiser": optimiser.state_dict(), "native": is_native(model), "draws": draws}
    run_folder.write(folder / run_folder.RESUME, lambda partial: torch.save(state, partial))


def _resume(
    folder: Path, plan: TrainPlan, model: Any, optimiser: torch.optim.Optimizer, draws: str
) -> tuple[int, list[dict[str, int | float]]]:
    if not (folder / run_folder.RESUME).exists():
        return 0, []
    state = read_resume(folder / run_folder.RESUME)
    if state.get("native", False) != is_native(model) and state["step"] < plan.steps:
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
    kept: list[dict[str, int | float]] = metrics[metrics.step < state["step"]].to_dict("records")
    return state["step"], kept
