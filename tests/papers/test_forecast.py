"""Forecasts of a plateau's end: right where the form of the growth is, wide where it is noisy, none where none is."""

import math
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from scipy.special import erfinv, expit

from stagewise.papers.forecast import FORM_ERROR, Forecast, Growth, predict_onset
from stagewise.papers.theory.dynamics import solve
from stagewise.papers.theory.early_time import blow_up_share
from stagewise.papers.theory.plateau_flow import plateau
from stagewise.papers.theory.sparse_attention import SparseAttention
from tests.conftest import unchecked_types

STEPS = np.arange(0, 1000, 10)
ALPHA = 1 / 64


def rows(values: np.ndarray, noise: float = 0.0, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    return pd.DataFrame({"step": STEPS, "value": values + noise * generator.standard_normal(len(STEPS))})


def exponential(end: float, rate: float = 0.005) -> np.ndarray:
    return np.asarray(0.5 * np.exp(rate * (STEPS - end)))


@pytest.mark.parametrize("end", [700.0, 900.0])
@pytest.mark.parametrize("part", [0.4, 0.7])
def test_an_exponential_without_noise_is_extrapolated_to_its_level(end: float, part: float) -> None:
    found = predict_onset(rows(exponential(end)), (0.5, 0.5), until=part * end, growth="exponential")
    assert found.step == pytest.approx(end, rel=0.02)
    assert found.lo <= end <= found.hi
    assert found.lo > found.until


def test_a_plateau_late_in_a_run_ends_as_much_later_as_it_begins() -> None:
    early = rows(exponential(800, rate=0.02), noise=0.001)
    late = early.assign(step=early["step"] + 20_000)
    how: dict[str, Any] = {"level": (0.4, 0.6), "growth": "exponential"}
    here, there = predict_onset(early, until=700, **how), predict_onset(late, until=20_700, since=20_000, **how)
    assert here.step == pytest.approx(800, rel=0.05)
    assert there.step - 20_000 == pytest.approx(here.step, rel=0.02)
    assert there.hi - 20_000 == pytest.approx(here.hi, rel=0.2)


def test_what_falls_is_what_rises_turned_over() -> None:
    rising, falling = rows(exponential(800)), rows(4 - exponential(800))
    up = predict_onset(rising, (0.4, 0.6), until=500, growth="exponential")
    down = predict_onset(falling, (3.4, 3.6), until=500, growth="exponential", direction="down")
    assert down.step == pytest.approx(up.step, rel=1e-6)


def test_the_flow_is_foretold_by_itself_from_a_fifth_of_its_plateau() -> None:
    flow = SparseAttention(64, 64)
    table, end = solve(flow, range(0, 950, 5)), plateau(flow)
    run = solve(flow, range(0, 2000, 10), rate=0.5).query("probe == 'AttentionTo'")
    found = predict_onset(run, (0.87, 0.87), until=0.2 * 2 * end, theory=table)
    assert found.step == pytest.approx(2 * end, rel=0.03)
    assert found.lo <= 2 * end <= found.hi


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_a_course_that_initial_weights_delay_by_a_tenth_is_within_the_interval_up_to_its_end(part: float) -> None:
    flow = SparseAttention(64, 64)
    table, end = solve(flow, range(0, 950, 5)), plateau(flow)
    run = solve(flow, range(0, 950, 10)).query("probe == 'AttentionTo'")
    found = predict_onset(run, (0.87, 0.87), until=part * end, theory=table)
    assert found.lo < end < 1.1 * end < found.hi < 1.5 * end


def test_growing_attention_without_its_theory_is_early_by_what_the_weights_still_lag() -> None:
    flow = SparseAttention(256, 256)
    run = solve(flow, range(0, 6000, 50)).query("probe == 'AttentionTo'")
    found = predict_onset(run, (0.25, 0.75), until=0.5 * plateau(flow))
    assert 0.85 * plateau(flow) < found.step < plateau(flow) < found.hi


@pytest.mark.one_of(2)
@pytest.mark.parametrize("growth", ["attention", "exponential"])
def test_of_noise_alone_no_more_than_one_in_twenty_has_an_end(growth: Growth) -> None:
    flat = np.full(len(STEPS), 0.1)
    forecasts = [predict_onset(rows(flat, 0.002, seed), (0.4, 0.6), until=500, growth=growth) for seed in range(40)]
    assert sum(math.isfinite(found.hi) for found in forecasts) <= 5  # more with a probability of 1 %


def test_nothing_is_foretold_of_what_moves_away() -> None:
    found = predict_onset(rows(np.linspace(0.3, 0.1, len(STEPS))), (0.4, 0.6), until=500, growth="exponential")
    assert math.isinf(found.step)
    assert str(found) == "by step 500 nothing grows: no end of the plateau is foretold"


def test_more_noise_is_a_wider_interval() -> None:
    widths = []
    for noise in (1e-4, 1e-3, 1e-2):
        found = predict_onset(rows(exponential(900), noise), (0.5, 0.5), until=600, growth="exponential")
        widths.append(found.hi - found.lo)
    assert widths == sorted(widths)


def test_a_wider_level_is_a_wider_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORM_ERROR, "exponential", 0.0)
    narrow, wide = (
        predict_onset(rows(exponential(900)), level, until=600, growth="exponential")
        for level in ((0.5, 0.5), (0.1, 0.9))
    )
    assert wide.hi - wide.lo > narrow.hi - narrow.lo


def test_the_interval_covers_where_the_form_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORM_ERROR, "exponential", 0.0)
    covered = []
    for seed in range(40):
        found = predict_onset(rows(exponential(900), 0.003, seed), (0.5, 0.5), until=700, growth="exponential")
        covered.append(found.lo <= 900 <= found.hi)
    assert sum(covered) >= 34  # of 40 at 95 %, fewer with a probability of 1 %


def test_only_readings_between_since_and_until_count() -> None:
    values = exponential(900)
    other = np.where((STEPS < 100) | (STEPS > 600), 9.0, values)
    how = {"until": 600, "since": 100, "growth": "exponential"}
    assert predict_onset(rows(other), (0.5, 0.5), **how) == predict_onset(rows(values), (0.5, 0.5), **how)  # type: ignore[arg-type]


def test_what_cannot_be_foretold_is_refused() -> None:
    odds = rows(expit(np.linspace(-4, 0, len(STEPS))))
    with pytest.raises(ValueError, match="needs 8 checkpoints, there are 6 up to step 50"):
        predict_onset(odds, (0.4, 0.6), until=50)
    with pytest.raises(ValueError, match="one row a step: choose a layer, a head and a relation"):
        predict_onset(pd.concat([odds, odds]), (0.4, 0.6), until=500)
    with pytest.raises(ValueError, match="not finite at step 20"):
        predict_onset(odds.assign(value=odds["value"].where(odds["step"] != 20)), (0.4, 0.6), until=500)
    with pytest.raises(ValueError, match="least to its largest value"):
        predict_onset(odds, (0.6, 0.4), until=500)
    with pytest.raises(ValueError, match="attention lies between 0 and 1 and rises, got 1 to 3"):
        predict_onset(rows(np.linspace(1, 3, len(STEPS))), (0.4, 0.6), until=990)
    with pytest.raises(ValueError, match=r"passed the level \(0.3, 0.4\) by step 890, where it is 0.40"):
        predict_onset(odds, (0.3, 0.4), until=990)
    falling = rows(4 - exponential(1500))
    with pytest.raises(ValueError, match=r"passed the level \(5, 6\) by step 0, where it is 3.* on its other side"):
        predict_onset(falling, (5, 6), until=500, growth="exponential", direction="down")
    with pytest.raises(ValueError, match='direction="down": take growth="exponential"'):
        predict_onset(odds, (0.4, 0.6), until=990, direction="down")


def test_a_forecast_says_what_it_does_not_know() -> None:
    assert str(Forecast(500, 800, 700, 900)) == "by step 500: the plateau ends at step 800 [700, 900]"
    assert str(Forecast(500, 800, 700, math.inf)).endswith("[700, not known]")


@pytest.mark.parametrize("growth", get_args(Growth))
def test_a_curve_that_does_not_move_foretells_no_end(growth: Growth) -> None:
    found = predict_onset(rows(np.full(len(STEPS), 0.1)), (0.5, 0.9), until=500, growth=growth)
    assert (found.step, found.hi) == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"growth": "linear"}, "growth is one of 'attention', 'exponential', got 'linear'"),
        ({"direction": "upwards"}, "direction is one of 'up', 'down', got 'upwards'"),
        ({"level": 0.9}, r"as in \(0.75, 0.95\), got 0.9"),
        ({"level": (0.5, math.inf)}, r"least to its largest value, .* got \(0.5, inf\)"),
    ],
)
def test_an_unknown_form_and_a_level_that_is_no_two_numbers_are_refused(wrong: dict[str, Any], message: str) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=message):
        predict_onset(rows(exponential(800)), **{"level": (0.5, 0.9), "until": 500, **wrong})


SHORT = np.arange(0, 600, 10)


def test_attention_that_follows_its_form_is_foretold_to_the_level() -> None:
    odds = -4 + erfinv(SHORT / 1000) ** 2
    found = predict_onset(pd.DataFrame({"step": SHORT, "value": expit(odds)}), (0.1, 0.1), until=600)
    end = 1000 * blow_up_share(np.array([math.log(0.1 / 0.9) + 4]))[0]
    assert found.step == pytest.approx(end, rel=0.03)
    assert found.lo <= end <= found.hi


def test_the_course_of_a_theory_stands_in_for_a_form() -> None:
    steps = np.arange(0.0, 2000, 10)
    course = pd.DataFrame({"step": steps, "value": expit(-4 + (steps / 700) ** 3)})
    found = predict_onset(course, (0.5, 0.5), until=590, theory=course.assign(probe="AttentionTo", quantity="mass"))
    assert found.step == pytest.approx(700 * 4 ** (1 / 3), rel=0.05)


def test_no_readings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a forecast needs 8 checkpoints, there are 0$"):
        predict_onset(rows(exponential(800)), (0.5, 0.6), until=-1)
