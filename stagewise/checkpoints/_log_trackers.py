"""Logs of trackers: forms that are not read are called by their tool."""

from fnmatch import fnmatch
from pathlib import Path

import pandas as pd

UNREAD = {
    "*.wandb": "of Weights & Biases: `wandb leet inspect --json {} > run.jsonl` writes a log that is read",
    "*.swanlab": "of SwanLab",
    "meta.yaml": "of MLflow: `MlflowClient().get_metric_history(RUN, METRIC)` has its steps and values, for `read_log`",
    "mlflow.db": "of MLflow: `MlflowClient().get_metric_history(RUN, METRIC)` has its steps and values, for `read_log`",
    "*.db": "in a tracker's database",
    "run_operations.sqlite3": "of Neptune",
    "messages.json": "of Comet",
    "run_metadata_strings": "of Aim",
    "results_*.json": "of an evaluation harness, one checkpoint each",
}
"""Names of other tools' files -> whose they are, and what makes a log of them."""

READ = ("plots/metrics/*.tsv", "plots/metrics/*/*.tsv", "metrics.json")
"""Names of logs in the folders of tools."""

DEPTH = 3
"""Folders from which on such files are not looked for."""

AS_COLUMNS = "save its columns of steps and values as .csv or .parquet"


def refuse(folder: Path) -> pd.DataFrame:
    """Say what log lies in a folder, and what to give."""
    raise ValueError(f"{folder} {inside(folder)}")


def unread(place: Path) -> str:
    """Return in words whose log a file is, or lies in a folder, in a form that is not read; empty where none is."""
    for pattern, whose in UNREAD.items():
        if path := _first(place, pattern):
            return whose.format(path) if "{}" in whose else f"{whose}: {AS_COLUMNS}"
    return ""


def inside(folder: Path) -> str:
    """Return what log lies in a folder, in words; empty where none does."""
    if what := unread(folder):
        return f"holds a log {what}"
    path = next((path for pattern in READ for path in sorted(folder.glob(pattern))), None)
    return f"holds a log: give {path}" if path else ""


def _first(place: Path, pattern: str) -> Path | None:
    if place.is_file():
        return place if fnmatch(place.name, pattern) else None
    patterns = ("*/" * depth + pattern for depth in range(DEPTH))
    return next((path for each in patterns for path in sorted(place.glob(each))), None)
