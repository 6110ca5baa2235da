"""`stagewise series trajectory`, `relations` and `llc`: what is measured of checkpoints beside the probes."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli._options import DataOptions, Device, DryRun, ExecutorName, Origin, Out, Quiet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from stagewise.measurement import Sampler
    from stagewise.task import Batch

CHECKPOINTS = 24
"""Checkpoints that are sampled where none are chosen."""

HEADS = 4
"""Heads whose coefficients are printed beside the whole model's; of more, the table alone has them."""


def trajectory(
    source: Origin,
    *,
    out: Out = None,
    data: DataOptions,
    device: Device = "cpu",
    executor: ExecutorName = None,
    quiet: Quiet = False,
) -> None:
    """Compare the checkpoints of a run folder or any source: representations, and the trajectory."""
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


@dataclasses.dataclass(frozen=True)
class SamplerOptions:
    """The numbers of `langevin.Sampler` that the command line can choose."""

    step_size: Annotated[float | None, typer.Option(help="length of a step; 0.02 if not given")] = None
    localization: Annotated[float | None, typer.Option(help="pull back to the checkpoint; 100 if not given")] = None
    draws: Annotated[int | None, typer.Option(help="steps of a chain that are averaged; 400 if not given")] = None
    burn_in: Annotated[int | None, typer.Option(help="steps of a chain before them; 200 if not given")] = None
    chains: Annotated[int | None, typer.Option(help="number of chains, each from the checkpoint; 4 if not given")] = (
        None
    )
    sequences: Annotated[int | None, typer.Option(help="drawn anew for each step; all if not given")] = None

    def sampler(self) -> "Sampler":
        """Return the sampler of these, the others as they are by default."""
        from stagewise.measurement import Sampler, check_devinterp

        try:
            check_devinterp()
        except ImportError as reason:
            raise ValueError(str(reason)) from reason
        return Sampler(**{name: value for name, value in dataclasses.asdict(self).items() if value is not None})


def llc(
    source: Origin,
    *,
    out: Out = None,
    data: DataOptions,
    heads: Annotated[bool, typer.Option("--heads", help="sample the weights of each head by themselves too")] = False,
    chain: SamplerOptions,
    device: Device = "cpu",
    dry: DryRun = False,
    executor: ExecutorName = None,
    quiet: Quiet = False,
) -> None:
    """Sample the local learning coefficient of a run folder or any source: how degenerate the loss is."""
    sampler = chain.sampler()
    from stagewise.checkpoints.run_folder import COEFFICIENTS, SAMPLED, TABLE, write
    from stagewise.cli._sources import opened_source, print_report, seen_by
    from stagewise.cli._sweep import executor_named
    from stagewise.measurement.learning_coefficient import Sampling, measure_learning_coefficients
    from stagewise.measurement.unsettled import unsettled, unsettled_in_words
    from stagewise.saved_findings import familiarity_in
    from stagewise.words import caution

    data = dataclasses.replace(data, checkpoints=CHECKPOINTS) if data.choice is None else data
    opened = opened_source(seen_by(executor, source), data, out)
    batch, series, folder = opened.batch, opened.series, opened.folder
    sampled_folder = (folder / SAMPLED).absolute()
    sampling = Sampling(series, batch, sampler, heads, sampled_folder, device)
    print(sampling.cost())
    if advice := sampling.advice():
        print(advice)
    if dry:
        return
    opened.claim()
    with executor_named(executor, folder) as pool:
        where: dict[str, Any] = {"folder": sampled_folder, "device": device, "executor": pool}
        table = measure_learning_coefficients(series, batch, sampler, heads=heads, progress=not quiet, **where)
    print(caution(familiarity_in(folder)) if (folder / TABLE).exists() else "", end="")
    for line in lines(table):
        print(line)
    if words := unsettled_in_words(unsettled(table)):
        print(words)
    print(f"{len(table)} rows: {write(folder / COEFFICIENTS, table.to_parquet)}")
    print_report(folder)


def lines(table: "pd.DataFrame") -> "Iterator[str]":
    """Yield a line for each checkpoint, of few heads with theirs."""
    from stagewise.table import head_label, heads_in

    few = len(heads_in(table)) <= HEADS
    for step, rows in table.groupby("step"):
        of = {quantity: part for quantity, part in rows.groupby("quantity")}
        whole, drift = of["whole_model"].iloc[0], of["drift"].iloc[0]
        ends = f" [{whole['lo']:.1f}, {whole['hi']:.1f}]" if whole["lo"] == whole["lo"] else ""
        heads = of["of_head"].to_dict("records") if few and "of_head" in of else []
        parts = [f"{head_label(row['layer'], row['head'])} {row['value']:.1f}" for row in heads]
        yield "; ".join([f"step {step}: {whole['value']:.1f}{ends}, drift {drift['value']:.1f}", *parts])
