"""`stagewise intervene`: a run continues from a checkpoint with a head held; what comes later, beside its controls."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stagewise.cli._commands import one_thread
from stagewise.cli._options import ReplayOptions

if TYPE_CHECKING:
    import pandas as pd

    from stagewise.plan import ClampHead
    from stagewise.recipe import Recipe
    from stagewise.replay._branches import Branch

Named = list[str] | None


def intervene(
    folder: Annotated[Path, typer.Argument(help="a run folder")],
    start: Annotated[int, typer.Option("--from", help="the step from which on the head is held")],
    hold_out: Annotated[
        Named, typer.Option("--hold-out", help="a head, as in L0H1, that writes nothing; may be repeated")
    ] = None,
    freeze: Annotated[Named, typer.Option("--freeze", help="a head whose weights stay as they are")] = None,
    keep_pattern: Annotated[
        Named, typer.Option("--keep-pattern", help="a head whose query and key weights stay as they are")
    ] = None,
    uniform: Annotated[Named, typer.Option("--uniform", help="a head that attends uniformly")] = None,
    attend: Annotated[
        Named, typer.Option("--attend", help='a head and the relation that it attends to, as in "L0H1=I(2)"')
    ] = None,
    controls: Annotated[
        bool, typer.Option("--controls/--no-controls", help="the same on a matched head, and a kick of the same norm")
    ] = True,
    *,
    replay: ReplayOptions,
) -> None:
    """Continue a run from a checkpoint with a head held; print how much later each transition comes, and controls."""
    one_thread()
    from stagewise.cli._recipes import recipe_of_run
    from stagewise.replay._matched_controls import with_controls

    chosen = {"out": hold_out, "weights": freeze, "pattern": keep_pattern, "uniform": uniform, "relation": attend}
    recipe = recipe_of_run(folder, replay.own_task or (), "intervene continues with")
    clamps = clamps_of({kind: heads or () for kind, heads in chosen.items()}, start)
    branches = with_controls(clamps, folder, recipe, controls)
    compare_and_print(folder, recipe, branches, dry=replay.dry, **replay.resources())


def compare_and_print(
    folder: Path, recipe: "Recipe", branches: "Sequence[Branch]", *, dry: bool, **how: Any
) -> "pd.DataFrame | None":
    """Print the cost of branches and, unless that is all, the delays of transitions in them; return these rows."""
    from stagewise.checkpoints.run_folder import unfinished
    from stagewise.cli._sources import print_report
    from stagewise.replay._branches import compare, cost
    from stagewise.words._delays import delays_in_words

    price = cost(folder, branches)
    if ends := unfinished(folder):
        print(f"{ends}, and is compared up to there")
    print(price)
    if dry:
        return None
    rows = compare(folder, recipe, branches, **how)
    rows = rows[rows["step"].isin([one.start for one in branches])]
    for row in rows.to_dict("records"):
        print(delays_in_words(row))
    print_report(folder)
    return rows


def clamps_of(heads: Mapping[Any, Sequence[str]], start: int) -> "list[ClampHead]":
    """Return a clamp for each named head, by kind; of the kind "relation" with the relation behind its name.

    Raises:
        ValueError: no head, or a name that is none; or no relation, or one too many.

    >>> clamps_of({"relation": ["L0H1=I(2)"]}, 120)
    [ClampHead(layer=0, head=1, start=120, kind='relation', relation='I(2)')]
    """
    from stagewise.plan import ClampHead

    clamps = []
    for kind, names in heads.items():
        for name in names:
            head, separator, relation = name.partition("=")
            if (match := re.fullmatch(r"L(\d+)H(\d+)", head)) is None:
                raise ValueError(f"a head is named by its layer and number, as in L0H1; got {name!r}")
            if bool(separator) != (kind == "relation"):
                raise ValueError(f'--attend alone names a relation behind the head, as in "L0H1=I(2)"; got {name!r}')
            clamps.append(ClampHead(int(match[1]), int(match[2]), start, kind, relation or None))
    if not clamps:
        raise ValueError("name a head to hold, as in --hold-out L0H1")
    return clamps
