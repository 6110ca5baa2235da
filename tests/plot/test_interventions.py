"""The matrix of interventions: a cell a transition and head, with its delay in words."""

import math

import numpy as np
import pandas as pd
import pytest

from stagewise.plot import delays, interventions


def rows() -> pd.DataFrame:
    cells = [
        (1, "out", "a", 40.0, 20.0, 60.0),
        (1, "out", "b", math.inf, 90.0, math.inf),
        (2, "kick", "a", -5.0, -20.0, 9.0),
    ]
    names = ("head", "kind", "transition", "value", "lo", "hi")
    return pd.DataFrame([dict(zip(names, cell, strict=True)) for cell in cells]).assign(layer=0, step=120)


def test_every_cell_says_its_delay_and_a_missing_one_nothing() -> None:
    ax = interventions(rows())
    assert [text.get_text() for text in ax.texts] == ["+40\n[20, 60]", "-5\n[-20, 9]", "> 90", ""]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["L0H1 out\nfrom 120", "L0H2 kick\nfrom 120"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]


def test_a_head_that_is_held_at_a_relation_is_named_with_it() -> None:
    at_relation = rows().assign(kind=["relation", "relation", "kick"], relation=["I(2)", "I(2)", ""])
    names = [label.get_text() for label in interventions(at_relation).get_xticklabels()]
    assert names == ["L0H1 on I(2)\nfrom 120", "L0H2 kick\nfrom 120"]


def test_columns_go_by_step_and_head_with_the_kicks_of_a_step_last() -> None:
    mixed = rows().assign(kind=["kick", "kick", "out"])
    names = [label.get_text() for label in interventions(pd.concat([mixed.assign(step=250), mixed])).get_xticklabels()]
    assert names == [f"{name}\nfrom {step}" for step in (120, 250) for name in ("L0H2 out", "L0H1 kick")]


def test_changes_of_the_recipe_are_named_with_their_order_behind_the_heads() -> None:
    changes = rows().drop(columns=["layer", "head", "kind"]).assign(change=["a=1", "a=1", "a=1"], seed=[0, 0, 2])
    alone = [label.get_text() for label in interventions(changes).get_xticklabels()]
    assert alone == ["a=1\nfrom 120", "a=1, order 2\nfrom 120"]
    both = [label.get_text() for label in interventions(pd.concat([changes, rows()])).get_xticklabels()]
    assert both == ["L0H1 out\nfrom 120", *alone, "L0H2 kick\nfrom 120"]


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="no interventions to draw"):
        interventions(rows().iloc[:0])


def test_delays_over_seeds_have_a_panel_a_transition_with_their_mean() -> None:
    rows = pd.DataFrame(
        [
            {"transition": what, "without": "the induction head", "seed": seed, "value": value, "lo": 40.0}
            for what in ("one", "other")
            for seed, value in enumerate((10.0, 20.0, math.inf))
        ]
    )
    figure = delays(rows)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["one", "other"]
    points, never, mean = (np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].lines[:3])
    assert (points, never, mean) == ([10.0, 20.0], [40.0], [15.0])
    with pytest.raises(ValueError, match="no delays to draw"):
        delays(rows.iloc[:0])


def test_an_end_that_is_not_known_has_no_number_and_leaves_the_colours_their_scale() -> None:
    unknown = rows().assign(lo=[-math.inf, -math.inf, -20.0], value=[-0.2, math.inf, -5.0])
    ax = interventions(unknown)
    assert [text.get_text() for text in ax.texts] == ["+0\n[..., 60]", "-5\n[-20, 9]", "> ...", ""]
    assert np.nanmax(np.abs(np.asarray(ax.collections[0].get_array(), float))) == 5
