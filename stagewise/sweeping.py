"""Sweeps: one function over many settings, in parallel processes, resumable, a result file a setting."""

import concurrent.futures
import contextlib
import functools
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from stagewise.checkpoints import read_json, short_digest
from stagewise.checkpoints.run_folder import remove_leftovers, write_json
from stagewise.own_code import named
from stagewise.processes import call_elsewhere, here, worker_pool
from stagewise.recipe import describe

WORKERS = 2
"""Processes where no executor is given."""

_REFRESH = 1.0
"""Seconds after which the bar shows the time again."""

_POLL = 0.1
"""Seconds between two looks at the jobs of an executor that cannot be waited for."""

_BAR = "{desc} {percentage:3.0f}%|{bar}| {elapsed}, {remaining} left"


class RunsFailed(RuntimeError):  # noqa: N818 - named by what happened
    """Some runs of a sweep failed; the others are kept.

    Args:
        message: names those that failed.
        finished: the table of the others, as `sweep` returns it, indexed by the number of the setting.
    """

    def __init__(self, message: str, finished: pd.DataFrame) -> None:
        """Take the message, and keep the table."""
        super().__init__(message)
        self.finished = finished


def parameter_grid(**axes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return every combination of the axes' values as a setting, the last axis varying fastest.

    >>> parameter_grid(T=[64, 128], seed=[0, 1])
    [{'T': 64, 'seed': 0}, {'T': 64, 'seed': 1}, {'T': 128, 'seed': 0}, {'T': 128, 'seed': 1}]
    """
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def sweep(
    function: Callable[..., Mapping[str, Any]],
    settings: Iterable[Mapping[str, Any]],
    folder: str | Path,
    executor: Any = None,
    *,
    workers: int = WORKERS,
    cost: Callable[[Mapping[str, Any]], int | float] = lambda _: 1,
    results: str = "results",
    name: Callable[[Mapping[str, Any]], str] | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Call `function(**setting)` for every setting and return a row a setting: its values, then the results.

    Each result is written to the folder atomically when its run ends; a sweep that was killed runs only what is
    missing. A setting may hold anything that run.json may: numbers, tuples, or a `Recipe`. A result that is named like
    a setting is in the column `NAME_result`.

    Args:
        function: from a setting's values to named results that JSON can hold. It must be at the top of a module, so
            that another process finds it, and is part of a result's identity by its name.
        settings: keyword arguments, the same names in each.
        folder: holds the folder of the results.
        executor: anything with the `concurrent.futures` interface, which its owner shuts down: a
            `processes.worker_pool` that several sweeps share, threads, or a cluster's:
            `distributed.Client(...).get_executor()`, whose runs on a lost worker begin again on another, or a
            `submitit.AutoExecutor`. Function, values and results are pickled for another process or machine, where
            torch takes one thread unless OMP_NUM_THREADS says otherwise; results are written here. None takes
            `workers` processes of one thread each.
        workers: how many processes, where no executor is given.
        cost: about how long a setting's run takes, in any unit; the time left is estimated from it.
        results: the name of their folder. Where run folders lie beside it, one with a leading dot is none of a shell's
            `*`.
        name: what the run of a setting is called where it failed; None writes its values, each cut to 100 characters.
        progress: show a bar, with the time left, or report that all runs are done.

    Raises:
        ValueError: no settings, settings with different names, two that are the same, a function without a name, or no
            workers.
        RunsFailed: some failed; the others are finished and kept, and the message names those that failed.
    """
    settings = list(settings)
    identities = [short_digest([_name(function), describe(setting)]) for setting in settings]
    _check(settings, identities)
    if workers < 1:
        raise ValueError(f"a sweep needs at least one worker, got {workers}")
    paths = [Path(folder) / results / f"{identity}.json" for identity in identities]
    remove_leftovers(paths[0].parent)
    missing = [(path, setting) for path, setting in zip(paths, settings, strict=True) if not path.exists()]
    if not missing and progress:
        print(f"{Path(folder).name}: all {len(paths)} runs are there, nothing is run again", file=sys.stderr)
    with tqdm(
        total=sum(map(cost, settings)),
        initial=sum(map(cost, settings)) - sum(cost(setting) for _, setting in missing),
        desc=f"{Path(folder).name}: {len(missing)} of {len(paths)} runs",
        bar_format=_BAR,
        smoothing=0,
        disable=not (missing and progress),
    ) as bar:
        own = missing and executor is None
        with worker_pool(min(workers, len(missing))) if own else contextlib.nullcontext(executor) as pool:
            failed = _run(function, missing, pool, bar, cost)
    if failed:
        lines = (f"{(name or _values)(setting)}: {type(reason).__name__}: {reason}" for setting, reason in failed)
        kept = "the others are kept, and the same call runs only these again"
        message = "\n  ".join([f"{len(failed)} of {len(missing)} runs failed; {kept}:", *lines])
        raise RunsFailed(message, _table(settings, paths))
    return _table(settings, paths)


def _table(settings: Sequence[Mapping[str, Any]], paths: Sequence[Path]) -> pd.DataFrame:
    """Return the rows of the settings whose results are there, indexed by their number."""
    done = [number for number, path in enumerate(paths) if path.exists()]
    records = [read_json(paths[number], "delete it: the same call does this run again") for number in done]
    found = pd.DataFrame([each["result"] for each in records], index=done)
    given = pd.DataFrame([settings[number] for number in done], index=done)
    return given.merge(found, left_index=True, right_index=True, suffixes=("", "_result"))


def _values(setting: Mapping[str, Any]) -> str:
    return f"{{{', '.join(f'{name!r}: {value!r:.100}' for name, value in setting.items())}}}"


def _run(
    function: Callable[..., Mapping[str, Any]],
    missing: Sequence[tuple[Path, Mapping[str, Any]]],
    executor: Any,
    bar: "tqdm[Any]",
    cost: Callable[[Mapping[str, Any]], int | float],
) -> list[tuple[Mapping[str, Any], BaseException]]:
    """Run the missing settings, and keep each result; return the settings that failed, and why."""
    home, calls = here(), [(path, setting, functools.partial(function, **setting)) for path, setting in missing]
    futures = {executor.submit(call_elsewhere, call, home, named()): (path, setting) for path, setting, call in calls}
    waiting, failed = set(futures), list[tuple[Mapping[str, Any], BaseException]]()
    try:
        while waiting:
            done = _finished(waiting)
            waiting -= done
            for future in done:
                path, setting = futures[future]
                if (reason := future.exception() or _not_plain(future.result())) is not None:
                    failed.append((setting, reason))
                    continue
                record = {"function": _name(function), "setting": describe(setting), "result": dict(future.result())}
                write_json(path, record)
                bar.update(cost(setting))
            bar.refresh()
    finally:
        for future in waiting:
            future.cancel()
    return failed


def _not_plain(result: Any) -> Exception | None:
    """Return why a result cannot be kept, None where it can."""
    try:
        json.dumps(dict(result))
    except (TypeError, ValueError) as reason:
        return TypeError(f"a run returns named results that JSON can hold, got {result!r:.200} ({reason})")
    return None


def _finished(waiting: set[Any]) -> set[Any]:
    """Wait for some to be done, but no longer than REFRESH; the jobs of submitit are no futures of the library."""
    if all(isinstance(future, concurrent.futures.Future) for future in waiting):
        return concurrent.futures.wait(waiting, _REFRESH, concurrent.futures.FIRST_COMPLETED).done
    done = {future for future in waiting if future.done()}
    if not done:
        time.sleep(_POLL)
    return done


def _check(settings: Sequence[Mapping[str, Any]], identities: Sequence[str]) -> None:
    if not settings:
        raise ValueError("a sweep needs at least one setting")
    names = {tuple(sorted(setting)) for setting in settings}
    if len(names) > 1:
        raise ValueError(f"all settings of a sweep have the same names; there are {', '.join(map(str, sorted(names)))}")
    identity, times = Counter(identities).most_common(1)[0]
    if times > 1:
        setting = json.dumps(describe(settings[identities.index(identity)]))
        raise ValueError(
            f"the setting {setting} comes {times} times: give seeds to repeat a run; equal numbers, as 1, 1.0 and "
            "True, are one"
        )


def _name(function: Callable[..., object]) -> str:
    name = getattr(function, "__qualname__", "<lambda>")
    if name.endswith("<lambda>"):
        raise ValueError(f"the function of a sweep has a name, by which its results are found again; got {function!r}")
    return f"{function.__module__}.{name}"
