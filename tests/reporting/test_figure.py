"""A figure's rows to download."""

import numpy as np
import pandas as pd

from stagewise.reporting.figure import csv_link


def test_rows_are_rounded_and_too_many_of_them_are_not_embedded() -> None:
    frame = pd.DataFrame({"run": "a b", "step": [1], "probe": "Loss", "value": [1 / 3], "lo": [np.nan]})
    assert "a%20b,1,Loss,0.33333%0A" in csv_link("loss", frame)
    many = pd.concat([frame] * 20_000)
    assert csv_link("loss", many) == "<span>20000 rows: in tables/measurements.parquet</span>"
