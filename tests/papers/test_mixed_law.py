"""Laws with a random effect of the setting: against the analysis of settings' means, and what they predict."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stagewise.papers.mixed_law import compare_laws, fit_mixed
from stagewise.papers.power_law import NoLaw, fit_interval_censored, fit_log_linear


def runs_of(between: float, within: float = 0.1, settings: int = 8, seeds: int = 4, seed: int = 0) -> pd.DataFrame:
    g = np.random.default_rng(seed)
    number = np.repeat(np.arange(settings), seeds)
    T, d = np.exp(g.uniform(4, 7, settings))[number], np.exp(g.uniform(2, 4, settings))[number]
    left = between * g.standard_normal(settings)[number] + within * g.standard_normal(len(number))
    return pd.DataFrame({"setting": number, "T": T, "d": d, "time": 2 * T * d**0.5 * np.exp(left)})


def test_with_as_many_seeds_in_each_setting_it_is_the_law_of_their_means() -> None:
    runs = runs_of(0.3)
    mixed = fit_mixed(runs, "T, d", "setting").law
    means = runs.groupby("setting").first().assign(time=runs.groupby("setting")["time"].agg(stats.gmean))
    of_means = fit_log_linear(means, "T, d")
    assert mixed.exponents == pytest.approx(of_means.exponents, rel=1e-4)
    assert mixed.lo == pytest.approx(of_means.lo, rel=1e-3)
    assert mixed.hi == pytest.approx(of_means.hi, rel=1e-3)


def test_the_two_spreads_are_told_apart() -> None:
    law = fit_mixed(runs_of(0.5, within=0.1, settings=60), "T, d", "setting")
    assert law.between == pytest.approx(0.5, rel=0.25)
    assert law.within == pytest.approx(0.1, rel=0.15)
    assert fit_mixed(runs_of(0.0, settings=60), "T, d", "setting").between < 0.05


def test_a_prediction_holds_a_setting_that_was_not_fitted() -> None:
    runs = runs_of(0.3, settings=10, seed=1)
    prediction = fit_mixed(runs[runs["setting"] < 9], "T, d", "setting").predict(runs[runs["setting"] == 9])
    assert list(prediction) == ["time", "lo", "hi"]
    assert list(prediction.index) == list(runs.index[runs["setting"] == 9])
    assert (prediction.lo < prediction.time).all()
    time = runs.loc[runs["setting"] == 9, "time"]
    assert ((prediction.lo <= time) & (time <= prediction.hi)).all()


def test_the_planted_law_is_the_best_and_a_wrong_one_is_worse() -> None:
    compared = compare_laws(runs_of(0.1, settings=12), ["T", "T, d"], "setting")
    assert list(compared) == ["law", "density", "behind", "behind_error", "verdict"]
    best, worse = compared.itertuples()
    assert (best.law, best.verdict, best.behind) == ("T, d", "best", 0.0)
    assert (worse.law, worse.verdict) == ("T", "worse")


def test_settings_of_one_seed_each_are_refused() -> None:
    with pytest.raises(NoLaw, match="several seeds in some, got 8 settings and 8 runs"):
        fit_mixed(runs_of(0.1, seeds=1), "T, d", "setting")


@pytest.mark.parametrize("within", [0.0, 1e-9])
def test_seeds_with_the_same_time_are_one_observation_of_their_setting(within: float) -> None:
    runs = runs_of(0.3, within=within)
    mixed = fit_mixed(runs, "T, d", "setting")
    one_each = fit_log_linear(runs.groupby("setting").first(), "T, d")
    assert mixed.law.lo == pytest.approx(one_each.lo, rel=1e-3)
    assert mixed.law.hi == pytest.approx(one_each.hi, rel=1e-3)


def test_a_run_without_a_setting_is_refused_with_its_row() -> None:
    runs = runs_of(0.3).astype({"setting": float})
    runs.loc[5, "setting"] = np.nan
    with pytest.raises(ValueError, match="setting is missing in row 5"):
        fit_mixed(runs, "T, d", "setting")
    with pytest.raises(ValueError, match="setting is missing in row 5"):
        fit_interval_censored(runs.assign(lo=runs["time"], hi=1.1 * runs["time"]), "T, d", settings="setting")


def test_laws_to_compare_and_the_column_of_settings_must_be_there() -> None:
    runs = pd.DataFrame({"d": [1.0, 1.0, 2.0, 2.0], "s": [0, 0, 1, 1], "time": [1.0, 2.0, 3.0, 4.0]})
    with pytest.raises(ValueError, match="no laws to compare"):
        compare_laws(runs, [], "s")
    with pytest.raises(ValueError, match="no column 'seed'; they have d, s, time"):
        compare_laws(runs, ["d"], "seed")
