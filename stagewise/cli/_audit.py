"""`stagewise audit`: what is wrong with a series of checkpoints."""

from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from stagewise.cli._cost import agree_to_cost
from stagewise.cli._executors import executor_named
from stagewise.cli._names import only_task, task_classes
from stagewise.cli._options import AsJson, Device, ExecutorName, Origin, OwnTask, SeriesOptions
from stagewise.cli._recipes import recipe_in
from stagewise.cli._sources import seen_by
from stagewise.processes import map_elsewhere

if TYPE_CHECKING:
    from stagewise.checkpoints.audit import Deep
    from stagewise.checkpoints.sources import Source


def audit(
    source: Origin,
    weights: Annotated[
        bool | None, typer.Option("--weights/--no-weights", help="read the weights too; from a hub only if asked for")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="run each checkpoint on one batch too, and compare")] = False,
    *,
    opening: SeriesOptions,
    own_task: OwnTask = None,
    device: Device = "cpu",
    executor: ExecutorName = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing, repeated, damaged and outlying checkpoints; exit status 1 if something is wrong."""
    from stagewise.checkpoints._choice import only_chosen
    from stagewise.checkpoints.audit import audit as audit_source
    from stagewise.checkpoints.series import find

    if executor and not deep:
        raise ValueError("--executor runs checkpoints elsewhere, which --deep asks for: give both")
    if own_task:
        task_classes(own_task)  # which the record may name
    found = find(seen_by(executor, source), **opening.finding())
    checkpoints = only_chosen(found, opening.branch, opening.choice)
    weights = (deep or not checkpoints.remote) if weights is None else weights
    if weights or deep:
        whole = checkpoints.of(entry for entry in checkpoints.entries if deep or not entry.ranged())
        agree_to_cost([whole], opening.yes)
    deep_batch = deep_of(source, checkpoints, opening.architecture, own_task, device) if deep else None
    jobs = Path()
    if executor:  # submitit's lie beside the tables of the source, not in its own folder
        from stagewise.analysis import folder_of

        jobs = folder_of(checkpoints).absolute()
    with executor_named(executor, jobs) as pool:
        if deep_batch is not None and pool is not None:
            deep_batch = deep_batch._replace(elsewhere=partial(map_elsewhere, cast(Executor, pool)))
        result = audit_source(checkpoints, weights=weights, deep=deep_batch)
    print(result.to_json() if as_json else result)
    if not result.clean:
        raise typer.Exit(1)


def deep_of(
    source: str, checkpoints: "Source", architecture: str | None, own_task: list[str] | None, device: str = "cpu"
) -> "Deep":
    """Return the task whose batch checkpoints are run on: their run's own, the named one, or repeated random tokens."""
    from stagewise.checkpoints.audit import Deep
    from stagewise.checkpoints.run_folder import RUN
    from stagewise.checkpoints.sources import architecture_of
    from stagewise.measurement.probe_batch import usable
    from stagewise.tasks import RepeatedTokens

    models = architecture_of(checkpoints, architecture)
    if Path(source, RUN).exists():
        task = recipe_in(Path(source), tasks=own_task or ()).task
    else:
        task = only_task(own_task) or RepeatedTokens.for_model(models)
    n = max(2, min(64, 2**22 // (task.n_ctx * models.n_outputs)))
    return Deep(models, usable(task.probe_batch(n, seed=0)), device)
