"""What heads of a real model may be told to have done: read off their curves."""

from typing import Any

import numpy as np
import pandas as pd

from evidence.answers.continued import STRETCH, comes_back


def curve(values: np.ndarray, **labels: Any) -> pd.DataFrame:
    return pd.DataFrame({"step": 8 * np.arange(len(values)), "value": values}).assign(**labels)


def test_copying_comes_back_once_and_a_head_that_changes_may_be_named_where_it_does() -> None:
    late, early = (1 / (1 + np.exp(-(np.arange(21) - at))) for at in (14, 4))
    attention = {"probe": "AttentionTo", "quantity": "along", "layer": 1, "relation": "first token"}
    table = pd.concat(
        [
            curve(0.7 * late, probe="Accuracy", quantity="accuracy"),
            curve(0.2 + 0.5 * early, **attention, head=0),
            curve(0.2 + 0.1 * early, **attention, head=1),
        ],
        ignore_index=True,
    )
    truth = comes_back(table)
    assert [(change.lo, change.hi) for change in truth.changes] == [(104, 112)]
    assert {change.heads for change in truth.may} == {frozenset({"L1H0"})}
    assert (
        min(change.lo for change in truth.may) <= 32 <= max(change.hi for change in truth.may) <= 8 * (5 + 2 * STRETCH)
    )
