"""Laws of what varies, the reason where there is none, and numbers in words."""

import math

import pandas as pd
import pytest

from stagewise.detection.power_law import NoLaw, PowerLaw
from stagewise.experiments.emergence.numbers import in_words, law_of


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


def test_numbers_are_told_in_words() -> None:
    numbers = pd.DataFrame([{"what": "C", "published": "1", "ours": "2", "remark": "why"}])
    assert in_words(numbers) == "C   (why)\n  published  1\n  ours       2"
