"""Columns as a loop of training collects them; of a log that goes back to an earlier step the later values count."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints._log_columns import as_numbers, from_text, is_rate
from stagewise.checkpoints.logged_curves import read_log

VALUES = [0.5, 0.25, 0.125]


@pytest.mark.parametrize(
    "values",
    [
        [torch.tensor(value) for value in VALUES],
        [torch.tensor(value, requires_grad=True) for value in VALUES],
        [np.array(value) for value in VALUES],
        [Decimal(value) for value in VALUES],
        pd.Series(VALUES, dtype=object),
    ],
)
def test_a_list_of_scalars_is_a_curve(values: Any) -> None:
    table = read_log({"step": [torch.tensor(step) for step in (0, 10, 20)], "loss": values})
    assert table["value"].tolist() == VALUES
    assert table["step"].tolist() == [0, 10, 20]


@pytest.mark.parametrize("values", [["0.5", 0.25], [np.zeros(2), 0.25], [{}, 0.25]])
def test_other_objects_stay_as_they_are(values: list[Any]) -> None:
    assert as_numbers(pd.Series(values, dtype=object)).tolist() == values


RATES = "lr_0,train_lr,current_lr,optim.lr,learning rate,Learning Rate,learning-rate,lr_scheduler,learningRate,x/lr0"
OTHERS = "clr,color,learning_curve,rate,lr/loss,loss_lr_0.1,learning/win rate,lrs - loss,lr - accuracy,lr_0.1/f1"


def test_the_learning_rate_is_known_by_a_word_of_its_name() -> None:
    assert [name for name in RATES.split(",") if not is_rate(name)] == []
    assert [name for name in OTHERS.split(",") if is_rate(name)] == []


STEPS = np.arange(0, 3000, 50)
LOG = pd.DataFrame({"step": STEPS, "accuracy": STEPS / 3000, "loss": 3 - STEPS / 3000})


@pytest.mark.parametrize("starts", [[2025], [1525, 2510], [2999]])
def test_a_resumed_run_need_not_log_at_the_same_steps(starts: list[int]) -> None:
    parts = [np.arange(0, 3001, 50), *(np.arange(start, 4000, 50) for start in starts)]
    log = pd.concat([pd.DataFrame({"step": steps, "loss": float(number)}) for number, steps in enumerate(parts)])
    with pytest.warns(UserWarning, match=f"loss was logged again from step {starts[0]} on, as by a resumed run"):
        table = read_log(log)
    resumed = np.searchsorted(starts, table["step"], side="right")
    assert table["value"].tolist() == resumed.tolist()


@pytest.mark.parametrize("order", ["descending", "shuffled", "parts", "ascending"])
def test_a_log_in_another_order_is_no_resumed_run(order: str) -> None:
    places = np.arange(len(LOG))
    orders = {
        "descending": places[::-1], "shuffled": np.random.default_rng(0).permutation(places),
        "parts": np.r_[places[:20], places[40:], places[20:40]], "ascending": places,
    }  # fmt: skip
    pd.testing.assert_frame_equal(read_log(LOG.iloc[orders[order]]), read_log(LOG))


@pytest.mark.parametrize("step", [0, 1000, 2950])
def test_of_a_step_that_is_logged_twice_the_last_value_counts(step: int) -> None:
    again = pd.DataFrame({"step": [step], "loss": [9.0]})
    log = pd.concat([LOG[LOG.step <= step], again, LOG[LOG.step > step]])[["step", "loss"]]
    with pytest.warns(UserWarning, match=rf"loss was logged again at step {step}, .*: 1 earlier values are left out"):
        table = read_log(log)
    assert table["step"].tolist() == STEPS.tolist()
    assert table.loc[table["step"] == step, "value"].tolist() == [9.0]


def test_two_values_of_each_step_are_no_resumed_run() -> None:
    with pytest.raises(ValueError, match=r"loss has several values at step 0"):
        read_log(pd.concat([LOG, LOG]).sort_values("step")[["step", "loss"]])


def test_text_is_numbers_where_each_entry_is_one() -> None:
    assert from_text(pd.Series(["1,000", "tensor(0.5)"])).tolist() == [1000, 0.5]
    assert from_text(pd.Series(["12.5%", "50%"])).tolist() == [0.125, 0.5]
    assert from_text(pd.Series(["1.5", "-"])).tolist() == ["1.5", "-"]
