"""Times are written in steps, or in the tokens that a model had seen by then."""

import math

import pandas as pd

from stagewise.token_axis import token_axis
from stagewise.words._times import (
    COUNTED,
    at,
    counted_in,
    headed,
    interval,
    span,
    written,
    written_on,
)

RUN = pd.DataFrame({"run": "mine", "step": [0, 100, 100, 300], "tokens": [pd.NA, 10**6, 10**6, 5 * 10**6]})


def test_steps_are_written_where_no_axis_is_in_force() -> None:
    assert (at(300), span(10, 20), headed("from step")) == ("step 300", "steps 10 to 20", "from step")
    assert (interval(165, 150, 180), interval(0, 0, 0)) == ("165 [150, 180]", "0")
    with counted_in("steps"):
        assert interval(300, 280, math.inf) == "300 [280, ...]"


def test_on_an_axis_of_tokens_the_same_words_have_tokens_and_it_ends_with_its_block() -> None:
    with written_on(token_axis(RUN)):
        assert at(interval(200, 100, 300)) == "3M [1M, 5M] tokens"
        assert span(50, 100, " and ") == "500k and 1M tokens"
        assert (headed("from step"), headed("between steps"), headed("stage")) == (
            "from tokens",
            "between tokens",
            "stage",
        )
    assert at(200) == "step 200"


def test_times_that_are_counted_in_tokens_are_written_as_they_are() -> None:
    with written_on(COUNTED):
        assert [written(count) for count in (0, -2.1e6, 314_572_800_000, 999_999)] == ["0", "-2.1M", "315B", "1M"]
