"""Chains that still moved: by more than a quarter of the coefficient, and than the noise between chains."""

import pandas as pd
import pytest

from stagewise.measurement.unsettled import Unsettled, unsettled, unsettled_in_words


def table(*rows: tuple[float, float, float]) -> pd.DataFrame:
    """A checkpoint a row: the coefficient, half of its interval, the drift."""
    parts = []
    for step, (value, half, drift) in enumerate(rows):
        labels = {"run": "run", "step": step, "probe": "LearningCoefficient"}
        parts.append({**labels, "quantity": "whole_model", "value": value, "lo": value - half, "hi": value + half})
        parts.append({**labels, "quantity": "drift", "value": drift})
    return pd.DataFrame(parts)


def test_only_what_is_beyond_the_coefficient_and_the_noise_has_moved() -> None:
    rows = table((8.0, 0.5, 3.0), (8.0, 0.5, 1.0), (8.0, 4.0, 3.0), (-20.0, 1.0, -9.0))
    assert unsettled(rows) == Unsettled((0, 3), 4)


def test_a_single_chain_has_no_noise_to_compare_with() -> None:
    assert unsettled(table((8.0, float("nan"), 3.0))) == Unsettled((0,), 1)


def test_many_steps_are_not_all_named() -> None:
    words = unsettled_in_words(Unsettled(tuple(range(9)), 12))
    assert "At 9 of 12 checkpoints" in words
    assert "(steps 0, 1, 2, 3, 4, 5, ...)" in words


def test_another_table_is_refused() -> None:
    with pytest.raises(ValueError, match="LearningCoefficient"):
        unsettled(pd.DataFrame({"step": [0], "probe": ["Loss"], "quantity": ["excess"], "value": [1.0]}))
