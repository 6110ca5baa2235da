"""The small series of test_audit and test_audit_files: its steps, and what changes and audits a copy of it."""

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.series import find

STEPS = (0, 1, 2, 4, 8, 16, 24, 32, 40, 48)
WEIGHTS = "model.safetensors"


def rewrite(folder: Path, step: int | str, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / f"checkpoint-{step}" / WEIGHTS
    state = load_file(path)
    change(state)
    save_file(state, path)


def poisoned(state: dict[str, torch.Tensor]) -> None:
    state["embed_out.weight"][3, 5] = torch.nan


def audited(folder: Path, weights: bool = True) -> Audit:
    return audit(find(folder), weights=weights)
