"""The laws of the toy model's flows, and SGD beside them."""

import math

import pandas as pd
import pytest

from stagewise.detection.power_law import fit_log_linear
from stagewise.experiments.emergence.toy_figures import cross_sample_times, sgd_over_flow


def test_the_law_of_figure_2_right_has_the_published_exponent_and_another_constant() -> None:
    law = fit_log_linear(cross_sample_times(), "d ** 0.5 * T / f")
    assert law.exponents[0] == pytest.approx(1.01, abs=0.02)
    assert law.constant == pytest.approx(1.14, abs=0.1)  # 2.15 in the paper


def test_steps_are_compared_with_the_flow_of_the_same_size() -> None:
    runs = pd.DataFrame({"T": [512, 256], "d": [64, 64], "hi": [5319.27, 2 * 2694.82]})
    assert sgd_over_flow(runs) == f"{math.sqrt(2):.2f}"
    assert sgd_over_flow(runs.assign(hi=[5319.27, math.inf])) == "1.00 in 1 of 2 runs; the others are censored"
    assert sgd_over_flow(runs.assign(hi=math.inf)) == "all 2 runs are censored"
