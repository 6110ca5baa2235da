"""Power laws: known ones are recovered, intervals cover, censored runs neither bias nor vanish."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stagewise.papers.power_law import NoLaw, fit_interval_censored, fit_log_linear


def runs_of(noise: float = 0.0, seed: int = 0, repeats: int = 2) -> pd.DataFrame:
    """Runs with time = 1.5 (T / B) d^0.5, with log-normal noise."""
    grid = [(T, B, d) for T in (64, 256, 1024) for B in (1, 2) for d in (8, 32) for _ in range(repeats)]
    runs = pd.DataFrame(grid, columns=["T", "B", "d"]).astype(float)
    errors = noise * np.random.default_rng(seed).standard_normal(len(runs))
    return runs.assign(time=1.5 * runs["T"] / runs["B"] * runs["d"] ** 0.5 * np.exp(errors))


def test_an_exact_law_is_found_exactly() -> None:
    law = fit_log_linear(runs_of(), "T / B, d")
    assert (law.constant, *law.exponents, law.r_squared) == pytest.approx((1.5, 1, 0.5, 1))
    assert law.exponent("d") == pytest.approx(0.5)
    assert law.predict(runs_of()) == pytest.approx(runs_of()["time"].to_numpy())


def test_the_intervals_are_those_of_a_regression() -> None:
    runs = runs_of(noise=0.3)
    law = fit_log_linear(runs, "d")
    line = stats.linregress(np.log(runs["d"]), np.log(runs["time"]))
    margin = line.stderr * stats.t.ppf(0.975, len(runs) - 2)
    assert (law.lo[1], law.hi[1]) == pytest.approx((line.slope - margin, line.slope + margin))
    assert law.r_squared == pytest.approx(line.rvalue**2)


def test_narrow_intervals_give_the_least_squares_law() -> None:
    runs = runs_of(noise=0.2)
    narrow = runs.assign(lo=runs["time"] * 0.999, hi=runs["time"] * 1.001)
    censored, plain = fit_interval_censored(narrow, "T / B, d"), fit_log_linear(runs, "T / B, d")
    assert censored.exponents == pytest.approx(plain.exponents, abs=1e-3)
    assert censored.constant == pytest.approx(plain.constant, rel=5e-3)
    width = np.subtract(censored.hi, censored.lo)[1:] / np.subtract(plain.hi, plain.lo)[1:]
    assert width == pytest.approx(1, rel=0.01)


def test_censored_runs_do_not_bend_the_law() -> None:
    runs = runs_of(noise=0.5, repeats=100)
    budget = 1500.0
    lower = np.floor(runs["time"] / 50) * 50
    cut = runs.assign(lo=lower.clip(upper=budget), hi=np.where(runs["time"] > budget, math.inf, lower + 50))
    law = fit_interval_censored(cut, "T / B, d")
    naive = fit_log_linear(runs[runs["time"] <= budget], "T / B, d")
    assert law.n_censored == (runs["time"] > budget).sum() > 100
    assert law.exponents == pytest.approx((1, 0.5), abs=0.05)
    assert naive.exponents[0] < 0.9


@pytest.mark.slow
def test_the_intervals_cover_the_truth_as_often_as_they_say() -> None:
    covered = []
    for seed in range(40):
        runs = runs_of(noise=0.3, seed=seed)
        law = fit_interval_censored(runs.assign(lo=runs["time"] * 0.9, hi=runs["time"] * 1.1), "T / B, d")
        covered.append(law.lo[1] <= 1 <= law.hi[1])
    assert 0.85 <= np.mean(covered) <= 1.0


def test_seeds_of_a_setting_that_share_their_noise_are_one_observation() -> None:
    once = runs_of(noise=0.3).assign(setting=range(24))
    once = once.assign(lo=once["time"] * 0.97, hi=once["time"] * 1.03)
    six = pd.concat([once] * 6, ignore_index=True)
    alone, naive, clustered = (
        np.subtract(law.hi, law.lo)[1:]
        for law in (
            fit_interval_censored(once, "T / B, d"),
            fit_interval_censored(six, "T / B, d"),
            fit_interval_censored(six, "T / B, d", settings="setting"),
        )
    )
    assert naive == pytest.approx(alone / math.sqrt(6), rel=0.15)
    assert clustered == pytest.approx(alone, rel=0.2)


def test_settings_that_do_not_decide_the_error_are_refused() -> None:
    runs = pd.DataFrame({"d": np.repeat([8, 16], 6)}).assign(
        lo=lambda runs: 3.0 * runs["d"], hi=lambda runs: 4 * runs["d"]
    )
    assert fit_interval_censored(runs, "d").exponent("d") == pytest.approx(1)
    with pytest.raises(NoLaw, match="a law of d has 2 numbers to fit: errors clustered by d need more settings"):
        fit_interval_censored(runs, "d", settings="d")


def test_seeds_whose_times_agree_say_no_more_than_the_resolution() -> None:
    seeds = pd.DataFrame({"d": np.repeat([4.0, 8.0, 16.0, 32.0], 3)})
    seeds = seeds.assign(lo=3 * seeds["d"], hi=4 * seeds["d"])
    alone, clustered = fit_interval_censored(seeds, "d"), fit_interval_censored(seeds, "d", settings="d")
    assert clustered.lo[1] == pytest.approx(alone.lo[1])
    assert clustered.hi[1] - clustered.lo[1] > 0.1


def test_a_law_that_passes_through_every_interval_is_as_sharp_as_the_intervals() -> None:
    runs = runs_of()
    law = fit_interval_censored(runs.assign(lo=runs["time"] * 0.9, hi=runs["time"] * 1.1), "T / B, d")
    spread = math.log(1.1 / 0.9) / math.sqrt(12)
    error = spread / math.sqrt(((np.log(runs["d"]) - np.log(runs["d"]).mean()) ** 2).sum())
    assert law.exponents == pytest.approx((1, 0.5), abs=0.02)
    z = math.sqrt(3)  # half an interval, in standard deviations of a uniform law in it
    information = 2 * z * stats.norm.pdf(z) / (2 * stats.norm.cdf(z) - 1)
    assert (law.hi[2] - law.lo[2]) / (2 * 1.96) == pytest.approx(error / math.sqrt(information), rel=0.02)


@pytest.mark.parametrize("width", [0.05, 0.01, 1e-3, 1e-5])
def test_times_known_to_any_width_decide_an_exact_law(width: float) -> None:
    runs = pd.DataFrame([(d, T) for d in (8, 16, 32) for T in (32, 64, 128)], columns=["d", "T"])
    steps = 0.76 * runs["d"] ** 1.29 * runs["T"] ** 0.8
    law = fit_interval_censored(runs.assign(lo=steps * (1 - width), hi=steps * (1 + width)), "d, T")
    assert law.exponents == pytest.approx((1.29, 0.8), abs=width)
    assert 0 < law.hi[1] - law.lo[1] < 3 * width


def test_a_first_interval_from_zero_is_used() -> None:
    runs = runs_of(noise=0.1)
    wide = runs.assign(lo=np.where(runs["time"] < 100, 0.0, runs["time"] * 0.9), hi=runs["time"] * 1.1)
    assert fit_interval_censored(wide, "T / B, d").exponents == pytest.approx((1, 0.5), abs=0.15)


def test_all_runs_censored_is_an_error_and_no_number() -> None:
    runs = runs_of().assign(lo=100.0, hi=math.inf)
    with pytest.raises(NoLaw, match="all 24 runs are censored: none emerged within its budget"):
        fit_interval_censored(runs, "T, d")


def test_runs_that_all_emerged_at_once_ask_for_more_evaluations() -> None:
    with pytest.raises(ValueError, match="all lo are 0; evaluate more often"):
        fit_interval_censored(runs_of().assign(lo=0.0, hi=50.0), "T, d")


def test_a_law_says_what_it_is() -> None:
    assert str(fit_log_linear(runs_of(), "T / B, d")).startswith("1.5 (T / B)^1.00 [1.00, 1.00] d^0.50")
    with pytest.raises(ValueError, match="the law has no term 'B'; it has T / B, d"):
        fit_log_linear(runs_of(), "T / B, d").exponent("B")


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("T, x", "'x' is no expression over T, B, d, time"),
        ("d^2", r"'d\^2' is no expression over T, B, d, time .* written \*\*"),
        ("d.size_of", "'d.size_of' is no expression"),
        ("d if T else 2", "is no expression"),
        ("T = 3", "'T = 3' is no expression"),
        ("[T", "is no expression"),
        ("T, d, T * d", "varies only with the others"),
        ("T, , d", "terms separated by commas"),
        ("d - 8", "positive, finite numbers: d - 8 has 0"),
    ],
)
def test_a_law_that_cannot_be_fitted_says_why(law: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_log_linear(runs_of(), law)


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="3 numbers to fit: 3 runs with a known time do not decide"):
        fit_log_linear(runs_of().iloc[:3], "T, d")


def test_times_that_are_not_numbers_of_a_law_are_refused() -> None:
    with pytest.raises(ValueError, match="time has inf"):
        fit_log_linear(runs_of().assign(time=math.inf), "T, d")
    with pytest.raises(ValueError, match="row 0 has 5 and 5"):
        fit_interval_censored(runs_of().assign(lo=5.0, hi=5.0), "T, d")


def test_no_runs_at_all_are_refused() -> None:
    empty = runs_of().iloc[:0]
    with pytest.raises(ValueError, match="0 runs with a known time"):
        fit_log_linear(empty, "T")
    with pytest.raises(ValueError, match="0 runs with a known time"):
        fit_interval_censored(empty.assign(lo=[], hi=[]), "T")


def test_a_term_that_varies_only_in_censored_runs_is_not_fitted() -> None:
    runs = runs_of(noise=0.1)
    slow = runs["T"] > 64
    cut = runs.assign(lo=np.where(slow, 500.0, runs["time"] * 0.9), hi=np.where(slow, math.inf, runs["time"] * 1.1))
    with pytest.raises(NoLaw, match="T, d: over the 8 runs with a known time a term does not vary"):
        fit_interval_censored(cut, "T, d")


def test_times_that_are_missing_are_refused() -> None:
    with pytest.raises(ValueError, match="no column 'time'; they have T"):
        fit_log_linear(runs_of().drop(columns="time"), "T")
    with pytest.raises(ValueError, match="no column 'lo'"):
        fit_interval_censored(runs_of(), "T")
    with pytest.raises(ValueError, match="time has nan"):
        fit_log_linear(runs_of().assign(time=math.nan), "T")
    with pytest.raises(ValueError, match="row 0 has nan and nan"):
        fit_interval_censored(runs_of().assign(lo=math.nan, hi=math.nan), "T")
