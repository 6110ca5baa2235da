"""Curves of several runs: the mean over seeds at the steps that all have, with its interval; two runs side by side."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stagewise.plot import interventions
from stagewise.plot.seeds import _band, over_seeds

STEPS = np.array([0, 10, 20, 30])
VALUES = np.random.default_rng(0).normal(size=(4, len(STEPS)))


def rows(**labels: str) -> pd.DataFrame:
    frames = [pd.DataFrame({"run": f"seed {i}", "step": STEPS, "value": one}) for i, one in enumerate(VALUES)]
    return pd.concat(frames).assign(probe="Loss", quantity="cross_entropy", **labels)


def test_the_band_is_students_interval_of_the_mean() -> None:
    found = _band(rows())
    expected = stats.t.interval(0.95, 3, loc=VALUES.mean(0), scale=stats.sem(VALUES))
    np.testing.assert_allclose([found.lo, found.hi], expected)
    np.testing.assert_allclose(found.each, VALUES)


def test_the_band_of_few_seeds_is_their_range() -> None:
    table = rows()
    found = _band(table[table["run"].isin(["seed 0", "seed 1"])])
    np.testing.assert_allclose([found.lo, found.hi], [VALUES[:2].min(0), VALUES[:2].max(0)])


def test_steps_that_a_seed_lacks_are_left_out() -> None:
    table = rows()
    lacking = table[~((table["run"] == "seed 2") & (table["step"] == 10))]
    assert _band(lacking).steps.tolist() == [0, 20, 30]
    alone = table.assign(step=table["step"] + (table["run"] == "seed 0"))
    with pytest.raises(ValueError, match="the runs have no step in common"):
        _band(alone)


def test_a_line_a_curve_and_each_seed_thin() -> None:
    table = pd.concat([rows(reference="a"), rows(reference="b")])
    axes = over_seeds(table, "Loss", "cross_entropy")
    labels = [str(line.get_label()) for line in axes.get_lines()]
    assert [label for label in labels if not label.startswith("_")] == ["reference a", "reference b"]
    assert len(labels) == 2 + 2 * len(VALUES)


def rows_of_interventions() -> pd.DataFrame:
    cells = [
        (1, "out", "a", 40.0, 20.0, 60.0),
        (1, "out", "b", math.inf, 90.0, math.inf),
        (2, "kick", "a", -5.0, -20.0, 9.0),
    ]
    names = ("head", "kind", "transition", "value", "lo", "hi")
    return pd.DataFrame([dict(zip(names, cell, strict=True)) for cell in cells]).assign(layer=0, step=120)


def test_every_cell_says_its_delay_and_a_missing_one_nothing() -> None:
    ax = interventions(rows_of_interventions())
    assert [text.get_text() for text in ax.texts] == ["+40\n[20, 60]", "-5\n[-20, 9]", "> 90", ""]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["L0H1 out\nfrom 120", "L0H2 kick\nfrom 120"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]


def test_a_head_that_is_held_at_a_relation_is_named_with_it() -> None:
    at_relation = rows_of_interventions().assign(kind=["relation", "relation", "kick"], relation=["I(2)", "I(2)", ""])
    names = [label.get_text() for label in interventions(at_relation).get_xticklabels()]
    assert names == ["L0H1 on I(2)\nfrom 120", "L0H2 kick\nfrom 120"]


def test_columns_go_by_step_and_head_with_the_kicks_of_a_step_last() -> None:
    mixed = rows_of_interventions().assign(kind=["kick", "kick", "out"])
    names = [label.get_text() for label in interventions(pd.concat([mixed.assign(step=250), mixed])).get_xticklabels()]
    assert names == [f"{name}\nfrom {step}" for step in (120, 250) for name in ("L0H2 out", "L0H1 kick")]


def test_changes_of_the_recipe_are_named_with_their_order_behind_the_heads() -> None:
    changes = (
        rows_of_interventions()
        .drop(columns=["layer", "head", "kind"])
        .assign(change=["a=1", "a=1", "a=1"], seed=[0, 0, 2])
    )
    alone = [label.get_text() for label in interventions(changes).get_xticklabels()]
    assert alone == ["a=1\nfrom 120", "a=1, order 2\nfrom 120"]
    both = [
        label.get_text() for label in interventions(pd.concat([changes, rows_of_interventions()])).get_xticklabels()
    ]
    assert both == ["L0H1 out\nfrom 120", *alone, "L0H2 kick\nfrom 120"]


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="no interventions to draw"):
        interventions(rows_of_interventions().iloc[:0])


def test_an_end_that_is_not_known_has_no_number_and_leaves_the_colours_their_scale() -> None:
    unknown = rows_of_interventions().assign(lo=[-math.inf, -math.inf, -20.0], value=[-0.2, math.inf, -5.0])
    ax = interventions(unknown)
    assert [text.get_text() for text in ax.texts] == ["+0\n[..., 60]", "-5\n[-20, 9]", "> ...", ""]
    assert np.nanmax(np.abs(np.asarray(ax.collections[0].get_array(), float))) == 5
