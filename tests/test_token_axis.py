"""Tokens at the steps of a run, from so many a step or from its table."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagewise.token_axis import TokenAxis, in_counts, token_axis

RUN = pd.DataFrame({"run": "mine", "step": [0, 100, 100, 300], "tokens": [pd.NA, 10**6, 10**6, 5 * 10**6]})


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6, unique=True), st.floats(0.0, 2.0))
def test_tokens_at_a_step_that_come_from_so_many_a_step_are_the_product_and_lead_back(
    steps: list[int], part: float
) -> None:
    axis = token_axis(pd.DataFrame({"run": "mine", "step": steps}), 2_097_152)
    step = part * max(steps)
    assert axis.tokens_at(step) == pytest.approx(2_097_152 * step)
    assert axis.step_at(axis.tokens_at(step)) == pytest.approx(step)
    assert axis.tokens_at(-step) == -axis.tokens_at(step)


def test_between_checkpoints_the_tokens_are_on_a_line_and_beyond_the_last_at_the_mean_rate() -> None:
    axis = token_axis(RUN)
    assert [axis.tokens_at(step) for step in (0, 50, 200, 600)] == [0, 500_000, 3 * 10**6, 10**7]


def test_a_frame_in_tokens_keeps_its_types_and_what_is_missing() -> None:
    frame = pd.DataFrame({"step": [0, 10], "t50": [2.5, math.inf], "last": pd.array([None, 10], dtype="Int64")})
    axis = TokenAxis(np.array([0.0, 10.0]), np.array([0.0, 1000.0]))
    counted = in_counts(frame, ["step", "t50", "last", "absent"], axis)
    assert counted.dtypes.tolist() == frame.dtypes.tolist()
    assert counted.to_numpy().tolist() == [[0, 250.0, pd.NA], [1000, math.inf, 1000]]


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ([pd.NA] * 4, "how many tokens mine had seen is not known.*--tokens-per-step N"),
        ([0, 5, 5, 4], "the tokens that mine had seen do not grow with its steps"),
    ],
)
def test_tokens_that_are_not_known_or_fall_are_refused(tokens: list[object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        token_axis(RUN.assign(tokens=pd.Series(tokens)))
