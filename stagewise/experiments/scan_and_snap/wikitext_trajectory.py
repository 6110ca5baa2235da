"""The recorded WikiText trajectories: validation loss and probe entropy over training by Adam."""

from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.checkpoints import run_folder
from stagewise.experiments.scan_and_snap.wikitext_model import columns, probe_entropy, text_loss
from stagewise.experiments.scan_and_snap.wikitext_recipe import CHECKPOINTS, baseline_recipe, basic_english
from stagewise.experiments.scan_and_snap.wikitext_training import COLUMNS, Setting, train_baseline

ENTROPY_EVERY = 100
"""Minibatches between two looks at the probe sequence's attention; the validation loss takes a minute."""

VALIDATION_COLUMNS = 10


def trajectory(
    folder: Path,
    *,
    n_layers: int = 1,
    rate: float = 1e-3,
    steps: int = 1000,
    seed: int = 1,
    data: str | None = None,
    checkpoints: int = CHECKPOINTS,
    progress: bool = True,
) -> str:
    """Train the paper's WikiText model by Adam; write `trajectory.csv` and return it as text.

    Columns: `step, loss` (mean training loss since the row before), `validation_loss` (first and last row) and
    `entropy_0, entropy_1, ...`, the layers' attention entropy on the probe sequence of the validation text; nats.
    It takes ten minutes of one core; an interrupted run resumes. Its checkpoints, `checkpoints` at most and 47 MB each,
    make the folder one that can be measured and reported on.

    Raises:
        ValueError: a setting is out of range, or the folder holds a run of other settings.

    Source: the configurations and logs released with Tian et al. (2023), arXiv:2305.16380; they belong to its sequel.
    """
    task = basic_english(data)
    corpus = task.corpus()
    rows = columns(corpus.ids["train"], COLUMNS)
    held_out = columns(corpus.ids["validation"], VALIDATION_COLUMNS)
    steps_seen = sorted({*range(0, steps, ENTROPY_EVERY), steps})

    def with_loss(model: Any) -> dict[str, Any]:
        return {"entropy": probe_entropy(model, held_out), "validation_loss": text_loss(model, held_out)}

    looks: dict[int, Any] = dict.fromkeys(steps_seen, lambda model: {"entropy": probe_entropy(model, held_out)})
    looks |= {0: with_loss, steps: with_loss}
    setting = Setting("adam", rate, steps=steps, n_layers=n_layers, seed=seed)
    recipe = baseline_recipe(setting, task, checkpoints)
    losses, seen = train_baseline(setting, rows, task.d_vocab, looks, folder, recipe=recipe, progress=progress)
    table = _table(losses, {step: seen[step] for step in steps_seen})
    run_folder.write(folder / "trajectory.csv", lambda partial: table.to_csv(partial, index=False))
    return table.round(3).to_string(index=False, na_rep="")


def _table(losses: list[float], seen: dict[int, dict[str, Any]]) -> pd.DataFrame:
    rows, before = [], 0
    for step, reading in seen.items():
        since = losses[before:step]
        row = {"step": step, "loss": sum(since) / len(since) if since else None}
        row["validation_loss"] = reading.get("validation_loss")
        rows.append(row | {f"entropy_{layer}": value for layer, value in enumerate(reading["entropy"])})
        before = step
    return pd.DataFrame(rows)
