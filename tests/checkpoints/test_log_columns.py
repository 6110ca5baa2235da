"""Columns as a loop of training collects them: scalars, arrays, None among numbers; rates are known by name."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints._log_columns import as_numbers, is_rate
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
