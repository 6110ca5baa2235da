"""Laws of what varies, the reason where there is none, and their rows."""

import math

import pandas as pd
import pytest

from stagewise.papers.emergence._numbers import law_numbers, law_of, mean_times, ratio_number
from stagewise.papers.power_law import NoLaw, PowerLaw, fit_interval_censored


def runs(pairs: list[int]) -> pd.DataFrame:
    frame = pd.DataFrame({"n_pairs": pairs, "n_tokens": 64, "seed": [i % 2 for i in range(len(pairs))]})
    return frame.assign(lo=[100.0 * n for n in pairs], hi=[110.0 * n for n in pairs])


def test_only_what_varies_is_fitted() -> None:
    law = law_of(runs([4, 4, 8, 8, 16, 16]), ["n_tokens", "n_pairs"])
    assert isinstance(law, PowerLaw)
    assert law.terms == ("n_pairs",)
    assert law.exponents == pytest.approx((1.0,), abs=1e-3)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (runs([8, 8]), "no law: nothing of n_tokens, n_pairs varies over 2 runs"),
        (runs([8, 16]), "no law: a law of n_pairs has 2 numbers to fit: 2 runs with a known time"),
        (runs([4, 8, 16, 32]).assign(hi=math.inf), "no law: all 4 runs are censored"),
    ],
)
def test_where_there_is_no_law_the_reason_is_given(frame: pd.DataFrame, reason: str) -> None:
    found = law_of(frame, ["n_tokens", "n_pairs"])
    assert isinstance(found, NoLaw)
    assert str(found).startswith(reason)


def test_seeds_of_one_setting_are_no_further_settings() -> None:
    apart = [1.0, 1.3, 0.8, 1.1, 0.9]
    pairs = [4, 8, 16, 32, 64]
    once = runs(pairs).assign(lo=[100.0 * n * by for n, by in zip(pairs, apart, strict=True)])
    once = once.assign(hi=1.05 * once["lo"])
    seeds = pd.concat([once] * 4, ignore_index=True)
    law, naive = law_of(seeds, ["n_tokens", "n_pairs"]), fit_interval_censored(seeds, "n_pairs")
    assert isinstance(law, PowerLaw)
    assert law == fit_interval_censored(seeds, "n_pairs", settings="n_pairs")
    assert law.hi[1] - law.lo[1] > 1.5 * (naive.hi[1] - naive.lo[1])


def test_a_law_is_a_row_and_a_row_an_exponent_with_its_interval() -> None:
    law = law_of(runs([4, 4, 8, 8, 16, 16]), ["n_pairs"])
    assert isinstance(law, PowerLaw)
    first, exponent = law_numbers("T", "0.55 N_pairs^2.25", law)
    assert (first["remark"], exponent["published"]) == ("6 runs", "2.25")
    lo, hi = (float(end) for end in exponent["interval"].strip("[]").split(", "))
    assert lo <= law.exponents[0] <= hi
    (reason,) = law_numbers("T", "2.25", NoLaw("no law: none"))
    assert reason["ours"] == "no law: none"


@pytest.mark.parametrize(
    ("slow", "fast", "ours", "interval"),
    [
        ((400, 500), (200, 250), "2.00", "[1.6, 2.5]"),
        ((400, math.inf), (200, 250), "at least 1.60", ""),
        ((400, 500), (200, math.inf), "not known, censored", ""),
    ],
)
def test_a_ratio_of_times_has_the_interval_of_both(
    slow: tuple[float, float], fast: tuple[float, float], ours: str, interval: str
) -> None:
    row = ratio_number("speed-up", "-", slow, fast)
    assert (row["ours"], row["interval"]) == (ours, interval)


def test_times_of_seeds_are_averaged() -> None:
    frame = pd.DataFrame({"T": [8, 8, 16], "lo": [10, 30, 50], "hi": [20, 40, math.inf]})
    assert mean_times(frame, ("T",)) == {(8,): (20.0, 30.0), (16,): (50.0, math.inf)}
