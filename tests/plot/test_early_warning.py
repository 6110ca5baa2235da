"""The picture of a forecast: the cut parts what was seen from what came, the band is the interval."""

import numpy as np
import pandas as pd

from stagewise.plot._early_warning import early_warning
from stagewise.statistics import Forecast

READINGS = pd.DataFrame({"step": np.arange(0, 110, 10), "value": np.linspace(0, 1, 11)})


def test_the_cut_parts_what_was_seen_from_what_came() -> None:
    lines = {
        str(line.get_label()): line for line in early_warning(READINGS, Forecast(40, 70, 60, 90), (0.4, 0.6)).lines
    }
    assert np.array_equal(lines["_seen"].get_xdata(), READINGS["step"][:5])
    assert np.array_equal(lines["_came"].get_xdata(), READINGS["step"][5:])
    assert np.array_equal(lines["_forecast"].get_xdata(), [70, 70])


def test_an_end_that_is_not_foretold_has_no_line_and_the_axis_an_end() -> None:
    ax = early_warning(READINGS, Forecast(40, np.inf, 50, np.inf), (0.4, 0.6))
    assert "_forecast" not in {str(line.get_label()) for line in ax.lines}
    assert ax.get_xlim() == (0, 100)
