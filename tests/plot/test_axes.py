"""The step axis: labels keep their distance, cells meet half-way."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.scale import SymmetricalLogTransform

from stagewise import plot
from stagewise.plot.axes import (
    _step_ticks,
    cell_edges,
    evenly,
    head_colours,
    ink,
    new_axes,
    ordered_colours,
    set_step_axis,
    spread,
    step_label,
)


def test_labels_keep_their_order_and_distance() -> None:
    places = np.random.default_rng(1).random(8).tolist()
    moved = np.array(spread(places, 0.1))
    assert (np.diff(np.sort(moved)) > 0.1 - 1e-9).all()
    assert (np.argsort(moved) == np.argsort(places)).all()
    assert moved.min() >= 0
    assert moved.max() <= 1


def test_cells_meet_halfway_and_cover_the_axis() -> None:
    edges = cell_edges([0, 1, 10, 100])
    assert edges[[0, -1]].round(9).tolist() == [0, 100]
    assert (np.diff(edges) > 0).all()


@pytest.mark.parametrize(
    ("steps", "ends", "label"),
    [
        ([0, 30, 900], (0, 900), "step (log scale; linear near 0)"),
        ([1000, 143_000], (1000, 143_000), "step (log scale)"),
        ([900], (0, 900), "step (log scale; linear near 0)"),
    ],
)
def test_an_axis_goes_from_the_first_checkpoint_to_the_last(
    steps: list[int], ends: tuple[int, int], label: str
) -> None:
    ax = new_axes(None)
    set_step_axis(ax, steps)
    assert (ax.get_xlim(), ax.get_xlabel()) == (ends, label)
    assert [ax.get_xticks()[0], ax.get_xticks()[-1]] == list(ends)


ONE_A_STEP: dict[str, Callable[[pd.DataFrame], object]] = {
    "HeadAblation.kl": plot.ablation_with_control,
    "MeanPattern.attention": lambda table: plot.attention_map(table, 3),
    "Other.score": lambda table: plot.quantity(table, "Other", "score"),
}
"""Figures by a quantity that they draw."""


@pytest.mark.parametrize("name", ONE_A_STEP)
def test_a_figure_of_several_runs_is_refused_not_drawn_as_one(name: str) -> None:
    probe, quantity = name.split(".")
    axes = {"layer": 0, "head": 0, "kind": "zero", "control": "head", "cluster": 0, "feature": "self"}
    axes |= {"offset": 0, "position": 0}
    rows = pd.DataFrame({"run": ["one", "other"], "step": 3, "value": 0.5, "map": [np.eye(1)[0]] * 2, **axes})
    with pytest.raises(ValueError, match="a figure shows one run, the table has 2"):
        ONE_A_STEP[name](rows.assign(probe=probe, quantity=quantity))


def test_ticks_are_thirds_of_decades_and_short_behind_a_linear_part() -> None:
    assert _step_ticks(10, 900) == [0, 10, 30, 100, 300, 900]
    assert [step_label(step) for step in (900, 30_000, 143_000)] == ["900", "30k", "143k"]


@pytest.mark.parametrize(("last", "linear"), [(900, 10), (143_000, 100)])
def test_the_axis_is_linear_to_the_power_of_ten_below_the_root_of_the_last_step(last: int, linear: int) -> None:
    ax = new_axes(None)
    set_step_axis(ax, [0, last])
    scale = ax.xaxis.get_transform()
    assert isinstance(scale, SymmetricalLogTransform)
    assert scale.linthresh == linear


def test_items_are_taken_at_equal_distances_with_both_ends() -> None:
    assert evenly([0, 1, 2, 3, 4], 3) == [0, 2, 4]


def test_text_in_any_colour_is_readable_on_white() -> None:
    def luminance(colour: tuple[float, float, float]) -> float:
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    for colour in [*ordered_colours(range(5)).values(), *head_colours_of(8)]:
        assert 1.05 / (luminance(ink(colour)) + 0.05) > 4.4


def head_colours_of(n: int) -> list[str]:
    return list(head_colours(pd.DataFrame({"layer": 0, "head": range(n)})).values())


def test_relations_and_their_references_have_one_colour() -> None:
    relations, references = (ordered_colours(names) for names in (["I(1)", "I(2)"], ["A*_1", "A*_1:2"]))
    assert list(relations.values()) == list(references.values())
