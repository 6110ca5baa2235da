"""Strips of heads: one colour scale, and the colours of relations."""

import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from stagewise import plot
from stagewise.findings import Stages
from stagewise.plot.axes import ordered_colours


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def values(table: pd.DataFrame, probe: str, **axes: object) -> np.ndarray:
    here = table["probe"] == probe
    for name, value in axes.items():
        here &= (table[name] == value).fillna(False).astype(bool)
    return table.loc[here, ["step", "value"]].sort_values("step").to_numpy(float)


def test_an_ablation_and_its_control_share_one_colour_scale(table: pd.DataFrame, stages: Stages) -> None:
    figure = plot.ablation_with_control(table, "zero", stages=stages)
    head, control = (ax.collections[0] for ax in figure.axes if ax.get_yticklabels()[0].get_text() == "L0H0")
    assert head.get_clim() == control.get_clim()
    of_head_1 = values(table, "HeadAblation", head=1, control="random head")[:, 1]
    assert np.allclose(np.asarray(control.get_array())[1], of_head_1)


def test_a_heads_colour_is_its_relation_fuller_the_more_it_attends_beyond_uniform_attention() -> None:
    known = {"run": "run", "probe": "AttentionTo", "layer": 0}
    along = {(0, 0): (0.2, 0.0), (0, 1): (0.2, 1.0), (1, 0): (0.2, 0.6), (1, 1): (0.2, 0.4)}  # head, step
    rows = [
        {**known, "quantity": "along", "head": head, "step": step, "relation": relation, "value": value}
        for (head, step), both in along.items()
        for relation, value in zip("ab", both, strict=True)
    ]
    uniform = [{**known, "quantity": "uniform", "step": 0, "relation": name, "value": 0.2} for name in "ab"]
    whole = dict.fromkeys(("layer", "head"), "Int64")
    ax = plot.heads_over_training(pd.DataFrame([*rows, *uniform]).astype(whole))
    (mesh,) = ax.collections
    cells = np.asarray(mesh.get_array())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["L0H0", "L0H1"]
    assert np.allclose(cells[0, 0], 1)
    full = np.array(to_rgb(ordered_colours("ab")["b"]))
    assert np.allclose(cells[0, 1], full)
    assert np.allclose(cells[1, 0], 1 - 0.5 * (1 - full))


@pytest.mark.parametrize("steps", [(0, 10), (10,)], ids=["those that change", "those that attend, of one checkpoint"])
def test_of_many_heads_those_that_change_most_are_shown(steps: tuple[int, ...]) -> None:
    whole = dict.fromkeys(("layer", "head"), "Int64")
    rows = [
        {"run": "run", "probe": "AttentionTo", "quantity": "along", "layer": layer, "head": head, "step": step}
        | {"relation": "a", "value": 0.5 * (step > 0) if layer else 0.9}
        for layer, head, step in itertools.product(range(2), range(36), steps)
    ]
    ax = plot.heads_over_training(pd.DataFrame(rows).astype(whole))
    layers = {label.get_text()[:2] for label in ax.get_yticklabels()}
    assert layers == {"L1" if len(steps) > 1 else "L0"}
