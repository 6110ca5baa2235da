"""The second opinion: breaks of straight lines where they are, an onset without one is contested."""

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.onsets import find_onsets
from stagewise.findings.second_opinion import change_points, find_second_opinion

STEPS = np.arange(0, 1200, 20)


def test_segments_begin_where_lines_break() -> None:
    u = np.log1p(STEPS)
    values = np.where(np.arange(60) < 20, 0.1 * u, np.where(np.arange(60) < 40, 1 + 0.2 * u, 3.0))
    assert change_points(STEPS, values, 0.01).tolist() == [20, 40]


@pytest.mark.parametrize("seed", range(5))
def test_a_line_with_noise_has_no_break(seed: int) -> None:
    noise = 0.05 * np.random.default_rng(seed).standard_normal(60)
    assert not len(change_points(STEPS, 0.1 * np.log1p(STEPS) + noise, 0.05))


def scores(values: np.ndarray) -> pd.DataFrame:
    """A table of two curves of accuracy."""
    table = pd.DataFrame({"step": np.tile(STEPS, 2), "value": values.ravel(), "head": np.repeat([0, 1], len(STEPS))})
    return table.assign(run="run", probe="AttentionTo", quantity="mass", layer=0, relation="induction")


def test_an_onset_with_a_break_stands_and_one_without_is_contested() -> None:
    noise = 0.02 * np.random.default_rng(0).standard_normal((2, 60))
    rise = 0.1 + 0.6 / (1 + np.exp(-(np.log1p(STEPS) - 6) / 0.1))
    table = scores(np.stack([rise, 0.05 * np.log1p(STEPS)]) + noise)
    onsets = find_onsets(table)
    assert onsets["onset"].tolist() == [True, False]
    judged = find_second_opinion(table, onsets)
    assert not judged["contested"][0]
    assert judged["contested"][1] is pd.NA
    claimed = judged.assign(onset=True, head=1, t10=200.0, t90=300.0)
    assert find_second_opinion(table, claimed)["contested"].tolist() == [True, True]


def test_onsets_of_another_table_are_refused() -> None:
    table = scores(np.zeros((2, 60)))
    claimed = find_onsets(table).assign(onset=True, head=7)
    with pytest.raises(ValueError, match=r"no curve of AttentionTo\.mass"):
        find_second_opinion(table, claimed)
