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
    """Open one series a seed. `measure` takes them together, and its table then says `run` and `seed` in every row.

    Args:
        source: a name with "{seed}" in it, "owner/model-seed{seed}" or "runs/seed-{seed}", for a repository or a folder
            a seed; or one repository or folder whose branches are named by seeds, as "seed_0-step_20k".
        seeds: these alone; None takes all that there are. A hub cannot be asked for all repositories of a pattern.
        options: of `open_series`.

    Raises:
        ValueError: no seeds are found, or one that is asked for is not there.
        FileNotFoundError, OSError: as `open_series`.
    """
    wanted = None if seeds is None else list(dict.fromkeys(seeds))
    if PLACE in str(source):
        return _by_name(str(source), wanted, options)
    found = find(source, **{key: options[key] for key in ("parse", "hub") if key in options})
    branches = {seed: entry.at.branch for entry in found.entries if (seed := seed_of(entry.at.branch)) is not None}
    chosen = _among(sorted(branches), wanted, f"branch of {found.name}", f"give a name with {PLACE} in it")
    return tuple(
        open_series(source, branch=branches[seed], **{"name": f"{found.name} seed {seed}", **options})
        for seed in chosen
    )


def _by_name(pattern: str, wanted: list[int] | None, options: dict[str, Any]) -> tuple[CheckpointSeries, ...]:
    there = {
        int(match[1])
        for path in glob.glob(pattern.replace(PLACE, "*"))
        if (match := re.fullmatch(re.escape(pattern).replace(re.escape(PLACE), r"(\d+)"), path))
    }
    if wanted is None or there:
        wanted = _among(sorted(there), wanted, f"folder {pattern}", "of repositories of the hub, give the `seeds`")
    opened = {seed: open_series(pattern.replace(PLACE, str(seed)), **options) for seed in wanted}
    if twice := len(opened) - len({series.name for series in opened.values()}):
        raise ValueError(f"{twice} of the series of {pattern} share a name: put {PLACE} into the last part of it")
    return tuple(dataclasses.replace(series, seed=seed) for seed, series in opened.items())


def _among(there: list[int], wanted: list[int] | None, what: str, fix: str) -> list[int]:
    if not there:
        raise ValueError(f"no {what} is named by a seed: {fix}")
    if missing := sorted(set(wanted or ()) - set(there)):
        raise ValueError(f"there is no {what} of seed {missing[0]}; there are {', '.join(map(str, there))}")
    return there if wanted is None else wanted
