"""`stagewise series relations` and `suites`: what heads attend to that no relation explains; known public suites."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli._options import AsJson, DataOptions, Device, Origin

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


def suites(as_json: AsJson = False) -> None:
    """List known public suites: their checkpoints, tokens a step, known faults, and where this is said."""
    from stagewise.checkpoints.suites import suites as known

    if as_json:
        print(json.dumps([suite._asdict() for suite in known()], indent=2))
        return
    for suite in known():
        tokens = f"; {suite.tokens_per_step:,} tokens a step" if suite.tokens_per_step else ""
        joined = f"; {' and '.join(filter(None, suite.join))} are one count" if suite.join else ""
        sizes = f" ({suite.sizes})" if suite.sizes else ""
        print(f"{suite.repositories}{sizes}\n  {suite.checkpoints}; seeds: {suite.seeds}{tokens}{joined}")
        print("\n".join(f"  {line}" for line in (suite.faults, suite.source) if line))
    print(
        "A checkpoint of 1B parameters has 2 GB in 16 bits, 4 GB in 32; `report` first says the size of its download."
    )
