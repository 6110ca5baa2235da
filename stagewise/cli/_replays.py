"""`stagewise cause ...` and `densify`: a run continues changed, or is replayed with more checkpoints."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import stagewise
from stagewise import checkpoints, measurement, replay, words
from stagewise.cli import _options as options
from stagewise.cli._names import all_exact, probe_named, probes_again
from stagewise.cli._options import Controls, DryRun, LeftOut, OwnTask, SequenceCount
from stagewise.cli._recipes import read_axes, read_settings, recipe_of_run
from stagewise.cli._sources import print_report

RunOf = Annotated[Path, typer.Argument(help="a run folder")]


def intervene(
    folder: RunOf,
    start: Annotated[int, typer.Option("--from", help="the step from which on the head is held")],
    hold: Annotated[
        list[str] | None,
        typer.Option(
            help="a head that writes nothing, as L0H1; whose weights stay, L0H1=weights; those of queries and keys, "
            'L0H1=pattern; that attends uniformly, L0H1=uniform; or to a relation, "L0H1=I(2)"; may be repeated'
        ),
    ] = None,
    controls: Controls = True,
    *,
    how: options.ReplayOptions,
) -> None:
    """Continue a run from a checkpoint with a head held; print how much later each transition comes, and controls."""
    parent = _parent(folder, how, "intervene continues with")
    _compare(parent, replay.with_controls(parent, clamps_of(hold or (), start), controls), how.dry)


def _parent(folder: Path, how: options.ReplayOptions, verb: str, pairs: str | None = None) -> "replay.Parent":
    return replay.Parent.of(folder, recipe_of_run(folder, how.own_task or (), verb), pairs, **how.resources())


def _compare(parent: "replay.Parent", branches: "Sequence[replay.Branch]", dry: bool) -> Any:
    """Print the cost of branches and, unless that is all, the delays of transitions in them; return these rows."""
    price = parent.cost(branches)
    if ends := checkpoints.unfinished(parent.folder):
        print(f"{ends}, and is compared up to there")
    print(price)
    if dry:
        return None
    rows = parent.compare(branches)
    _print_answer(parent)
    rows = rows[rows["step"].isin([one.start for one in branches])]
    for row in rows.to_dict("records"):
        print(words.delays_in_words(row))
    print_report(parent.folder)
    return rows


def _print_answer(parent: "replay.Parent") -> None:
    """Print the transitions of the answer of a run that was compared, by their numbers."""
    stages = parent.answer
    for number, sentence in enumerate(words.each_transition(stages) if stages else [], start=1):
        print(f"transition {number}: {sentence}")


HELD: dict[str, Any] = {"": "out", "weights": "weights", "pattern": "pattern", "uniform": "uniform"}
"""Word behind the name of a head -> kind of its clamp; any other word names a relation."""


def clamps_of(heads: Sequence[str], start: int) -> "list[stagewise.ClampHead]":
    """Return the clamps of heads as `--hold` names them."""
    clamps = []
    for text in heads:
        if (match := re.fullmatch(r"L(\d+)H(\d+)(?:=(.+))?", text)) is None:
            raise ValueError(f'--hold takes a head, and what of it is held, as L0H1 or "L0H1=I(2)"; got {text!r}')
        kind = HELD.get(how := match[3] or "", "relation")
        clamps.append(
            stagewise.ClampHead(int(match[1]), int(match[2]), start, kind, how if kind == "relation" else None)
        )
    if not clamps:
        raise ValueError("name a head to hold, as in --hold L0H1")
    return clamps


def branch(
    folder: RunOf,
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
    controls: Controls = True,
    *,
    how: options.ReplayOptions,
) -> None:
    """Continue a run from a checkpoint with its recipe changed; print how much later each transition comes."""
    from stagewise.sweeping import parameter_grid

    parent = _parent(folder, how, "branch continues with")
    cells = parameter_grid(**read_axes(settings or []))
    changes = [read_settings([f"{key}={value}" for key, value in cell.items()]) for cell in cells]
    branches = replay.branching.branches_of(parent, changes, start, controls=controls, seeds=seeds)
    rows = _compare(parent, branches, how.dry)
    if rows is not None and seeds > 1:
        rows = rows[rows["control"] != "another time"].rename(columns={"change": "without"})
        print(stagewise.find_delays(rows).rename(columns={"without": "change"}).round(1).to_string(index=False))


def certify(
    folder: RunOf,
    start: Annotated[
        int | None,
        typer.Option("--from", help="the first step without; else the last checkpoint before each transition begins"),
    ] = None,
    classes: LeftOut = None,
    seeds: Annotated[int, typer.Option(min=1, help="orders of the batches in which a verdict has to hold")] = 1,
    pairs: Annotated[
        str | None, typer.Option(help="a file of prompts, as `measure` takes it: whether its behaviour needs each head")
    ] = None,
    *,
    how: options.ReplayOptions,
) -> None:
    """Say of each head whether each transition of a run needs it: replays without it, beside their controls."""
    parent, names = _parent(folder, how, "certify continues with", pairs), classes or ()
    experiments = replay.certifying.experiments_of(parent, names, start, seeds)
    print(parent.cost([one for experiment in experiments for one in experiment.branches]))
    if how.dry:
        return
    asked = {"seeds": seeds, "pairs": parent.pairs, "recipe": parent.recipe, **how.resources()}
    rows = stagewise.certify(folder, names, start=start, **asked)
    delays = [words.delay_in_words(row["value"], row["lo"], row["hi"]) for row in rows.to_dict("records")]
    print(rows[["event", "transition", "step", "subject", "verdict"]].assign(delay=delays).to_string(index=False))
    if pairs is None:
        _print_answer(parent)
    for _, of in rows.groupby(["event", "transition"], sort=False):
        print(words.certified_in_words(of.to_dict("records")))
    print(f"the intervals of the controls: {parent.place / checkpoints.run_folder.CERTIFICATE}")
    print_report(parent.place)


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
    sequences: SequenceCount = None,
    probes: options.ProbeOptions,
) -> None:
    """Save more checkpoints of a run where its stages begin.

    They are bit-identical; they are measured, and the report is written again.
    """
    from stagewise.analysis import measure_run

    recipe = recipe_of_run(folder, own_task or (), "densify replays")
    windows, saved = _windows(folder, between), stagewise.open_series(folder).steps
    lacking = checkpoints.unmeasured(folder) if (folder / checkpoints.TABLE).exists() else saved
    if not windows and not lacking:
        print(f"no boundary of {folder} has an interval to make narrower: nothing to do, or give --between")
        return
    steps = replay.densifying.steps_within(windows, saved[-1], budget, every, saved)
    for window in windows:
        print(window)
    cost = replay.densifying.cost(folder, steps)
    if not cost.checkpoints and not lacking:
        smaller = "" if every is None else " or a smaller --every"
        print(f"all these steps are saved already: nothing to do, or give --between{smaller}")
        checkpoints.run_folder.remove_leftovers(folder)
        report, table = folder / checkpoints.run_folder.REPORT, folder / checkpoints.TABLE
        if report.exists() and table.exists() and report.stat().st_mtime_ns < table.stat().st_mtime_ns:
            print_report(folder)
        return
    print(cost if cost.checkpoints else f"all these steps are saved already; {len(lacking)} of them are measured")
    sequences = _sequences(recipe, folder, sequences, len(saved) + cost.checkpoints)
    extra = [probe_named(name) for name in probes.probe or ()]
    # These may be refused, and nothing is trained then.
    again = {**probes.resources(), "dtype": measurement.recorded(folder).get("dtype", "float32"), "extra_probes": extra}
    again["probes"] = probes_again(recipe, folder, probes.only or (), probes.without or (), extra)
    if probes.exact:
        again["probes"] = all_exact(again["probes"])
    if dry:
        return
    where: Any = {"device": probes.device, "dtype": probes.dtype, "progress": not probes.quiet}
    replay.densifying.densify_steps(folder, steps, recipe=recipe, **where)
    measure_run(recipe, folder, sequences=sequences, **again)
    for window in _windows(folder):
        print(f"now: {window}")
    print_report(folder)


def _sequences(recipe: "stagewise.Recipe", folder: Path, requested: int | None, number: int) -> int | None:
    """Return on how many sequences to measure, None for the usual batch; other ones than the table's are announced."""
    recorded = measurement.recorded(folder).get("sequences")
    if requested is None:
        # The usual batch of a text leaves sequences out: so many of them again would be other ones.
        return None if recorded == len(stagewise.load_batch(recipe, folder)) else recorded
    if recorded is not None and requested != recorded:
        print(f"all {number} checkpoints are measured on {requested} sequences, the table has {recorded}")
    return requested


def _windows(folder: Path, between: tuple[int, int] | None = None) -> "Sequence[replay.windows.Window]":
    """Return the window that is given, else those that the stages of a run propose, the widest first."""
    if between:
        return [replay.densifying.window_of(folder, between)]
    stages = stagewise.load_stages(folder)
    return [] if stages is None else replay.windows.windows(stages)
