"""Curves of many heads, made by hand, for sections that draw the ones that moved most."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest


@pytest.fixture(scope="session")
def many_heads() -> Callable[..., pd.DataFrame]:
    """Make rows of thirteen heads: head h of layer 0 moves from 0.5 by h / 100 in each of two steps."""

    def make(probe: str, quantity: str, **axes: Any) -> pd.DataFrame:
        rows = [
            {"step": step, "layer": 0, "head": head, "value": 0.5 + i * head / 100}
            for i, step in enumerate((0, 10, 20))
            for head in range(13)
        ]
        return pd.DataFrame(rows).assign(run="run", probe=probe, quantity=quantity, **axes)

    return make
