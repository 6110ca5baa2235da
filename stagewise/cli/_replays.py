"""`stagewise cause ...` and `densify`: a run continues changed, or is replayed with more checkpoints."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli._names import all_exact, probe_named, probes_again
from stagewise.cli._options import Controls, DryRun, LeftOut, OwnTask, ProbeOptions, ReplayOptions, SequenceCount
from stagewise.cli._recipes import read_axes, read_settings, recipe_of_run
from stagewise.cli._sources import print_report

if TYPE_CHECKING:
    import pandas as pd

    from stagewise.plan import ClampHead
    from stagewise.recipe import Recipe
    from stagewise.replay import Branch
    from stagewise.replay.windows import Window


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
    replay: ReplayOptions,
) -> None:
    """Continue a run from a checkpoint with a head held; print how much later each transition comes, and controls."""
    from stagewise.replay import with_controls

    recipe = recipe_of_run(folder, replay.own_task or (), "intervene continues with")
    clamps = clamps_of(hold or (), start)
    branches = with_controls(clamps, folder, recipe, controls)
    compare_and_print(folder, recipe, branches, dry=replay.dry, **replay.resources())


def compare_and_print(
    folder: Path, recipe: "Recipe", branches: "Sequence[Branch]", *, dry: bool, **how: Any
) -> "pd.DataFrame | None":
    """Print the cost of branches and, unless that is all, the delays of transitions in them; return these rows."""
    from stagewise.checkpoints.run_folder import unfinished
    from stagewise.replay import compare, cost
    from stagewise.words import delays_in_words

    price = cost(folder, branches)
    if ends := unfinished(folder):
        print(f"{ends}, and is compared up to there")
    print(price)
    if dry:
        return None
    rows = compare(folder, recipe, branches, **how)
    print_answer(folder, recipe, how["device"])
    rows = rows[rows["step"].isin([one.start for one in branches])]
    for row in rows.to_dict("records"):
        print(delays_in_words(row))
    print_report(folder)
    return rows


def print_answer(folder: Path, recipe: "Recipe", device: str) -> None:
    """Print the transitions of the answer of a run that was compared, by their numbers."""
    from stagewise.replay import answer_of, own_table
    from stagewise.words import each_transition

    stages = answer_of(folder, own_table(folder, recipe, False, device))
    for number, sentence in enumerate(each_transition(stages) if stages else [], start=1):
        print(f"transition {number}: {sentence}")


HELD: dict[str, Any] = {"": "out", "weights": "weights", "pattern": "pattern", "uniform": "uniform"}
"""Word behind the name of a head -> kind of its clamp; any other word names a relation."""


def clamps_of(heads: Sequence[str], start: int) -> "list[ClampHead]":
    """Return the clamps of heads as `--hold` names them."""
    from stagewise.plan import ClampHead

    clamps = []
    for text in heads:
        if (match := re.fullmatch(r"L(\d+)H(\d+)(?:=(.+))?", text)) is None:
            raise ValueError(f'--hold takes a head, and what of it is held, as L0H1 or "L0H1=I(2)"; got {text!r}')
        kind = HELD.get(how := match[3] or "", "relation")
        clamps.append(ClampHead(int(match[1]), int(match[2]), start, kind, how if kind == "relation" else None))
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
    replay: ReplayOptions,
) -> None:
    """Continue a run from a checkpoint with its recipe changed; print how much later each transition comes."""
    from stagewise.findings.delays import find_delays
    from stagewise.replay.branching import branches_of
    from stagewise.sweeping import parameter_grid

    recipe = recipe_of_run(folder, replay.own_task or (), "branch continues with")
    cells = parameter_grid(**read_axes(settings or []))
    changes = [read_settings([f"{key}={value}" for key, value in cell.items()]) for cell in cells]
    branches = branches_of(folder, changes, start, recipe, controls=controls, seeds=seeds)
    rows = compare_and_print(folder, recipe, branches, dry=replay.dry, **replay.resources())
    if rows is not None and seeds > 1:
        rows = rows[rows["control"] != "another time"].rename(columns={"change": "without"})
        print(find_delays(rows).rename(columns={"without": "change"}).round(1).to_string(index=False))


def attribute(
    folder: RunOf,
    transition: Annotated[
        str,
        typer.Option(help='its number in the answer, as 2, or what shows it, as "attention to I(2)"'),
    ],
    start: Annotated[int, typer.Option("--from", help="the step from which on predictions are left out")],
    stop: Annotated[int | None, typer.Option("--until", help="the step from which on they count again")] = None,
    classes: LeftOut = None,
    orders: Annotated[int, typer.Option(min=1, help="other orders of the batches, whose delays are the noise")] = 2,
    *,
    replay: ReplayOptions,
) -> None:
    """Replay a run without classes of its predictions; print how much later a transition comes, and which made it."""
    from stagewise.replay import cost
    from stagewise.replay.attributing import attribute, first_replays, transition_named
    from stagewise.words import attributed_in_words

    recipe, names = recipe_of_run(folder, replay.own_task or (), "attribute continues with"), classes or ["at position"]
    noise, halves = first_replays(folder, names, start, stop, recipe, orders)
    print(f"at first, {cost(folder, [*noise, *(one for _, one in halves)])}")
    if replay.dry:
        return
    named = transition_named(transition, folder, recipe, start, not replay.quiet, replay.device)
    how: Any = {"orders": orders, **replay.resources()}
    rows = attribute(folder, transition, names, start, stop, recipe=recipe, **how)
    print_answer(folder, recipe, replay.device)
    event = {"transition": named.label, "event": named.event}
    print(*attributed_in_words(rows.to_dict("records"), event), sep="\n")


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
    replay: ReplayOptions,
) -> None:
    """Say of each head whether each transition of a run needs it: replays without it, beside their controls."""
    from stagewise.checkpoints.run_folder import CERTIFICATE
    from stagewise.replay import cost, place_of, prompts_of
    from stagewise.replay.certifying import certify, experiments_of
    from stagewise.words import certified_in_words, delay_in_words

    recipe, names = recipe_of_run(folder, replay.own_task or (), "certify continues with"), classes or ()
    asked: Any = {"seeds": seeds, "pairs": prompts_of(folder, recipe, pairs)}
    experiments = experiments_of(folder, recipe, names, start, **asked, progress=not replay.quiet, device=replay.device)
    print(cost(folder, [one for experiment in experiments for one in experiment.branches]))
    if replay.dry:
        return
    rows = certify(folder, names, start=start, recipe=recipe, **asked, **replay.resources())
    delays = [delay_in_words(row["value"], row["lo"], row["hi"]) for row in rows.to_dict("records")]
    print(rows[["event", "transition", "step", "subject", "verdict"]].assign(delay=delays).to_string(index=False))
    if pairs is None:
        print_answer(folder, recipe, replay.device)
    for _, of in rows.groupby(["event", "transition"], sort=False):
        print(certified_in_words(of.to_dict("records")))
    place = place_of(folder, recipe, asked["pairs"])
    print(f"the intervals of the controls: {place / CERTIFICATE}")
    print_report(place)


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
    measurement: ProbeOptions,
) -> None:
    """Save more checkpoints of a run where its stages begin.

    They are bit-identical; they are measured, and the report is written again.
    """
    from stagewise.analysis import measure_run
    from stagewise.checkpoints import unmeasured
    from stagewise.checkpoints.run_folder import REPORT, TABLE, remove_leftovers
    from stagewise.checkpoints.series import open_series
    from stagewise.measurement import recorded_dtype
    from stagewise.replay import densifying

    recipe = recipe_of_run(folder, own_task or (), "densify replays")
    windows, saved = _windows(folder, between), open_series(folder).steps
    lacking = unmeasured(folder) if (folder / TABLE).exists() else saved
    if not windows and not lacking:
        print(f"no boundary of {folder} has an interval to make narrower: nothing to do, or give --between")
        return
    steps = densifying.steps_within(windows, saved[-1], budget, every, saved)
    for window in windows:
        print(window)
    cost = densifying.cost(folder, steps)
    if not cost.checkpoints and not lacking:
        smaller = "" if every is None else " or a smaller --every"
        print(f"all these steps are saved already: nothing to do, or give --between{smaller}")
        remove_leftovers(folder)
        report, table = folder / REPORT, folder / TABLE
        if report.exists() and table.exists() and report.stat().st_mtime_ns < table.stat().st_mtime_ns:
            print_report(folder)
        return
    print(cost if cost.checkpoints else f"all these steps are saved already; {len(lacking)} of them are measured")
    sequences = _sequences(recipe, folder, sequences, len(saved) + cost.checkpoints)
    extra = [probe_named(name) for name in measurement.probe or ()]
    # These may be refused, and nothing is trained then.
    again = {**measurement.resources(), "dtype": recorded_dtype(folder), "extra_probes": extra}
    again["probes"] = probes_again(recipe, folder, measurement.only or (), measurement.without or (), extra)
    if measurement.exact:
        again["probes"] = all_exact(again["probes"])
    if dry:
        return
    where: Any = {"device": measurement.device, "dtype": measurement.dtype, "progress": not measurement.quiet}
    densifying.densify_steps(folder, steps, recipe=recipe, **where)
    measure_run(recipe, folder, sequences=sequences, **again)
    for window in _windows(folder):
        print(f"now: {window}")
    print_report(folder)


def _sequences(recipe: "Recipe", folder: Path, requested: int | None, checkpoints: int) -> int | None:
    """Return on how many sequences to measure, None for the usual batch; other ones than the table's are announced."""
    from stagewise.measurement import recorded_sequences
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
    from stagewise.replay.windows import windows
    from stagewise.saved_findings import load_stages

    if between:
        return [window_of(folder, between)]
    stages = load_stages(folder)
    return [] if stages is None else windows(stages)
