"""`stagewise certify`: what each transition of a run needs; the cost, a table, and a sentence a transition."""

import statistics
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from stagewise.cli._commands import one_thread
from stagewise.cli._options import ReplayOptions


def certify(
    folder: Annotated[Path, typer.Argument(help="a run folder")],
    start: Annotated[
        int | None,
        typer.Option("--from", help="the first step without; else the last checkpoint before each transition begins"),
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-out",
            help='classes of predictions, or what their names begin with, as "at position"; may be repeated',
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="orders of the batches in which a verdict has to hold")] = 1,
    *,
    replay: ReplayOptions,
) -> None:
    """Say of each head whether each transition of a run needs it: replays without it, beside their controls."""
    one_thread()
    from stagewise.checkpoints.run_folder import CERTIFICATE
    from stagewise.cli._recipes import recipe_of_run
    from stagewise.replay._branches import cost
    from stagewise.replay.certifying import _experiments_of, certify
    from stagewise.words._delays import certified_in_words, delay_in_words

    recipe, names = recipe_of_run(folder, replay.own_task or (), "certify continues with"), classes or ()
    experiments = _experiments_of(folder, recipe, names, start, seeds, progress=not replay.quiet, device=replay.device)
    price = cost(folder, [one for experiment in experiments for one in experiment.branches])
    print(f"{price}, about {price.updates * _seconds_an_update(folder):.0f} seconds of training")
    if replay.dry:
        return
    how: Any = {"start": start, "seeds": seeds, **replay.resources()}
    rows = certify(folder, names, recipe=recipe, **how)
    delays = [delay_in_words(row["value"], row["lo"], row["hi"]) for row in rows.to_dict("records")]
    print(rows[["transition", "step", "subject", "verdict"]].assign(delay=delays).to_string(index=False))
    for _, of in rows.groupby("transition", sort=False):
        print(certified_in_words(of.to_dict("records")))
    print(f"the intervals of the controls: {folder / CERTIFICATE}")


def _seconds_an_update(folder: Path) -> float:
    """Return how long an update of a run took, between the times of its files: the median."""
    from stagewise.checkpoints.run_folder import checkpoint_file, saved_steps

    times = {step: checkpoint_file(folder, step).stat().st_mtime for step in saved_steps(folder)}
    return statistics.median(abs(times[after] - times[before]) / (after - before) for before, after in pairwise(times))
