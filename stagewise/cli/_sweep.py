"""`stagewise series sweep`: one task over a grid of settings, a run folder each, and a table of what came out."""

import dataclasses
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer

import stagewise
from stagewise import checkpoints
from stagewise.cli import _options as options
from stagewise.cli._recipes import read_axes, recipe_of

SUMMARY = "summary.csv"

SHARED = ("device", "dtype", "memory")
"""What every run of a sweep is given."""

RESULTS = ".results"
"""Beside the run folders, and none of what a shell finds as `FOLDER/*/`."""


@dataclasses.dataclass(frozen=True)
class SweepOptions(options.PassOptions):
    """Where, and how many at once, the runs of a sweep are trained and measured."""

    workers: Annotated[int, typer.Option(help="processes, of one thread each")] = 2


def sweep(
    task: Annotated[str, typer.Argument(help="a task of the catalogue, or module:Class")],
    *,
    folder: Annotated[
        Path | None, typer.Option(help="holds the run folders; finished runs in it are not repeated")
    ] = None,
    changes: options.RecipeOptions,
    restricted: options.Restricted = None,
    passes: SweepOptions,
) -> None:
    """Run a task for every combination of values, as in --set plan.seeds.init=0,1,2 --set task.importance=1.0,1.5."""
    from stagewise.sweeping import RunsFailed, parameter_grid

    folder = folder or Path("runs", f"sweep-{task.replace(':', '-')}")
    cells = parameter_grid(**read_axes(changes.settings or []))
    settings = [[f"{key}={value}" for key, value in cell.items()] for cell in cells]
    recipes = [recipe_of(task, dataclasses.replace(changes, settings=each)) for each in settings]
    folders = [str(folder / ("-".join(each).replace("/", "_") or "run")) for each in settings]
    same = {"restricted": restricted, **_resources(passes)}
    runs = [{"recipe": recipe, "folder": at, **same} for recipe, at in zip(recipes, folders, strict=True)]
    how: Any = {"workers": passes.workers, "results": RESULTS, "name": itemgetter("folder")}
    how["progress"] = not passes.quiet
    try:
        table = _by_axes(stagewise.sweep(run_one, runs, folder, **how), cells)
    except RunsFailed as failed:
        if len(failed.finished):
            print(_by_axes(failed.finished, cells).to_string(index=False))
        raise ValueError(str(failed)) from failed
    checkpoints.write(folder / SUMMARY, lambda partial: table.to_csv(partial, index=False))
    print(table.to_string(index=False))
    print(f"table: {folder / SUMMARY}")


def _by_axes(table: Any, cells: Sequence[Mapping[str, str]]) -> Any:
    """Return the rows of finished runs with the values of the axes in front, in place of the recipe."""
    summary = table.drop(columns=["recipe", "restricted", *SHARED], errors="ignore")
    for number, axis in enumerate(cells[0]):
        summary.insert(number, axis, [cells[row][axis] for row in table.index])
    return summary


def _resources(passes: SweepOptions) -> dict[str, Any]:
    """Return where runs are executed and in what; a default is not named, so that results from without it are found."""
    from stagewise.models import check_device, check_dtype

    check_dtype(passes.dtype)
    check_device(passes.device)
    given, usual = passes.resources(), options.PassOptions().resources()
    return {name: given[name] for name in SHARED if given[name] != usual[name]}


def run_one(
    recipe: "stagewise.Recipe",
    folder: str,
    restricted: bool | None,
    device: str = "cpu",
    memory: int | None = None,
    dtype: Any = "float32",
) -> Mapping[str, Any]:
    """Run one recipe into its folder; return its number of stages, its final loss and its boundaries."""
    how: Any = {"device": device, "dtype": dtype, "memory": memory, "progress": False}
    analysis = stagewise.run(recipe, folder, restricted=restricted, **how)
    quantity = "squared_error" if recipe.task.sample(1, 0).is_regression else "cross_entropy"
    losses = stagewise.table.select(analysis.table, "Loss", quantity).sort_values("step")["value"]
    stages = analysis.stages
    return {
        "stages": 0 if stages is None else len(stages),
        "final loss": float(losses.iloc[-1]),
        "boundaries": "" if stages is None else ", ".join(f"{step:g}" for step in stages.table["end"].iloc[:-1]),
    }
