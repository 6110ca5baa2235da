"""Values whose squares are infinite, as of a training that diverged, have the onsets that smaller ones have."""

import numpy as np
import pytest

from evidence.calibration.cases import checkpoints, logistic
from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.onsets import find_onsets
from tests.fixtures.told import told

STEPS = checkpoints("log", 60)
RISE = 0.1 + 0.6 * logistic(STEPS, 300, 0.1) + 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))


@pytest.mark.parametrize("size", [1.0, 1e160, -1e300])
def test_an_onset_is_one_in_any_unit(size: float) -> None:
    (row,) = find_onsets(read_log({"step": STEPS, "loss": size * RISE})).to_dict("records")
    assert row["onset"]
    assert row["t50_lo"] < 300 < row["t50_hi"]
    levels = [row[name] / size for name in ("before", "after", "last")]
    assert levels == pytest.approx([0.1, 0.7, RISE[-1]], abs=0.03)
    assert row["noise"] / abs(size) == pytest.approx(0.01, abs=0.005)


def test_one_value_without_bounds_hides_no_onset() -> None:
    values = RISE.copy()
    values[-8] = 1e300
    (row,) = find_onsets(read_log({"step": STEPS, "loss": values})).to_dict("records")
    assert row["onset"]
    assert row["t50_lo"] < 300 < row["t50_hi"]


def test_large_levels_have_three_digits() -> None:
    table = read_log({"step": STEPS, "norm": 1e20 * RISE})
    onsets = find_onsets(table)
    (row,), (sentence,) = onsets.to_dict("records"), told(table, onsets)
    assert sentence == f"norm rises ({row['before']:.3g} -> {row['after']:.3g})"
    assert len(sentence) < 40
