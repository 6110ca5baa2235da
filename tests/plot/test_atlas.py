"""The figures of a family: a row an event, a colour a size."""

import numpy as np
import pandas as pd

from stagewise.plot._atlas import losses, milestones
from stagewise.words._times import counted_in

EVENTS = pd.DataFrame(
    {
        "event": ["a rises", "b falls", "a rises", "a rises"],
        "size": ["small", "small", "large", "large"],
        "time": [1e6, 3e6, 4e6, 6e6],
        "loss": [3.0, 2.5, 3.0, 2.9],
    }
)


def test_a_row_is_an_event_and_the_mean_of_its_seeds_is_marked() -> None:
    with counted_in("tokens"):
        ax = milestones(EVENTS, "time", 9e6)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a rises", "b falls"]
    marks = {str(marks.get_label()): np.asarray(marks.get_offsets())[:, 0].tolist() for marks in ax.collections}
    assert (marks["large"], marks["small"]) == ([5e6], [1e6, 3e6])
    assert ax.get_xlabel().startswith("tokens (log scale")
    assert ax.get_xlim() == (0, 9e6)
    assert [label.get_text() for label in ax.get_xticklabels()][-1] == "9M"


def test_the_loss_falls_to_the_right() -> None:
    left, right = milestones(EVENTS, "loss", 9e6).get_xlim()
    assert left > right


def test_each_size_is_named_once() -> None:
    of = {"probe": "Loss", "quantity": "cross_entropy", "value": 1.0}
    rows = [pd.DataFrame({"run": run, "step": [0, 10], **of}) for run in ("a", "b", "c")]
    ax = losses(pd.concat(rows), {"a": "small", "b": "small", "c": "large"})
    assert [str(line.get_label()) for line in ax.get_lines()] == ["small", "_small", "large"]
