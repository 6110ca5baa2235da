"""P-values of the scan: the tables are read where they were simulated, and fall with the statistic."""

import numpy as np
import pytest

from stagewise.statistics._constants import NULL_CHECKPOINTS, NULL_CORRELATIONS, NULL_MEDIANS, NULL_TWENTIETHS
from stagewise.statistics._likelihood_ratio import p_value


@pytest.mark.parametrize(("row", "number"), list(enumerate(NULL_CHECKPOINTS)))
def test_the_quantiles_of_the_tables_have_their_p_values(row: int, number: int) -> None:
    assert p_value(np.array(NULL_MEDIANS[row]), number, np.array(NULL_CORRELATIONS)) == pytest.approx(0.5)
    assert p_value(np.array(NULL_TWENTIETHS[row]), number, np.array(NULL_CORRELATIONS)) == pytest.approx(0.05)


def test_a_larger_statistic_has_a_smaller_p_value_without_a_floor() -> None:
    values = p_value(np.arange(0.0, 100, 5), 80, 0.4)
    assert (np.diff(values) <= 0).all()
    assert values[0] == 1
    assert 0 < values[-1] < 1e-6


def test_fewer_checkpoints_and_more_correlation_ask_for_more() -> None:
    assert p_value(20.0, 20, 0.0) > p_value(20.0, 60, 0.0)
    assert p_value(20.0, 100, 0.8) > p_value(20.0, 100, 0.0)
