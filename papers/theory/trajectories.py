"""A plateau flow followed over time, its curvature and its landscape: what the figures of a flow are drawn from."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.plateau_flow import AbstractPlateauFlow, hessian


def follow(flow: AbstractPlateauFlow, times: Sequence[int | float] | Float[np.ndarray, " time"]) -> pd.DataFrame:
    """Return a row a time: `time`, the flow's variables by name, `attention`, `loss` and `test_loss`.

    Args:
        flow: the flow.
        times: ascending, none negative.

    Raises:
        ValueError: times do not ascend from 0 on.
        RuntimeError: the solver failed.
    """
    states = states_at(flow, times)
    return pd.DataFrame(
        {
            "time": np.asarray(times, dtype=float),
            **{name: states[:, i] for i, name in enumerate(flow.variables)},
            "attention": [flow.attention(state) for state in states],
            "loss": [flow.loss(state) for state in states],
            "test_loss": [flow.test_loss(state) for state in states],
        }
    )


def curvature(flow: AbstractPlateauFlow, path: pd.DataFrame) -> Float[np.ndarray, "time eigenvalue"]:
    """Return the eigenvalues of the training loss's Hessian along a path from `follow`, the largest last."""
    states = path[list(flow.variables)].to_numpy()
    return np.stack([np.linalg.eigvalsh(hessian(flow, state)) for state in states])


def landscape(
    flow: AbstractPlateauFlow, first: Float[np.ndarray, " first"], second: Float[np.ndarray, " second"]
) -> Float[np.ndarray, "second first"]:
    """Return the training loss of a flow of two variables, over values of the first and of the second.

    Raises:
        ValueError: the flow has another number of variables.
    """
    if len(flow.variables) != 2:
        raise ValueError(f"a landscape has two variables, this flow has {', '.join(flow.variables)}")
    return np.array([[flow.loss((float(one), float(other))) for one in first] for other in second])


def first_time(times: Float[np.ndarray, " time"], values: Float[np.ndarray, " time"], level: int | float) -> float:
    """Return when values first reach a level from below, interpolated between two times; inf where they never do.

    >>> first_time(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 4.0]), 1.0)
    1.25
    """
    above = np.flatnonzero(np.asarray(values) >= level)
    if not above.size:
        return math.inf
    at = int(above[0])
    if at == 0:
        return float(times[0])
    return float(np.interp(level, values[at - 1 : at + 1], times[at - 1 : at + 1]))
