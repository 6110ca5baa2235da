"""A theory's prediction as a table with the columns of a measured one, so that it overlays without glue."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from stagewise.table import tidy
from stagewise.theory.reduced_dynamics import AbstractReducedDynamics, follow


def predict(
    dynamics: AbstractReducedDynamics, steps: Sequence[int], learning_rate: float = 1.0, run: str = "theory"
) -> pd.DataFrame:
    """Return a flow's test loss, attention on the relevant tokens together, and variables at optimiser steps.

    Rows: `Loss` `squared_error`; `AttentionTo` `mass` on the relation "relevant"; `Theory`, a quantity a variable.

    Args:
        dynamics: the reduced flow.
        steps: optimiser steps, ascending.
        learning_rate: of plain gradient descent; time is rate times steps.
        run: what to call it.

    Raises:
        ValueError: steps that do not ascend, or a rate that is not positive.

    >>> from stagewise.theory.sparse_attention import SparseAttention
    >>> table = predict(SparseAttention(64, 16), [0, 200, 400])
    >>> table[table["quantity"] == "squared_error"]["value"].round(3).tolist()
    [0.5, 0.496, 0.001]
    """
    if not learning_rate > 0:
        raise ValueError(f"the learning rate must be positive, got {learning_rate}")
    _, states = follow(dynamics, learning_rate * np.asarray(steps, dtype=float))
    copies = getattr(dynamics, "n_copies", 1)
    curves: list[dict[str, Any]] = [
        {"probe": "Loss", "quantity": "squared_error", "value": [dynamics.test_loss(state) for state in states]},
        {"probe": "AttentionTo", "quantity": "mass", "relation": "relevant",
         "value": [copies * dynamics.attention(state) for state in states]},
        *({"probe": "Theory", "quantity": name, "value": states[:, i]} for i, name in enumerate(dynamics.variables)),
    ]  # fmt: skip
    return tidy(pd.DataFrame({"step": list(steps), **curve}).assign(run=run) for curve in curves)
