"""The picture of onsets."""

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.stages import find_stages
from stagewise.plot.onsets import onset_curves


def test_onsets_are_labelled_and_marked_the_others_grey(one_onset: pd.DataFrame) -> None:
    stages = find_stages(one_onset)
    (ax,) = onset_curves(one_onset, stages).axes
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    assert {"L0H0", "_without", "_t50"} <= lines.keys()
    lo, hi = np.asarray(lines["_t50"].get_xdata(), dtype=float)
    assert lo <= 100 <= hi
    assert (lo, hi) == tuple(stages.onsets.loc[0, ["t50_lo", "t50_hi"]])


def test_without_any_onset_what_moved_most_is_drawn(one_onset: pd.DataFrame) -> None:
    never = one_onset[one_onset["head"] == 1]
    (ax,) = onset_curves(never, find_stages(never)).axes
    assert {str(line.get_label()) for line in ax.get_lines()} == {"_without"}


def test_a_curve_of_two_onsets_is_drawn_and_labelled_once(one_onset: pd.DataFrame) -> None:
    steps = one_onset["step"].to_numpy(dtype=float)
    falls = 0.6 / (1 + np.exp(-(np.log1p(steps) - np.log(401)) / 0.05))
    table = one_onset.assign(value=one_onset["value"] - np.where(one_onset["head"] == 0, falls, 0))
    stages = find_stages(table)
    assert stages.onsets.query("onset and head == 0").shape[0] == 2
    (ax,) = onset_curves(table, stages).axes
    labels = [str(line.get_label()) for line in ax.get_lines()]
    assert labels.count("L0H0") == 1
    assert labels.count("_t50") == 2


def test_onsets_are_of_one_run(one_onset: pd.DataFrame) -> None:
    two = pd.concat([one_onset, one_onset.assign(run="other")], ignore_index=True)
    with pytest.raises(ValueError, match="a figure shows one run, the table has 2"):
        onset_curves(two, find_stages(one_onset))
