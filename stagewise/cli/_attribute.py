"""`stagewise attribute`: which predictions made a transition, by replays without halves of them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from stagewise.cli._commands import one_thread
from stagewise.cli._options import ReplayOptions


def attribute(
    folder: Annotated[Path, typer.Argument(help="a run folder")],
    transition: Annotated[str, typer.Option(help='what comes, as "attention to I(2)" or "loss 0.5"')],
    start: Annotated[int, typer.Option("--from", help="the step from which on predictions are left out")],
    stop: Annotated[int | None, typer.Option("--until", help="the step from which on they count again")] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-out",
            help='classes of predictions, or what their names begin with: "at position" (as if not given), "of token", '
            '"that repeat"; may be repeated',
        ),
    ] = None,
    orders: Annotated[int, typer.Option(min=1, help="other orders of the batches, whose delays are the noise")] = 2,
    *,
    replay: ReplayOptions,
) -> None:
    """Replay a run without classes of its predictions; print how much later a transition comes, and which made it."""
    one_thread()
    from stagewise.cli._recipes import recipe_of_run
    from stagewise.replay._branches import cost
    from stagewise.replay.attributing import attribute, first_replays
    from stagewise.words._delays import attributed_in_words

    recipe, names = recipe_of_run(folder, replay.own_task or (), "attribute continues with"), classes or ["at position"]
    noise, halves = first_replays(folder, names, start, stop, recipe, orders)
    print(f"at first, {cost(folder, [*noise, *(one for _, one in halves)])}")
    if replay.dry:
        return
    how: Any = {"orders": orders, **replay.resources()}
    rows = attribute(folder, transition, names, start, stop, recipe=recipe, **how)
    print(*attributed_in_words(rows.to_dict("records"), transition), sep="\n")
