"""`stagewise branch`: a run continues from a checkpoint with its recipe changed; what comes later, beside controls."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stagewise.cli._commands import one_thread
from stagewise.cli._intervene import compare_and_print
from stagewise.cli._options import ReplayOptions
from stagewise.cli._settings import read_axes, read_settings


def branch(
    folder: Annotated[Path, typer.Argument(help="a run folder")],
    start: Annotated[int, typer.Option("--from", help="the step from which on the recipe is another one")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="a field of the recipe and its value from there on, as plan.learning_rate=0.02; several fields are "
            "changed together, several values (0.02,0.005) are a branch each",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="orders of the batches from there on: the run's own one, and others")
    ] = 1,
    controls: Annotated[
        bool,
        typer.Option("--controls/--no-controls", help="the same from half the step on, and batches in another order"),
    ] = True,
    together: Annotated[int, typer.Option(min=1, help="train up to so many of one shape as one batched step")] = 1,
    *,
    replay: ReplayOptions,
) -> None:
    """Continue a run from a checkpoint with its recipe changed; print how much later each transition comes."""
    one_thread()
    from stagewise.cli._recipes import recipe_of_run
    from stagewise.findings.delays import find_delays
    from stagewise.replay.branching import branches_of
    from stagewise.sweeping import parameter_grid

    recipe = recipe_of_run(folder, replay.own_task or (), "branch continues with")
    cells = parameter_grid(**read_axes(settings or []))
    changes = [read_settings([f"{key}={value}" for key, value in cell.items()]) for cell in cells]
    branches = branches_of(folder, changes, start, recipe, controls=controls, seeds=seeds)
    how: Any = {"together": together, **replay.resources()}
    rows = compare_and_print(folder, recipe, branches, dry=replay.dry, **how)
    if rows is not None and seeds > 1:
        rows = rows[rows["control"] != "another time"].rename(columns={"change": "without"})
        print(find_delays(rows).rename(columns={"without": "change"}).round(1).to_string(index=False))
