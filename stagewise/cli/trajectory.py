"""`stagewise trajectory`: the checkpoints of a run held against each other: a table, two figures, the report."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stagewise.cli.options import Device, OwnTask, Quiet, one_thread, reported_errors


def trajectory(
    folder: Annotated[Path, typer.Argument(help="a run folder")],
    own_task: OwnTask = None,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Compare a run's checkpoints with each other: representations, heads' subspaces, and the run's trajectory."""
    with reported_errors():
        one_thread()
        from stagewise import plot
        from stagewise.analysis import run_batch
        from stagewise.checkpoints.run_folder import COMPARISONS, TABLE, write
        from stagewise.checkpoints.series import open_series
        from stagewise.cli.recipes import recipe_in
        from stagewise.measurement.comparing import compare_checkpoints
        from stagewise.measurement.trajectory import trajectory
        from stagewise.processes import cores
        from stagewise.reporting.page import report
        from stagewise.table import declare, declared, tidy

        recipe = recipe_in(folder, tasks=own_task or ())
        series = open_series(folder, classes=[type(recipe.architecture.init)])
        batch = run_batch(recipe, folder)
        compared = compare_checkpoints(series, batch, device=device, progress=not quiet)
        way = trajectory(series, batch, device=device, progress=not quiet)
        table = tidy([compared, way])
        declare(table, declared(compared) | declared(way))
        print(f"{len(table)} rows: {write(folder / COMPARISONS, table.to_parquet)}")
        to_last = compared[compared["compared"] == "last checkpoint"]
        whole = plot.trajectory(way).get_figure(root=True)
        assert whole is not None
        figures = {
            "alignment.svg": plot.quantity(to_last, "LinearCKA", "alignment"),
            "trajectory.svg": whole,
        }
        for name, figure in figures.items():
            print(write(folder / name, partial(figure.savefig, format="svg")))
        if (folder / TABLE).exists():
            print(f"report: {report(folder, workers=cores())}")
