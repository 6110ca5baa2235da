"""Learning coefficients over training: the whole model with its drift, heads below it."""

import itertools

import numpy as np
import pandas as pd
import pytest

from stagewise import plot
from stagewise.plot._degeneracy import _HEADS


def table(heads: int) -> pd.DataFrame:
    whole = [
        {"step": step, "quantity": name, "value": factor * step, "lo": low, "hi": high}
        for step in (0, 10, 20)
        for name, factor, low, high in (
            ("whole_model", 1.0, step - 1.0, step + 1.0),
            ("drift", 0.1, np.nan, np.nan),
        )
    ]
    of_heads = [
        {"step": step, "quantity": "of_head", "layer": 0, "head": head, "value": head * step, "lo": step, "hi": step}
        for head, step in itertools.product(range(heads), (0, 10, 20))
    ]
    return pd.DataFrame([*whole, *of_heads]).assign(run="run", probe="LearningCoefficient")


def test_without_heads_there_is_one_panel() -> None:
    (ax,) = plot.learning_coefficients(table(0)).axes
    lines = {str(line.get_label()): np.asarray(line.get_ydata(), float) for line in ax.get_lines()}
    np.testing.assert_array_equal(lines["whole model"], [0, 10, 20])
    np.testing.assert_array_equal(lines["drift"], [0, 1, 2])


def test_heads_have_a_panel_of_their_own_those_that_moved_most() -> None:
    _, below = plot.learning_coefficients(table(_HEADS + 2)).axes
    named = {str(line.get_label()) for line in below.get_lines() if str(line.get_label()).startswith("L0H")}
    assert named == {f"L0H{head}" for head in range(2, _HEADS + 2)}


def test_far_below_zero_the_axis_ends() -> None:
    rows = table(0)
    first = (rows["step"] == 0) & (rows["quantity"] == "whole_model")
    rows.loc[first, ["value", "lo", "hi"]] = [-90.0, -95.0, -85.0]
    (ax,) = plot.learning_coefficients(rows).axes
    assert ax.get_ylim() == pytest.approx((-0.5 * 21, 1.1 * 21))
    rows.loc[rows["quantity"] == "whole_model", ["value", "lo", "hi"]] = [-90.0, -95.0, -85.0]
    (ax,) = plot.learning_coefficients(rows).axes
    assert ax.get_ylim()[0] < -95


def test_a_table_without_coefficients_is_refused() -> None:
    with pytest.raises(ValueError, match="LearningCoefficient"):
        plot.learning_coefficients(table(0).assign(probe="Loss"))
