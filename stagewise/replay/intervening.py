"""Which head a stage needs: a run continues from a checkpoint with a head held, and is compared with itself."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from stagewise.plan import ClampHead
from stagewise.recipe import Recipe
from stagewise.replay._branches import compare
from stagewise.replay._matched_controls import with_controls
from stagewise.replay.densifying import recipe_at
from stagewise.training import Dtype


def intervene(
    folder: str | Path,
    clamps: Sequence[ClampHead],
    *,
    recipe: Recipe | None = None,
    controls: bool = True,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> pd.DataFrame:
    """Train on from a run's checkpoint with a head held, and say how much later each transition comes.

    The paired run has the bits of the run up to the clamp, and the same data after it. Both are measured on the same
    probe batch, and resampled together. A delay is the difference of the steps at which a head attends to a relation,
    or the loss has fallen half-way or nine tenths of the way: see `findings.delays`. The controls are the same clamp
    on another head, the one whose values have the nearest norm, and a kick of the head's norm in a random direction.
    A run that is not finished is compared up to its last checkpoint.
    Finished branches are not trained again; all delays of a run folder are kept in one table, which its report shows.

    Args:
        folder: the run folder.
        clamps: each a run of its own.
        recipe: of the run; None reads it from the folder.
        controls: whether to make the controls of each.
        progress: show bars.
        device: as the run was trained on.
        dtype: as the run was trained in.

    Returns a row an intervention and transition: `layer`, `head`, `kind`, `relation` (of a head that is held at one),
    `control`, `step` (the clamp's start), `transition`, and the delay in optimiser steps as `value`, `lo`, `hi`; inf
    where it did not come by the last step, with `moving` 1 where its curve was still on its way.

    Raises:
        ValueError: what is no list of clamps; the model has no such head, the task no such relation, or the run holds
            clamps itself; no transition comes after a clamp's start, or a kick there would move nothing; or this
            version, device, processor or number of threads gives other bits up to it.
        FileNotFoundError: the folder holds no run.
    """
    listed = isinstance(clamps, Sequence) and all(isinstance(clamp, ClampHead) for clamp in clamps)
    if not (clamps and listed):
        raise ValueError(f"clamps are a list, as in [ClampHead(layer=0, head=1, start=120)], got {clamps!r}")
    folder = Path(folder)
    recipe = recipe or recipe_at(folder)
    branches = with_controls(clamps, folder, recipe, controls)
    return compare(folder, recipe, branches, progress=progress, device=device, dtype=dtype)
