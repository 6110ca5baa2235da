"""Tables with planted findings: three stages in KL to references, and two heads with an onset each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

STEPS = np.unique(np.concatenate([np.arange(0, 9), np.geomspace(10, 3000, 40).astype(int)]))


def sigmoid(at: float, width: float = 0.1) -> np.ndarray:
    """From 0 to 1 at a step, `width` e-folds wide."""
    return np.asarray(1 / (1 + np.exp(-(np.log1p(STEPS) - np.log1p(at)) / width)))


@pytest.fixture(scope="session")
def step_up() -> Callable[..., pd.DataFrame]:
    """Make rows of a curve that rises from 0.05 at a step, with noise of 0.01; keywords are its other columns."""

    def make(at: float, by: float = 0.7, noise: float = 0.01, **columns: Any) -> pd.DataFrame:
        generator = np.random.default_rng(round(at))
        values = 0.05 + by * sigmoid(at) + noise * generator.standard_normal(len(STEPS))
        return pd.DataFrame({"step": STEPS, "value": values}).assign(run="run", **columns)

    return make


@pytest.fixture
def attention(step_up: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    """A previous-token head from step 130 on, an induction head from step 500 on, and a head that does neither."""
    of = {"probe": "AttentionTo", "quantity": "mass"}
    rows = [
        step_up(130, relation="previous token", layer=0, head=1, **of),
        step_up(500, relation="induction", layer=1, head=1, **of),
        step_up(700, by=0.0, relation="induction", layer=1, head=0, **of),
    ]
    return pd.concat(rows, ignore_index=True)


@pytest.fixture
def references() -> pd.DataFrame:
    """KL to three nested references with names of their own, in three stages: falls at 40, 200 and 450."""
    first, second, third = sigmoid(40), sigmoid(200), sigmoid(450)
    curves = {
        "one": 2.6 - 1.8 * first + 1.0 * second + 0.3 * third,
        "two": 2.7 - 1.7 * first - 0.7 * second + 0.4 * third,
        "all": 2.7 - 1.7 * first - 0.7 * second - 0.25 * third,
    }
    generator = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"step": STEPS, "reference": name, "nested": place, "value": values})
        for place, (name, values) in enumerate(curves.items(), start=1)
    ]
    rows = pd.concat(frames, ignore_index=True).assign(run="run", probe="KLToReference", quantity="kl")
    return rows.assign(value=rows["value"] + 0.005 * generator.standard_normal(len(rows)))
