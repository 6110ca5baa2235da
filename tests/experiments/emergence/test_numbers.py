"""Laws of what varies, the reason where there is none, and numbers in words."""

import math

import pandas as pd
import pytest

from stagewise.detection.power_law import NoLaw, PowerLaw
from stagewise.experiments.emergence.numbers import in_words, law_of
from stagewise.experiments.emergence.recall import _by_seed, _ratio, rise_in_words


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


def test_exponents_are_told_seed_by_seed() -> None:
    assert _by_seed(runs([4, 4, 8, 8, 16, 16])) == "1.00, 1.00"
    assert _by_seed(runs([4, 4, 8, 8])) == "no law, no law"


def test_ratios_of_censored_times_are_bounds() -> None:
    late, early, never = [400.0, 500.0], [200.0, 250.0], [300.0, math.inf]
    assert _ratio(late, early) == "1.60 to 2.50"
    assert _ratio(never, early) == "at least 1.20"
    assert _ratio(early, never) == "at most 0.83"
    assert _ratio(never, never) == "not known, both censored"


def test_rises_are_told_without_the_censored_ones() -> None:
    rises = pd.DataFrame({"lo_20": [100.0, 300.0, 500.0], "hi_90": [250.0, 700.0, math.inf]})
    assert rise_in_words(rises) == "150 to 400 in 2 of 3 runs; the others are censored"
    assert rise_in_words(rises.iloc[:2]) == "150 to 400 in 2 of 2 runs"
    assert rise_in_words(rises.drop(columns="lo_20")).startswith("no run of 3")
    assert rise_in_words(rises.iloc[2:]) == "no run of 1 rose from below .2 to .9 within its budget"


def test_numbers_are_told_in_words() -> None:
    numbers = pd.DataFrame([{"what": "C", "published": "1", "ours": "2", "remark": "why"}])
    assert in_words(numbers) == "C   (why)\n  published  1\n  ours       2"
