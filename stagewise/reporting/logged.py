"""Curves that a training of one's own logged, in a folder whose stages and report are those of any measured run."""

from pathlib import Path

import pandas as pd

from stagewise.checkpoints.causes import of_log
from stagewise.checkpoints.digest import short_digest
from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, claim_for, write, write_json
from stagewise.detection.own_curves import curves, is_rate
from stagewise.detection.own_curves import is_log as is_log

NO_BATCH = {"relations": {}, "size": [], "first_query": 0, "references": []}
"""What `measured.batch_record` would say of a batch, where there is none; a record has it as `measured.RECORDED`."""


def logged_folder(source: str | Path, folder: str | Path | None = None) -> Path:
    """Write the curves of a file as the table of a folder, with the jumps of a logged learning rate as known causes.

    Args:
        source: a file, as `curves` takes it.
        folder: None takes one in `runs/`, after the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it holds no curves, or the folder the measurements of another source.

    Returns the folder.
    """
    table, identity = curves(source), str(Path(source).resolve())
    name = f"curves-{table['run'].iloc[0]}-{short_digest(identity)[:8]}"
    folder = Path("runs", name) if folder is None else Path(folder)
    claim_for(folder, identity)
    write(folder / TABLE, lambda partial: table.to_parquet(partial, index=False))
    write_json(folder / ANALYSIS, {"recipe": {}, "causes": _causes(table), "batch": NO_BATCH})
    return folder


def _causes(table: pd.DataFrame) -> dict[str, int]:
    causes: dict[str, int] = {}
    for name, rates in table.groupby("quantity"):
        if is_rate(str(name)):
            pairs = zip(rates["step"], rates["value"], strict=True)
            causes |= of_log({"step": int(step), "learning_rate": rate} for step, rate in pairs)
    return causes
