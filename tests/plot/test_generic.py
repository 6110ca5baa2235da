"""Any quantity as a figure: lines, maps, profiles; the axis as its probe declares it."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from stagewise import plot
from stagewise.plot.axes import new_axes
from stagewise.plot.generic import COLOURED, GREYS, PANELS, _profile, lines_in
from stagewise.table import Quantity, declare

STEPS = (0, 10, 100, 300)


def table(declared: Quantity | None = None, steps: tuple[int, ...] = STEPS, **axes: Any) -> pd.DataFrame:
    """Values at every step and place: at the n-th place they rise by n, counted from 1."""
    places = list(itertools.product(*axes.values()))
    rows = [
        {"step": step, **dict(zip(axes, place, strict=True)), "value": 0.1 + number * i / len(steps)}
        for number, place in enumerate(places, start=1)
        for i, step in enumerate(steps)
    ]
    frame = pd.DataFrame(rows).assign(run="run", probe="MyProbe", quantity="score")
    if declared is not None:
        declare(frame, {"MyProbe": {"score": declared}})
    return frame


def labels(ax: Axes) -> list[str]:
    return [str(line.get_label()) for line in ax.get_lines()]


def test_a_number_of_the_whole_model_is_one_line_on_the_declared_axis() -> None:
    rows = table(Quantity("loss of exits", "nats", (0, None)))
    (ax,) = plot.quantity(rows, "MyProbe", "score").axes
    assert (ax.get_ylabel(), ax.get_ylim()[0], labels(ax)) == ("loss of exits, nats", 0, ["_all"])
    assert np.allclose(np.asarray(ax.get_lines()[0].get_xydata()), rows[["step", "value"]])


def test_heads_relations_and_layers_are_lines_with_their_names() -> None:
    (ax,) = plot.quantity(table(layer=[0], head=[0, 1], relation=["self", "_x$y$"]), "MyProbe", "score").axes
    assert sorted(labels(ax)) == ["L0H0, _x\\$y\\$", "L0H0, self", "L0H1, _x\\$y\\$", "L0H1, self"]
    (ax,) = plot.quantity(table(layer=[0, 1]), "MyProbe", "score").axes
    assert sorted(labels(ax)) == ["layer 0", "layer 1"]


def test_of_many_lines_those_that_moved_most_are_coloured() -> None:
    names = [f"relation {i:03}" for i in range(COLOURED + GREYS + 5)]
    (ax,) = plot.quantity(table(relation=names), "MyProbe", "score").axes
    assert labels(ax).count("_other") == GREYS
    assert names[-1] in labels(ax)
    assert names[0] not in labels(ax)


def test_a_long_axis_is_drawn_as_a_map_over_steps() -> None:
    rows = table(Quantity("mass", range=(0, 1)), layer=[0], head=range(PANELS + 2), position=range(20))
    *maps, bar = plot.quantity(rows, "MyProbe", "score").axes
    assert len(maps) == PANELS
    assert bar.get_ylabel() == "mass"
    head = rows[rows["head"] == PANELS + 1].pivot(index="position", columns="step", values="value")
    shown = {ax.get_title(loc="left"): np.asarray(ax.collections[0].get_array()) for ax in maps}
    assert np.allclose(shown[f"L0H{PANELS + 1}"], head.to_numpy())


def test_with_two_checkpoints_a_long_axis_is_drawn_as_profiles() -> None:
    (ax,) = plot.quantity(table(steps=(0, 7), position=range(20)), "MyProbe", "score").axes
    assert labels(ax) == ["step 0", "step 7"]
    assert ax.get_xlabel() == "position"


def test_one_checkpoint_and_missing_values_are_drawn_too() -> None:
    assert plot.quantity(table(steps=(0,), layer=[0, 1]), "MyProbe", "score").axes
    rows = table(layer=[0, 1])
    rows.loc[rows.index[:3], "value"] = np.nan
    assert plot.quantity(rows, "MyProbe", "score").axes
    with pytest.raises(ValueError, match="no finite value of MyProbe, score"):
        plot.quantity(rows.assign(value=np.inf), "MyProbe", "score")


def test_lines_come_in_the_order_of_their_movement() -> None:
    places = [place["relation"] for place, _ in lines_in(table(relation=["a", "b", "c"]))]
    assert places[-1] == "a"
    (line,) = lines_in(table())
    assert line[0] == {}


def test_maps_are_images_of_the_last_checkpoint_those_that_moved_most() -> None:
    heads = range(PANELS + 2)
    rows = pd.DataFrame([{"step": step, "layer": 0, "head": head} for step in (0, 10) for head in heads])
    cells = [np.full(9, step * (head + 1), dtype=np.float32) for step in (0, 10) for head in heads]
    rows = rows.assign(map=pd.Series(cells, dtype=object), run="run", probe="MyProbe", quantity="seen")
    *images, _ = plot.quantity(rows, "MyProbe", "seen").axes
    assert [ax.get_title(loc="left") for ax in images] == [f"L0H{head}" for head in heads[2:]]
    np.testing.assert_array_equal(np.asarray(images[0].images[0].get_array()), np.full((3, 3), 30))


STEPS_PROFILES = (0, 1, 2, 3, 4, 5, 6, 7, 8)


def profiles(probe: str, quantity: str, axis: str, head: int = 0) -> pd.DataFrame:
    """At step s and place i, s + i / 10 + head."""
    rows = [{"step": step, axis: i, "value": step + i / 10 + head} for step in STEPS_PROFILES for i in range(3)]
    return pd.DataFrame(rows).assign(run="run", probe=probe, quantity=quantity, layer=0, head=head)


def test_five_checkpoints_from_the_first_to_the_last_have_a_line_each() -> None:
    ax = _profile(new_axes(None), profiles("Mine", "score", "position"), "position")
    labels = [str(line.get_label()) for line in ax.get_lines()]
    assert labels == ["step 0", "step 2", "step 4", "step 6", "step 8"]
    assert ax.get_xlabel() == "position"
    np.testing.assert_allclose(np.asarray(ax.get_lines()[1].get_xydata()), [[0, 2.0], [1, 2.1], [2, 2.2]])


@pytest.mark.parametrize(("scale", "ticks_are_whole"), [(1, True), (0.25, False)])
def test_an_axis_of_whole_numbers_has_whole_ticks(scale: int | float, ticks_are_whole: bool) -> None:
    rows = profiles("Mine", "score", "position")
    ax = _profile(new_axes(None), rows.assign(position=rows["position"] * scale), "position")
    assert bool((ax.get_xticks() % 1 == 0).all()) is ticks_are_whole
