"""`stagewise trajectory`: the checkpoints of a run held against each other: a table, two figures, the report."""

from functools import partial
from typing import Any

from stagewise.cli._options import DataOptions, Device, ExecutorName, Origin, Out, Quiet


def trajectory(
    source: Origin,
    *,
    out: Out = None,
    data: DataOptions,
    device: Device = "cpu",
    executor: ExecutorName = None,
    quiet: Quiet = False,
) -> None:
    """Compare the checkpoints of a run folder or any source: representations, heads' subspaces, and the trajectory."""
    from stagewise import plot
    from stagewise.checkpoints.run_folder import COMPARISONS, write
    from stagewise.cli._executors import executor_named
    from stagewise.cli._sources import opened_source, print_report, seen_by
    from stagewise.measurement.trajectory import compare_on_trajectory
    from stagewise.table import declare, declared, tidy

    opened = opened_source(seen_by(executor, source), data, out)
    folder = opened.folder
    with executor_named(executor, folder.absolute()) as pool:
        where: dict[str, Any] = {"device": device, "executor": pool, "progress": not quiet}
        compared, path = compare_on_trajectory(opened.series, opened.batch, **where)
    table = tidy([compared, path])
    declare(table, declared(compared) | declared(path))
    opened.claim()
    print(f"{len(table)} rows: {write(folder / COMPARISONS, table.to_parquet)}")
    to_last = compared[compared["compared"] == "last checkpoint"]
    whole = plot.trajectory(path).get_figure(root=True)
    assert whole is not None
    figures = {"alignment.svg": plot.quantity(to_last, "LinearCKA", "alignment"), "trajectory.svg": whole}
    for name, figure in figures.items():
        print(write(folder / name, partial(figure.savefig, format="svg")))
    print_report(folder)
