"""Curves that a training of one's own logged, in a folder whose stages and report are those of any measured run."""

import functools
import re
from pathlib import Path

from stagewise.checkpoints import short_digest
from stagewise.checkpoints.logged_curves import name_of, read_log
from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, claim_for, write, write_json
from stagewise.findings import causes_in
from stagewise.plain_text import file_part

NO_BATCH = {"relations": {}, "size": [], "first_query": 0, "references": []}
"""The record of no batch, as `write_batch` writes one; it stands under `measured.RECORDED`."""

NO_FILE_NAME = r'[\\/:*?"<>|]'
"""Characters that names of files have on no system."""

LONGEST = 80
"""Characters of a run's name that its folder has."""


def logged_folders(source: str | Path, folder: str | Path | None = None, steps: str | None = None) -> list[Path]:
    """Write the curves of a file as one folder a run; changes of a logged learning rate are known causes."""
    table, identity = read_log(source, steps), str(Path(source).resolve())
    runs = [(str(run), rows) for run, rows in table.groupby("run", sort=False)]
    name = f"curves-{file_part(name_of(Path(source)))}-{short_digest(identity)[:8]}"
    whole = Path("runs", name) if folder is None else Path(folder)
    folders = [whole if len(runs) == 1 else whole / "runs" / _file_name(run) for run, _ in runs]
    for path, (run, rows) in zip(folders, runs, strict=True):
        rows.attrs = table.attrs
        claim_for(path, identity if len(runs) == 1 else f"{identity}, {run}")
        write(path / TABLE, functools.partial(rows.to_parquet, index=False))
        write_json(path / ANALYSIS, {"recipe": {}, "causes": causes_in(rows), "batch": NO_BATCH})
    return folders


def _file_name(run: str) -> str:
    """Name a folder by its run; by a hash besides where the run's name is none for a folder."""
    name = re.sub(NO_FILE_NAME, "-", run).strip(". ")[:LONGEST]
    return file_part(name) if name == run else f"{file_part(name)}-{short_digest(run)[:6]}".lstrip("-")


def logged_folder(source: str | Path) -> Path:
    """Write the curves of one run as `logged_folders` does, and return their folder."""
    first, *others = logged_folders(source)
    if others:
        names = ", ".join(each.name for each in (first, *others))
        raise ValueError(f"{source} holds several runs ({names}): `stagewise report {source}` is on all of them")
    return first
