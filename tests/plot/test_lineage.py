"""The river: a line a head that runs in the bed of its kind."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from stagewise import plot
from stagewise.findings.lineage import Lineage


def lineage_of(labels: list[list[int]]) -> Lineage:
    steps = [10 * t for t in range(len(labels))]
    members = pd.DataFrame(
        [
            {"step": step, "layer": 0, "head": head, "kind": kind}
            for step, row in zip(steps, labels, strict=True)
            for head, kind in enumerate(row)
        ]
    )
    kinds = pd.DataFrame({"kind": [1, 2], "name": ["diffuse", "I(1)"], "heads": [2, 1]})
    return Lineage("run", members, pd.DataFrame(), kinds)


def lines(ax: Axes) -> list[np.ndarray]:
    (collection,) = (one for one in ax.collections if type(one) is LineCollection)
    return [np.asarray(path.vertices)[:, 1] for path in collection.get_paths()]


def test_a_head_runs_below_the_others_once_it_has_left_their_kind() -> None:
    stays, leaves = lines(plot.river(lineage_of([[1, 1], [1, 1], [1, 2], [1, 2]])))
    assert np.ptp(stays) == 0
    assert (leaves[:2] == leaves[0]).all()
    assert (leaves[2:] > leaves[0] + 0.5).all()


def test_every_kind_and_head_is_named() -> None:
    ax = plot.river(lineage_of([[1, 1], [1, 2]]))
    assert {text.get_text() for text in ax.texts} == {"L0H0", "L0H1", "1: diffuse", "2: I(1)"}
