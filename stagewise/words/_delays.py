"""Every sentence about delays of transitions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stagewise.table import head_label
from stagewise.words._grammar import capital

NOTHING = "delays are of attention or of the loss: measure AttentionTo or Loss"

LOSS = {
    "loss 0.5": "the loss falls half-way to its end",
    "loss 0.9": "the loss falls nine tenths of the way to its end",
}
"""Label of a transition of the loss -> what comes."""


SILENT = ("out", "uniform", "relation")
"""Kinds of clamps under which a head's attention says nothing of what is learned: it is not counted as any head's."""


def transition(label: str, *, without: bool = False) -> str:
    """Name the event; `without` a head, another one has to attend."""
    if label.startswith("attention to "):
        return f"{'another' if without else 'a'} head attends to {label.removeprefix('attention to ')}"
    return LOSS.get(label, label)


def branch_in_words(row: Mapping[Any, Any]) -> str:
    """Return the change in a row of an intervention, and its order of the batches, in words."""
    words = row["change"] if isinstance(row.get("change"), str) else held_in_words(row)
    order = row.get("seed") or 0
    return f"{words}, order {order:.0f}" if order > 0 else words  # missing where a head is held in the run's own order


def left_out_in_words(classes: Sequence[str], stop: int | None) -> str:
    """Say which classes of predictions a run is trained without, and up to which step."""
    return f"without predictions {', '.join(classes)}{'' if stop is None else f' until {stop}'}"


def attributed_in_words(rows: Sequence[Mapping[Any, Any]], label: str) -> list[str]:
    """Say of each replay of an attribution how much later a transition comes, and at last which classes made it."""
    lines = [
        f"{row['without']}: {transition(label)} {delay_in_words(row['value'], row['lo'], row['hi'])}" for row in rows
    ]
    alone = [row["without"].removeprefix("without ") for row in rows if row["classes"] == 1 and row["apart"]]
    number = {0: "No class", 1: "One class"}.get(len(alone), f"{len(alone)} classes")
    moves = "moves" if len(alone) < 2 else "move"
    end = f", left out alone, {moves} it by more than another order of the batches"
    return [*lines, f"{number}{end}{': ' if alone else ''}{'; '.join(alone)}."]


def delays_in_words(row: Mapping[Any, Any]) -> str:
    """Return a row of an intervention in a sentence."""
    what = transition(str(row["transition"]), without=str(row.get("kind")) in SILENT)
    delay = delay_in_words(row["value"], row["lo"], row["hi"])
    return f"{branch_in_words(row)} from {row['step']} ({row['control']}): {what} {delay}"


def held_in_words(row: Mapping[Any, Any]) -> str:
    """Return which head a row of an intervention held, and how."""
    how = f"on {row['relation']}" if row["kind"] == "relation" else row["kind"]
    return f"{head_label(int(row['layer']), int(row['head']))} {how}"


def delay_in_words(value: float, lo: float, hi: float) -> str:
    """Say how many steps later a transition comes, with its interval; "..." for an end that is not known."""
    if math.isfinite(value):
        return f"{value:z.0f} [{end_in_words(lo)}, {end_in_words(hi)}] steps later"
    if math.isinf(lo):
        return "no more, or at any step"
    if round(lo) == 0:
        return "no more, or at the same step at the earliest"
    return f"no more, or {f'more than {lo:.0f} steps later' if lo > 0 else f'from {-lo:.0f} steps earlier on'}"


def end_in_words(steps: int | float) -> str:
    """Return an end of an interval of steps; "..." where it is not known."""
    return f"{steps:z.0f}" if math.isfinite(steps) else "..."


def certified_in_words(rows: Sequence[Mapping[Any, Any]]) -> str:
    """Return one sentence about the heads that a transition needs, from its rows of `certify`."""
    first, parts = rows[0], []
    for verdict, words in _VERDICTS.items():
        of = [row for row in rows if row["verdict"] == verdict]
        delays = [f" (without it {delay_in_words(row['value'], row['lo'], row['hi'])})" for row in of]
        names = [
            f"{row['subject']}{delay if verdict == 'speeds it up' else ''}"
            for row, delay in zip(of, delays, strict=True)
        ]
        if names:
            parts.append(words[len(names) > 1].format(" and ".join(names)))
    event = transition(str(first["transition"]))
    orders = f"{first['seeds']} orders" if first["seeds"] > 1 else "one order"
    how = f"taken away from step {first['step']} on, in {orders} of the batches"
    return f"{capital(event)} at step {first['comes']:.0f}: {'; '.join(parts)} ({how})."


_VERDICTS = {
    "needed": ("{} is needed", "{} are needed"),
    "speeds it up": ("{} speeds it up", "{} speed it up"),
    "does not matter": ("{} does not matter", "{} do not matter"),
    "cannot tell": ("nothing can be told about {}", "nothing can be told about {}"),
}
"""Verdict -> what is said about one, and about several."""
