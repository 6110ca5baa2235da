"""The same training under several seeds: one series a seed, whose tables are one."""

import dataclasses
import glob
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stagewise.checkpoints.names import seed_of
from stagewise.checkpoints.series import CheckpointSeries, find, open_series

PLACE = "{seed}"


def open_seeds(source: str | Path, seeds: Iterable[int] | None = None, **options: Any) -> tuple[CheckpointSeries, ...]:
    """Open one series a seed. `measure` takes them together; its table has `run` and `seed` in every row.

    Args:
        source: a name with "{seed}" in it, "owner/model-seed{seed}" or "runs/seed-{seed}", for a repository or a folder
            a seed; or one repository or folder whose branches are named by seeds, as "seed_0-step_20k".
        seeds: which ones; None takes all. The hub cannot list all repositories of a pattern: there, give them.
        options: of `open_series`.

    Raises:
        ValueError: no seeds are found, or a requested one is missing.
        FileNotFoundError, OSError: as `open_series`.
    """
    requested = None if seeds is None else list(dict.fromkeys(seeds))
    if PLACE in str(source):
        return _by_name(str(source), requested, options)
    checkpoints = find(source, **{key: options[key] for key in ("parse", "hub") if key in options})
    branches = {seed: branch for branch in checkpoints.branches if (seed := seed_of(branch)) is not None}
    chosen = _among(sorted(branches), requested, f"branch of {checkpoints.name}", f"give a name with {PLACE} in it")
    return tuple(
        open_series(source, branch=branches[seed], **{"name": f"{checkpoints.name} seed {seed}", **options})
        for seed in chosen
    )


def _by_name(pattern: str, requested: list[int] | None, options: dict[str, Any]) -> tuple[CheckpointSeries, ...]:
    named = re.compile(re.escape(pattern).replace(re.escape(PLACE), r"(\d+)"))
    available = {int(match[1]) for match in map(named.fullmatch, glob.glob(pattern.replace(PLACE, "*"))) if match}
    if requested is None or available:
        fix = "of repositories of the hub, give the `seeds`"
        requested = _among(sorted(available), requested, f"folder {pattern}", fix)
    opened = {seed: open_series(pattern.replace(PLACE, str(seed)), **options) for seed in requested}
    if twice := len(opened) - len({series.name for series in opened.values()}):
        raise ValueError(f"{twice} of the series of {pattern} share a name: put {PLACE} into the last part of it")
    return tuple(dataclasses.replace(series, seed=seed) for seed, series in opened.items())


def _among(available: list[int], requested: list[int] | None, what: str, fix: str) -> list[int]:
    if not available:
        raise ValueError(f"no {what} is named by a seed: {fix}")
    if missing := sorted(set(requested or ()) - set(available)):
        raise ValueError(f"there is no {what} of seed {missing[0]}; there are {', '.join(map(str, available))}")
    return available if requested is None else requested
