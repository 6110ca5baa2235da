"""The step axis: labels keep their distance, cells meet half-way."""

import numpy as np

from stagewise.plot.step_axis import cell_edges, spread


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
