"""The picture of onsets."""

import numpy as np
import pandas as pd
import pytest

from stagewise.detection.stages import find_stages
from stagewise.plot.onsets import onset_curves

STEPS = np.unique(np.geomspace(1, 1001, 40).astype(int)) - 1


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Two heads: one begins to look back at step 100, the other one never does."""
    generator = np.random.default_rng(0)
    rise = 1 / (1 + np.exp(-(np.log1p(STEPS) - np.log(101)) / 0.1))
    frames = [
        pd.DataFrame({"step": STEPS, "head": head, "value": 0.05 + size * rise + 0.01 * noise})
        for head, (size, noise) in enumerate(zip((0.8, 0.0), generator.standard_normal((2, len(STEPS))), strict=True))
    ]
    rows = pd.concat(frames, ignore_index=True).astype({"head": "Int64"})
    return rows.assign(
        run="run", probe="AttentionTo", quantity="along", relation="previous token", layer=pd.array([0] * len(rows))
    )


def test_onsets_are_labelled_and_marked_the_others_grey(table: pd.DataFrame) -> None:
    stages = find_stages(table)
    (ax,) = onset_curves(table, stages).axes
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    assert {"L0H0", "_without", "_t50"} <= lines.keys()
    lo, hi = np.asarray(lines["_t50"].get_xdata(), dtype=float)
    assert lo <= 100 <= hi
    assert (lo, hi) == tuple(stages.onsets.loc[0, ["t50_lo", "t50_hi"]])


def test_without_any_onset_what_moved_most_is_drawn(table: pd.DataFrame) -> None:
    never = table[table["head"] == 1]
    (ax,) = onset_curves(never, find_stages(never)).axes
    assert {str(line.get_label()) for line in ax.get_lines()} == {"_without"}
