"""`stagewise densify`: a run replayed where its boundaries lie, with more checkpoints there, measured and reported."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli._names import all_exact, probe_named, probes_again
from stagewise.cli._options import DryRun, MoreProbes, OwnTask, PassOptions, ProbeOptions, SequenceCount

if TYPE_CHECKING:
    from stagewise.findings._windows import Window
    from stagewise.recipe import Recipe


def densify(
    folder: Annotated[Path, typer.Argument(help="a run folder, measured where --between is not given")],
    *,
    between: Annotated[
        tuple[int, int] | None,
        typer.Option(
            metavar="FIRST STOP", help="steps, the second not included; the intervals of all boundaries if not given"
        ),
    ] = None,
    every: Annotated[
        int | None, typer.Option(help="steps from one checkpoint to the next; as the budget allows if not given")
    ] = None,
    budget: Annotated[int, typer.Option(help="number of checkpoints that are added, approximately")] = 60,
    own_task: OwnTask = None,
    dry: DryRun = False,
    probe: MoreProbes = None,
    chosen: ProbeOptions,
    sequences: SequenceCount = None,
    passes: PassOptions,
) -> None:
    """Save more checkpoints of a run where its stages begin, bit-identical, measure them and write the report again."""
    from stagewise.analysis import measure_run
    from stagewise.checkpoints.series import open_series
    from stagewise.cli._recipes import recipe_of_run
    from stagewise.cli._sources import print_report
    from stagewise.measurement._recorded import recorded_dtype
    from stagewise.replay import densifying

    recipe = recipe_of_run(folder, own_task or (), "densify replays")
    windows = _windows(folder, between)
    if not windows:
        print(f"no boundary of {folder} has an interval to make narrower: nothing to do, or give --between")
        return
    saved = open_series(folder).steps
    steps = densifying.steps_within(windows, saved[-1], budget, every, saved)
    for window in windows:
        print(window)
    cost = densifying.cost(folder, steps)
    if not cost.checkpoints:
        smaller = "" if every is None else " or a smaller --every"
        print(f"all these steps are saved already: nothing to do, or give --between{smaller}")
        return
    print(cost)
    sequences = _sequences(recipe, folder, sequences, len(saved) + cost.checkpoints)
    extra = [probe_named(name) for name in probe or ()]
    # These may be refused, and nothing is trained then.
    again = {**passes.resources(), "dtype": recorded_dtype(folder), "extra_probes": extra}
    again["probes"] = probes_again(recipe, folder, chosen.only or (), chosen.without or (), extra)
    if chosen.exact:
        again["probes"] = all_exact(again["probes"])
    if dry:
        return
    where: Any = {"device": passes.device, "dtype": passes.dtype, "progress": not passes.quiet}
    densifying.densify_steps(folder, steps, recipe=recipe, **where)
    measure_run(recipe, folder, sequences=sequences, **again)
    for window in _windows(folder):
        print(f"now: {window}")
    print_report(folder)


def _sequences(recipe: "Recipe", folder: Path, requested: int | None, checkpoints: int) -> int | None:
    """Return on how many sequences to measure, None for the usual batch; other ones than the table's are announced."""
    from stagewise.measurement._recorded import recorded_sequences
    from stagewise.measurement.probe_batch import load_batch

    recorded = recorded_sequences(folder)
    if requested is None:
        # The usual batch of a text leaves sequences out: so many of them again would be other ones.
        return None if recorded == len(load_batch(recipe, folder)) else recorded
    if recorded is not None and requested != recorded:
        print(f"all {checkpoints} checkpoints are measured on {requested} sequences, the table has {recorded}")
    return requested


def _windows(folder: Path, between: tuple[int, int] | None = None) -> "Sequence[Window]":
    """Return the window that is given, else those that the stages of a run propose, the widest first."""
    from stagewise.replay.densifying import window_of
    from stagewise.saved_findings import load_stages

    if between:
        return [window_of(folder, between)]
    stages = load_stages(folder)
    return [] if stages is None else stages.windows
