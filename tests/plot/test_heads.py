"""Figures of heads."""

import itertools

import numpy as np
import pandas as pd
import pytest

from stagewise import plot
from stagewise.plot.heads import _HEADS


def test_a_figure_of_rows_that_are_not_there_says_what_there_is(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"no rows of AttentionTo, mass, layer=0, head=7"):
        plot.head_masses(table, 0, 7)


def test_scores_with_an_axis_beside_the_heads_are_no_line_a_head(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"AttentionTo mass has an entry for each head and relation: .*plot\.quantity"):
        plot.head_scores(table, "AttentionTo", "mass")
    ax = plot.head_scores(table[table["relation"] == "I(2)"], "AttentionTo", "mass")
    assert [np.asarray(line.get_xydata()).shape for line in ax.get_lines()] == [(5, 2), (5, 2)]


def test_scores_of_the_whole_model_are_none_of_heads(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="Loss excess is of no head"):
        plot.head_scores(table, "Loss", "excess")


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
