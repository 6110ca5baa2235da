"""`stagewise trajectory`: the checkpoints of a run held against each other: a table, two figures, the report."""

from functools import partial

from stagewise.cli._commands import one_thread
from stagewise.cli._options import DataOptions, Device, Origin, Out, Quiet


def trajectory(
    source: Origin,
    *,
    out: Out = None,
    data: DataOptions,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Compare the checkpoints of a run folder or any source: representations, heads' subspaces, and the trajectory."""
    one_thread()
    from stagewise import plot
    from stagewise.checkpoints.run_folder import COMPARISONS, write
    from stagewise.cli._sources import opened_source, print_report
    from stagewise.measurement.comparing import compare_checkpoints
    from stagewise.measurement.trajectory import measure_trajectory
    from stagewise.table import declare, declared, tidy

    opened = opened_source(source, data, out)
    series, batch, folder = opened.series, opened.batch, opened.folder
    compared = compare_checkpoints(series, batch, device=device, progress=not quiet)
    path = measure_trajectory(series, batch, device=device, progress=not quiet)
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
