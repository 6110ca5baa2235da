"""The state of a training on disk: what is saved at a step, what a killed run resumes from, what is complete."""

from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import save_file

from stagewise import models
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.checksums import check
from stagewise.plan import TrainPlan

Metrics = dict[str, int | float]
"""Of one update: step, loss, gradient_norm."""

AGAIN = "Restore it, or delete it and train again: that starts over, and gives the same bits"
"""Advice for a damaged file of a run."""


def is_complete(folder: Path, plan: TrainPlan) -> bool:
    """Whether nothing is left to train.

    Raises:
        ValueError: a file is damaged; the message names it.
    """
    files = _files_up_to(folder, plan, plan.steps)
    if not all(file.exists() for file in files):
        return False
    for file in files:
        check(file, AGAIN)
    return len(run_folder.read_parquet(files[-1], AGAIN)) >= plan.steps


def _files_up_to(folder: Path, plan: TrainPlan, step: int) -> list[Path]:
    """Return the checkpoints up to a step, and the metrics."""
    saved = (run_folder.checkpoint_file(folder, each) for each in plan.saved_steps if each <= step)
    return [*saved, folder / run_folder.METRICS]


def save(
    folder: Path,
    step: int,
    model: models.Model,
    optimiser: torch.optim.Optimizer,
    metrics: list[Metrics],
    draws: str,
) -> None:
    """Write a checkpoint, the metrics so far, and the state to resume from.

    Args:
        folder: of the run.
        step: updates so far.
        model: its weights.
        optimiser: its state.
        metrics: of every update so far.
        draws: a hash of what the task draws, by which another version of it is noticed.

    Raises:
        OSError: a file could not be written; what was written before remains.
    """
    # resume.pt comes last: it is what a resumed run starts from, so all before it must be on disk.
    weights = models.weights(model)
    run_folder.write(run_folder.checkpoint_file(folder, step), lambda partial: save_file(weights, partial))
    frame = pd.DataFrame(metrics, columns=["step", "loss", "gradient_norm"])
    run_folder.write(folder / run_folder.METRICS, lambda partial: frame.to_parquet(partial, index=False))
    state = {"step": step, "optimiser": optimiser.state_dict(), "native": models.is_native(model), "draws": draws}
    run_folder.write(folder / run_folder.RESUME, lambda partial: torch.save(state, partial))


def resume(
    folder: Path, plan: TrainPlan, model: models.Model, optimiser: torch.optim.Optimizer, draws: str
) -> tuple[int, list[Metrics]]:
    """Load the newest state into the model and the optimiser; return its step, and the metrics before it.

    Raises:
        ValueError: a file is damaged, and the message names it; or another version began the run.
    """
    if not (folder / run_folder.RESUME).exists():
        return 0, []
    state = run_folder.read_resume(folder / run_folder.RESUME)
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
    past = _files_up_to(folder, plan, state["step"])
    if not all(file.exists() for file in past):
        return 0, []  # some were deleted: from the start again, it gives the same bits
    for file in past:
        check(file, AGAIN)
    models.load(model, run_folder.read_checkpoint(folder, state["step"]))
    optimiser.load_state_dict(state["optimiser"])
    metrics = run_folder.read_parquet(folder / run_folder.METRICS, AGAIN)
    earlier: list[Metrics] = metrics[metrics.step < state["step"]].to_dict("records")
    return state["step"], earlier
