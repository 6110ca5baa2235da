"""Checkpoints in a folder: of a run, of a trainer, or of adapters on a base."""

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from stagewise.checkpoints import _weight_names as weight_names
from stagewise.checkpoints import run_folder
from stagewise.checkpoints._architectures import CONFIG
from stagewise.checkpoints._digest import check_file, digest, file_digest
from stagewise.checkpoints._formats import ADAPTER, adapter_file, merged
from stagewise.checkpoints._table_file import read_json, read_parquet
from stagewise.checkpoints._weight_files import Contents, config_in, files_of, load_file, read
from stagewise.checkpoints._weight_names import INDEX, WHOLE, chosen_files, holds_weights, is_file
from stagewise.checkpoints.names import COPY, END, ENDINGS, GIVE_PARSE, Coordinates, Parse, Reading, read_names, told
from stagewise.checkpoints.sources import STEP, TRAINER, Entry, Source
from stagewise.recipe import rebuild

PART = "a part of one model"
"""Why a shard, as transformers name them, is no checkpoint of its own."""


def in_folder(folder: Path, parse: Parse | str | None = None) -> Source:
    """Find the checkpoints in a folder: folders or files with a step in the name, or the one model that it is."""
    if not folder.is_dir():
        if folder.exists():
            check_file(folder)
        fix = weight_names.converter([folder.name]) or "Give the folder of the checkpoints, or a list of their files"
        raise FileNotFoundError(
            f"{folder} is not a run folder: there is no run.json in it, nor any folder of that name. {fix}"
        )
    # A link to what is gone, or to itself, may be a folder's.
    candidates = [each for each in sorted(folder.iterdir()) if each.is_dir() or is_file(each) or not each.exists()]
    readings = _read(candidates, parse)
    found = {path: at for path, reading in readings.items() if (at := reading.at)}
    folders = [path for path in found if not is_file(path)]
    entries = [of_path(path, found[path]) for path in folders or found]
    if last := _final(folder, found.values()):
        entries.append(of_path(folder, last))
        of_it = Reading(last, why=f"{TRAINER} beside it says")
        readings |= {path: of_it for path in candidates if path.name in WHOLE}
    ignored = [path.name for path in candidates if not readings[path].at]
    name = Path(os.path.abspath(folder)).name  # "." has no name of its own
    parts = [path for path, reading in readings.items() if reading.why == PART]
    if not entries and parse is None and (parts or chosen_files(path.name for path in folder.iterdir())):
        told_of_it = (f"{name} -> one checkpoint, called step 0",)
        return Source(name, (of_path(folder, Coordinates(0)),), beside=partial(_first_in, (folder,)), names=told_of_it)
    if not entries:
        within = (path.name for place in ("*", "*/*") for path in folder.glob(place))
        why = _deeper(folder) or weight_names.converter(within) or GIVE_PARSE
        raise FileNotFoundError(
            f"{folder} is not a run folder: there is no run.json in it, and there are neither checkpoint-N folders nor "
            f"{', '.join(ENDINGS)} files with a step in their names in it; {why}"
        )
    readings |= {
        path: each._replace(why="counts accelerate's saves, not updates")
        for path, each in readings.items()
        if each.at and re.fullmatch(r"checkpoint_\d+", path.name) and any(path.glob("random_states_*.pkl"))
    }
    rows = [(path.name, each) for path, each in readings.items() if each.at or is_file(path) or holds_weights(path)]
    beside = partial(_first_in, (folder, *reversed(folders)))
    return Source(name, tuple(entries), ignored=tuple(ignored), beside=beside, names=tuple(told(rows)))


def _final(folder: Path, others: Collection[Coordinates]) -> Coordinates | None:
    """Return the step of the model that a trainer saved above its checkpoints, where its record says a later one."""
    step = of_path(folder, Coordinates(0)).recorded.get(STEP, 0)
    later = all(at.step < step and not at.branch for at in others)
    return Coordinates(step) if later and others and chosen_files(path.name for path in folder.iterdir()) else None


def _first_in(places: Sequence[Path], file: str) -> Path | None:
    return next((place / file for place in places if (place / file).is_file()), None)


def _deeper(folder: Path) -> str:
    """Return in words which folder below holds checkpoints, at most three levels down; empty where none does."""
    for place in ("*/*", "*/*/*", "*/*/*/*"):
        for path in sorted(filter(is_file, folder.glob(place))):
            for each in (path.parent, path):
                if each.parent != folder and weight_names.names_of([each])[each].at:
                    return f"{each.parent.relative_to(folder)} in it holds checkpoints: give that folder"
    return ""


def _read(paths: Sequence[Path], parse: Parse | str | None) -> dict[Path, Reading]:
    """Read the names of files and folders; copies, the state of a training and parts of one model are left out."""
    if parse is not None:
        return weight_names.names_of(paths, parse)
    states = [path for path in paths if weight_names.TRAINING.match(path.name)]
    parts = [path for path in paths if re.search(r"-\d{5}-of-\d{5}\.", path.name)]
    others = [path for path in paths if path not in (*states, *parts)]
    copies = [path for path in others if re.search(COPY, weight_names.stem(path))]
    readings = weight_names.names_of([path for path in others if path not in copies])
    if not any(reading.at for reading in readings.values()):
        copies, readings = [], weight_names.names_of(others)
    if not any(reading.at for reading in readings.values()):  # as nanotron's, which are the step alone
        numbers = [path for path in others if path.name.isdecimal() and holds_weights(_inner(path))]
        readings |= zip(numbers, read_names([path.name for path in numbers]), strict=True)
    readings |= dict.fromkeys(states, Reading(None, why="it holds the state of a training"))
    readings |= dict.fromkeys(parts, Reading(None, why=PART))
    steps = {reading.at.step for reading in readings.values() if reading.at}
    readings |= dict.fromkeys(copies, Reading(None, why="a copy, or no step of the training"))
    for path, each in weight_names.names_of([path for path in copies if END.search(path.name)]).items():
        if each.at and each.at.step not in steps:
            readings[path] = each
            steps.add(each.at.step)
    return {path: readings[path] for path in paths}


def of_path(path: Path, at: Coordinates) -> Entry:
    """Return the checkpoint in a folder or a file."""
    alone = is_file(path) and not path.is_dir()
    inner = path if alone else _inner(path)
    files = (lambda: (path,)) if alone else partial(files_of, inner)
    places = dict.fromkeys(each / CONFIG for each in (inner, path, path.parent) if each.is_dir())
    return Entry(
        path.name,
        at,
        read=lambda: read(files(), () if alone else _others(inner, files())),
        digest=lambda: file_digest(files()),
        config=lambda: next(filter(None, map(_beside, places)), None),
        record=lambda: None if alone else _beside(path / TRAINER),
        within=lambda: config_in(path) if alone else None,
        time=lambda: min(
            (each.stat().st_mtime for each in ([path] if alone else path.glob("*")) if is_file(each) and each.exists()),
            default=None,
        ),
    )


def _others(folder: Path, files: Iterable[Path]) -> list[str]:
    """Return the names of files of weights in a checkpoint's folder that are not read: a second model or form."""
    chosen = {path.name for path in files}
    names = sorted(
        path.name for path in folder.iterdir() if is_file(path) and not weight_names.TRAINING.match(path.name)
    )
    return [name for name in names if name not in chosen and not name.startswith("adapter_model")]


def _inner(folder: Path) -> Path:
    """Return the folder that a Hugging Face model was saved to in a checkpoint's folder; else the latter itself."""
    if not folder.is_dir() or holds_weights(folder):
        return folder
    saved = [each for each in folder.iterdir() if any((each / name).is_file() for name in (*WHOLE, *INDEX))]
    return saved[0] if len(saved) == 1 else folder


def _beside(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.exists() else None


def in_run(folder: Path, classes: Iterable[type]) -> Source:
    """Find the checkpoints of a run, as far as it came."""
    recorded = run_folder.read_run(folder)["recipe"]
    saved = run_folder.saved_steps(folder)
    if not saved:
        raise FileNotFoundError(f"{folder} holds no checkpoints yet: train it first, with the same recipe")
    name = Path(os.path.abspath(folder)).name  # "." has no name of its own

    def entry(step: int) -> Entry:
        path, read = run_folder.checkpoint_file(folder, step), partial(run_folder.read_checkpoint, folder, step)
        return Entry(path.name, Coordinates(step), lambda: Contents(read()), lambda: file_digest([path]))

    plan = run_folder.read_plan(folder)
    promised = tuple(step for step in plan["save"] if step <= saved[-1])
    lost = tuple(step for step in plan["save"] if saved[-1] < step <= _updates(folder))
    architecture = rebuild(recorded.get("architecture"), classes)
    return Source(name, tuple(map(entry, saved)), architecture, promised, lost, planned=plan["steps"])


def _updates(folder: Path) -> int:
    """Return how many updates the metrics of a run tell of, which are written after the checkpoint that ends them."""
    try:
        steps = read_parquet(folder / run_folder.METRICS, "")["step"]
    except (OSError, ValueError, KeyError):  # no metrics, or damaged ones: they are no part of the series
        return 0
    return int(steps.max()) + 1 if len(steps) else 0


def on_base(source: Source, folder: Path, base: Entry) -> Source:
    """Return a source whose checkpoints are a model with adapters merged into it."""

    def adapted(entry: Entry) -> Entry:
        place = folder / entry.label
        if not (place / ADAPTER).exists():
            return entry
        return dataclasses.replace(
            entry,
            read=lambda: Contents(merged(base.load(), load_file(adapter_file(place)), place)),
            digest=lambda: digest([base.digest(), file_digest([adapter_file(place)])]),
            config=base.config,
        )

    return dataclasses.replace(source, entries=tuple(map(adapted, source.entries)))
