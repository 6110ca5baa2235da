"""The state of a training on disk: what is saved at a step, what a killed run resumes or a replay starts from.

Every function that reads raises a ValueError for a damaged file; the message names it and says what to do.
"""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file

from stagewise import models
from stagewise.checkpoints import run_folder
from stagewise.checkpoints._checksums import check
from stagewise.checkpoints._table_file import read_parquet
from stagewise.plan import TrainPlan

Metrics = dict[str, int | float]
"""Numbers of one update: step, loss, gradient_norm."""

AGAIN = "Restore it, or delete it and train again: that starts over, and gives the same bits"
"""Advice for a damaged file of a run."""

UNNEEDED = "Delete it: a finished run needs none"
"""Advice for the damaged state of a finished run."""

WITHOUT_STATE = "Delete it: a replay then starts from an earlier state"
"""Advice for a damaged state."""


def is_complete(folder: Path, plan: TrainPlan) -> bool:
    """Whether nothing is left to train, nor to save: a run that was killed in its last save has an earlier state."""
    metrics, state = folder / run_folder.METRICS, folder / run_folder.RESUME
    if not _is_there(folder, plan, plan.steps) or len(read_parquet(metrics, AGAIN)) < plan.steps:
        return False
    return not state.exists() or run_folder.read_resume(state, UNNEEDED)["step"] >= plan.steps


def _is_there(folder: Path, plan: TrainPlan, step: int) -> bool:
    """Whether the checkpoints up to a step and the metrics are there, and nothing that resumes from them is damaged."""
    files = [*(run_folder.checkpoint_file(folder, each) for each in _early(plan, step)), folder / run_folder.METRICS]
    if not all(file.exists() for file in files):
        return False
    for file in files:
        check(file, AGAIN)
    for each in state_steps(folder):
        check(run_folder.state_file(folder, each), WITHOUT_STATE)
    return True


def save(
    folder: Path,
    step: int,
    model: models.Model,
    optimiser: torch.optim.Optimizer,
    metrics: list[Metrics],
    way: Mapping[str, object],
    *,
    replayed: bool = False,
) -> None:
    """Write a checkpoint, the metrics so far, and the state to resume from; `replayed` keeps the state for a replay.

    `way` says how the run computes, by which a version that would resume with other bits is noticed: `native` and
    `pass` of the model, `draws`, a hash of what the task draws, and of a run that is trained together with others its
    place among them as `together`.
    """
    # resume.pt comes last: it is what a resumed run starts from, so all before it must be on disk.
    save_weights(folder, step, models.weights(model))
    frame = pd.DataFrame(metrics, columns=["step", "loss", "gradient_norm"])
    run_folder.write(folder / run_folder.METRICS, lambda partial: frame.to_parquet(partial, index=False))
    state = _unshared({"step": step, "optimiser": optimiser.state_dict(), **way})

    def save_state(partial: Path) -> None:
        with open(partial, "wb") as file:  # given a path, torch writes its name into the file
            torch.save(state, file)

    if replayed:
        run_folder.write(run_folder.state_file(folder, step), save_state)
    run_folder.write(folder / run_folder.RESUME, save_state)


def _unshared(value: Any) -> Any:
    """Return new containers, equal strings as one: a loaded state shares others, which pickle writes otherwise."""
    if isinstance(value, dict):
        return {_unshared(key): _unshared(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_unshared(each) for each in value)
    return sys.intern(value) if isinstance(value, str) else value


def save_weights(folder: Path, step: int, weights: Mapping[str, torch.Tensor]) -> Path:
    """Write a checkpoint."""
    return run_folder.write(run_folder.checkpoint_file(folder, step), lambda partial: save_file(dict(weights), partial))


def resume(
    folder: Path, plan: TrainPlan, model: models.Model, optimiser: torch.optim.Optimizer, way: Mapping[str, object]
) -> tuple[int, list[Metrics]]:
    """Load the newest state into the model and the optimiser; return its step, and the metrics before it."""
    if not (folder / run_folder.RESUME).exists():
        return 0, []
    state = run_folder.read_resume(folder / run_folder.RESUME)
    if state["step"] < plan.steps:
        _check_way(folder, state, way, f"finish it there, or delete {run_folder.RESUME} in it to start over")
    if not _is_there(folder, plan, state["step"]):
        return 0, []  # some were deleted: from the start again, it gives the same bits
    models.load(model, run_folder.read_checkpoint(folder, state["step"]))
    if state["step"] < plan.steps:
        optimiser.load_state_dict(state["optimiser"])
    metrics = read_parquet(folder / run_folder.METRICS, AGAIN)
    earlier: list[Metrics] = metrics[metrics.step < state["step"]].to_dict("records")
    return state["step"], earlier


def state_steps(folder: Path) -> list[int]:
    """Return the steps of a run at which the state of its optimiser is kept, in order."""
    return run_folder.steps_in(folder / run_folder.STATES, ".pt")


def rewind(
    folder: Path, step: int, model: models.Model, optimiser: torch.optim.Optimizer, way: Mapping[str, object]
) -> int:
    """Load the newest state that was kept at a step or before it; return its step, 0 where there is none."""
    kept = [each for each in state_steps(folder) if each <= step]
    if not kept:
        return 0
    path = run_folder.state_file(folder, kept[-1])
    state = run_folder.read_resume(path, WITHOUT_STATE)
    _check_way(folder, state, way, f"replay it there, or delete {run_folder.STATES} in it to replay from step 0")
    models.load(model, run_folder.read_checkpoint(folder, state["step"]))
    optimiser.load_state_dict(state["optimiser"])
    return int(state["step"])


def branch(folder: Path, new: Path, plan: TrainPlan, step: int) -> int:
    """Let another run start where one has been: copy all up to the newest state that was kept up to a step."""
    start = branch_start(folder, new, plan, step)
    if not start or (new / run_folder.RESUME).exists():
        return start
    for each in _early(plan, start):
        _copy(run_folder.checkpoint_file(folder, each), run_folder.checkpoint_file(new, each))
    metrics = read_parquet(folder / run_folder.METRICS, AGAIN)
    earlier = metrics[metrics["step"] < start]
    run_folder.write(new / run_folder.METRICS, lambda partial: earlier.to_parquet(partial, index=False))
    _copy(run_folder.state_file(folder, start), new / run_folder.RESUME)
    return start


def branch_start(folder: Path, new: Path, plan: TrainPlan, step: int) -> int:
    """Return the step a branch trains from: its own if it has begun, else the newest kept up to a step, or 0."""
    if (new / run_folder.RESUME).exists():
        reached = int(run_folder.read_resume(new / run_folder.RESUME)["step"])
        return reached if _is_there(new, plan, reached) else 0
    saved = set(run_folder.saved_steps(folder))
    kept = [each for each in state_steps(folder) if each <= step and saved.issuperset(_early(plan, each))]
    return kept[-1] if kept else 0


def _early(plan: TrainPlan, step: int) -> list[int]:
    return [each for each in plan.saved_steps if each <= step]


def _copy(source: Path, target: Path) -> None:
    check(source, AGAIN)
    run_folder.write(target, lambda partial: shutil.copyfile(source, partial))


_OTHER_WAYS = {
    "native": "on another major version of transformer-lens, whose optimiser state does not fit this one",
    "draws": "on a version of this library whose task drew other sequences from the same seed",
    "pass": "on a version of this library, or with a dtype, that takes sums in another order",
    "together": "by itself, or as another one of several that are trained together, with sums in another order",
}
"""Reasons why an unfinished run resumes with other bits, by the entry of its state that says so."""


def check_way(folder: Path, way: Mapping[str, object], fix: str) -> None:
    """Refuse to go on with a run in another way than its newest state, if there is one, was computed in."""
    kept = [run_folder.state_file(folder, step) for step in state_steps(folder)]
    newest = [path for path in (*kept, folder / run_folder.RESUME) if path.exists()]
    if newest:
        _check_way(folder, run_folder.read_resume(newest[-1], WITHOUT_STATE), way, fix)


def _check_way(folder: Path, state: Mapping[str, object], way: Mapping[str, object], fix: str) -> None:
    recorded = {**way, "pass": None, "together": None, **state}  # earlier versions recorded less
    (here, dtype), (there, other) = (str(each["pass"]).rpartition(", ")[::2] for each in (way, recorded))
    if here == there and dtype != other:
        fix = f'give --dtype {other}, in Python dtype="{other}"'
        raise ValueError(f"{folder} is trained in {other}, and in {dtype} it would be another run: {fix}")
    for name, reason in _OTHER_WAYS.items():
        if recorded[name] != way.get(name):
            raise ValueError(f"{folder} was begun {reason}: {fix}")
