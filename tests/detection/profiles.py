"""Rows of attention profiles whose heads attend to planned offsets, for tests of their lineage."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

OFFSETS = 8


def profile_rows(plan: Sequence[Sequence[int | None]], noise: float = 0.0, seed: int = 0) -> pd.DataFrame:
    """Make the profiles of heads: `plan[t][head]` is the offset that has .9 of its attention, None for even attention.

    Checkpoints are 10 steps apart.
    """
    even = np.full(OFFSETS, 1 / OFFSETS)
    masses = np.array([[even if to is None else 0.1 * even + 0.9 * np.eye(OFFSETS)[to] for to in row] for row in plan])
    masses = (masses + noise * np.random.default_rng(seed).standard_normal(masses.shape)).clip(0)
    names = [f"offset {k}" for k in range(OFFSETS)]
    index = pd.MultiIndex.from_product(
        [range(0, 10 * len(plan), 10), range(len(plan[0])), names], names=["step", "head", "feature"]
    )
    rows = pd.DataFrame({"value": (masses / masses.sum(-1, keepdims=True)).ravel()}, index=index).reset_index()
    return rows.assign(run="run", probe="PatternClusters", quantity="profile", layer=0)
