"""Descriptions of quantities: what they refuse, and that a table carries those of several probes."""

import pandas as pd
import pytest

from stagewise.quantity import Quantity, declare, declared


def test_a_table_carries_the_quantities_of_every_probe_that_was_declared() -> None:
    table = pd.DataFrame({"value": [1.0]})
    loss, score = Quantity("loss", "nats", (0, None), progress="down"), Quantity("score", range=(-1, 1))
    declare(table, {"Loss": {"cross_entropy": loss}})
    declare(table, {"OVCopying": {"copying": score}})
    assert declared(table) == {"Loss": {"cross_entropy": loss}, "OVCopying": {"copying": score}}


def test_a_table_made_by_hand_declares_nothing() -> None:
    assert declared(pd.DataFrame({"value": [1.0]})) == {}


def test_a_range_in_the_wrong_order_is_refused() -> None:
    with pytest.raises(ValueError, match="goes from its smallest to its largest value, got 1, 0"):
        Quantity("score", range=(1, 0))
