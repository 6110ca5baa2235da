"""The way through the plane of two components: its order, its labels, its scale."""

import numpy as np
import pandas as pd
import pytest

from stagewise import plot
from stagewise.table import tidy


def way(points: list[tuple[float, float]]) -> pd.DataFrame:
    rows = [
        {"step": step, "quantity": "position", "component": name, "value": value}
        for step, point in enumerate(points)
        for name, value in zip(("PC1", "PC2"), point, strict=True)
    ]
    last = {"step": len(points) - 1, "quantity": "explained"}
    rows += [{**last, "component": "PC1", "value": 0.8}, {**last, "component": "PC2", "value": 0.2}]
    return tidy([pd.DataFrame(rows).assign(run="run", probe="Trajectory")])


def test_the_way_is_drawn_in_the_order_of_the_steps_on_one_scale() -> None:
    points = [(-2.0, 0.0), (0.0, 3.0), (2.0, 0.0)]
    ax = plot.trajectory(way(points))
    (line,) = ax.get_lines()
    assert np.asarray(line.get_xydata()).tolist() == [list(point) for point in points]
    assert [text.get_text() for text in ax.texts] == ["0", "1", "2"]
    assert ax.get_aspect() == 1.0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("PC1, 80% of the variance", "PC2, 20% of the variance")


def test_two_checkpoints_lie_on_a_line() -> None:
    table = way([(-1.0, 0.0), (1.0, 0.0)])
    ax = plot.trajectory(table[table["component"] == "PC1"])
    assert np.asarray(ax.get_lines()[0].get_xydata()).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert ax.get_ylabel() == "PC2, 0% of the variance"


def test_steps_are_written_at_about_equal_distances_along_the_way() -> None:
    crowded = [(x, 0.0) for x in (*np.linspace(0, 0.1, 50), *np.linspace(1, 7, 7))]
    named = [int(text.get_text()) for text in plot.trajectory(way(crowded)).texts]
    assert named[0] == 0
    assert named[-1] == 56
    assert len([step for step in named if step < 50]) == 1


def test_a_table_without_a_trajectory_is_refused() -> None:
    with pytest.raises(ValueError, match="no rows of Trajectory"):
        plot.trajectory(way([(0, 0), (1, 1)]).assign(probe="Loss"))
