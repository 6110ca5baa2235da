"""Columns as a loop of training collects them: scalar tensors, arrays and None among numbers."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints._log_columns import as_numbers
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
