"""`stagewise trajectory` and `relations`: checkpoints held against each other, heads against relations."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli._options import DataOptions, Device, ExecutorName, Origin, Out, Quiet

if TYPE_CHECKING:
    from stagewise.task import Batch


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
    from stagewise.cli._sources import opened_source, print_report, seen_by
    from stagewise.cli._sweep import executor_named
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


def relations(
    source: Origin,
    *,
    step: Annotated[int | None, typer.Option(help="of the checkpoint; the last if not given")] = None,
    data: DataOptions,
    device: Device = "cpu",
) -> None:
    """Propose, for heads that no relation of the batch explains, the one that explains their attention best."""
    from stagewise.cli._sources import opened_source
    from stagewise.measurement.relation_search import propose_relations

    opened = opened_source(source, data)
    batch = opened.batch
    heads = propose_relations(opened.series, batch, step, device=device).to_dict("records")
    proposed = [row for row in heads if row["relation"] and not row["known"]]
    for row in proposed:
        print(_line(row, batch))
    known = sum(row["known"] for row in heads)
    print(
        f"{len(heads)} heads: {known} attend to a relation of the batch, {len(proposed)} to one proposed here, "
        f"{len(heads) - known - len(proposed)} to none that was found"
    )


def _line(row: Mapping[Any, Any], batch: "Batch") -> str:
    """Return the relation of a head in words, how much it explains, and where in two sequences."""
    from stagewise.table import head_label

    parts = [
        f"sequence {sequence}, token {int(batch.tokens[sequence, query])} at {query} "
        f"-> token {int(batch.tokens[sequence, key])} at {key}"
        for sequence, query, key in row["examples"]
    ]
    explained = f"{row['explained']:.2f} of the attention (chance {row['chance']:.2f}, error {row['error']:.3f})"
    where = f"of {row['queries']:.0%} of the queries"
    return f'{head_label(row["layer"], row["head"])} "{row["relation"]}": {explained} {where}; {"; ".join(parts)}'
