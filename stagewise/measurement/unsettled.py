"""Which local learning coefficients are of chains that still moved, so that they say less."""

from typing import NamedTuple

import pandas as pd

from stagewise.table import select

MOVED = 0.25
"""Change within the chains, of the coefficient, from which on they count as not settled. Noise beyond it is allowed."""

NAMED = 6
"""Steps that are named."""


class Unsettled(NamedTuple):
    """Checkpoints around which the chains of the whole model still moved, of so many."""

    steps: tuple[int, ...]
    checkpoints: int


def unsettled(table: pd.DataFrame) -> Unsettled:
    """Return the checkpoints whose chains moved by more than a quarter of the coefficient, and than its interval."""
    whole = select(table, "LearningCoefficient", "whole_model").set_index("step")
    moved = select(table, "LearningCoefficient", "drift").set_index("step")["value"].abs()
    noise = (whole["hi"] - whole["lo"]).fillna(0.0) / 2 if "hi" in whole else 0.0  # of one chain there is none
    far = (moved > MOVED * whole["value"].abs()) & (moved > noise)
    return Unsettled(tuple(int(step) for step in whole.index[far]), len(whole))


def unsettled_in_words(found: Unsettled) -> str:
    """Say where chains still moved, and what to do; nothing where they all came to rest."""
    if not found.steps:
        return ""
    more = ", ..." if len(found.steps) > NAMED else ""
    named = f"step{'s' if len(found.steps) > 1 else ''} " + ", ".join(map(str, found.steps[:NAMED])) + more
    return (
        f"At {len(found.steps)} of {found.checkpoints} checkpoints the chains still moved ({named}): they are "
        "not settled there, or the checkpoint is no minimum. Take a larger step size, a stronger localization or more "
        "steps before the draws, and see whether it stays."
    )
