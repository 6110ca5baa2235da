"""`stagewise series relations`: what heads attend to that no relation of the batch explains."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli._options import DataOptions, Device, Origin

if TYPE_CHECKING:
    from stagewise.task import Batch


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
