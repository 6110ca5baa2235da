"""A recorded loss: told where it lies far below that on the batch, whatever else a record holds."""

from typing import Any

import pandas as pd
import pytest

from stagewise.checkpoints.names import Coordinates
from stagewise.checkpoints.sources import Entry, Source
from stagewise.measurement.recorded_losses import above_recorded

MEASURED = pd.DataFrame({"step": [10, 20], "probe": "Loss", "quantity": "cross_entropy", "value": [4.0, 3.0]})


def unread() -> Any:
    raise ValueError("nothing is read")


def lines(record: Any) -> list[str]:
    """What is said beside a record of the last checkpoint, or a function that reads one."""
    read = record if callable(record) else lambda: record
    entry = Entry("checkpoint-20", Coordinates(20), read=unread, digest=unread, config=dict, record=read)
    return list(above_recorded(Source("run", (entry,)), MEASURED))


@pytest.mark.parametrize("key", ["eval_loss", "loss"])
def test_a_loss_far_above_the_recorded_one_is_told_with_both(key: str) -> None:
    (line,) = lines({"log_history": [{"step": 10, key: 0.5}, {"step": 20, key: 1.5}]})
    assert line.startswith("the loss at step 20 is 3.00 on this batch, ")
    assert f"trainer_state.json beside it records {key} 1.50: another text" in line


def test_the_evaluation_counts_before_the_training_loss() -> None:
    assert lines({"log_history": [{"step": 20, "loss": 1.5}, {"step": 20, "eval_loss": 2.9}]}) == []


@pytest.mark.parametrize(
    "record",
    [
        None,
        unread,
        {},
        {"log_history": None},
        {"log_history": ["a line", {"step": 10, "eval_loss": 0.5}]},
        {"log_history": [{"step": 20, "eval_loss": "0.5"}]},
        {"log_history": [{"step": 20, "eval_loss": 2.1}]},
    ],
)
def test_a_record_that_says_nothing_else_of_that_step_is_no_reason_for_a_line(record: Any) -> None:
    assert lines(record) == []
