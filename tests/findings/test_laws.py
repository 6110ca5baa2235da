"""Laws over frames: what `statistics` fits to columns, with frames in and out."""

import numpy as np
import pandas as pd

from stagewise import statistics
from stagewise.findings.laws import compare_laws, fit_mixed

G = np.random.default_rng(0)
NUMBER = np.repeat(np.arange(8), 3)
T, D = np.exp(G.uniform(4, 7, 8))[NUMBER], np.exp(G.uniform(2, 4, 8))[NUMBER]
TIME = 2 * T * D**0.5 * np.exp(0.2 * G.standard_normal(8)[NUMBER] + 0.1 * G.standard_normal(24))
RUNS = pd.DataFrame({"T": T, "d": D, "setting": NUMBER, "time": TIME}, index=range(100, 124))
COLUMNS = {name: RUNS[name].to_numpy() for name in RUNS}


def test_a_prediction_is_a_frame_with_the_rows_of_the_runs() -> None:
    law, times = fit_mixed(RUNS, "T, d", "setting"), statistics.fit_mixed(COLUMNS, "T, d", "setting").times(COLUMNS)
    prediction = law.predict(RUNS)
    assert list(prediction) == ["time", "lo", "hi"]
    assert list(prediction.index) == list(RUNS.index)
    assert (prediction.to_numpy() == np.stack(times, 1)).all()


def test_laws_are_compared_in_a_row_each() -> None:
    compared = compare_laws(RUNS, ["T", "T, d"], "setting")
    assert list(compared) == ["law", "density", "behind", "behind_error", "verdict"]
    assert [tuple(row) for row in compared.itertuples(index=False)] == statistics.compare_laws(
        COLUMNS, ["T", "T, d"], "setting"
    )
