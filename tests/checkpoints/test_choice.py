"""Which checkpoints of a series are taken."""

import numpy as np
import pytest

from stagewise.checkpoints._choice import chosen_steps
from stagewise.checkpoints.series import open_series

PYTHIA = (0, *(2**k for k in range(10)), *range(1000, 144000, 1000))


@pytest.mark.parametrize("number", [2, 3, 20, 100, 153])
def test_a_number_of_checkpoints_is_that_many_with_both_ends_evenly_in_log(number: int) -> None:
    chosen = chosen_steps(PYTHIA, number, "pythia")
    assert len(chosen) == number
    assert (chosen[0], chosen[-1]) == (0, 143000)
    if number == 20:
        gaps = np.diff(np.log1p(chosen))
        assert gaps.max() < 1.7  # an even gap is 0.62, the widest one between two checkpoints ln 2
        assert sum(step <= 512 for step in chosen) == 11


def test_more_than_there_are_is_all() -> None:
    assert chosen_steps(PYTHIA, 500, "pythia") == list(PYTHIA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:4000:1000", [0, 1000, 2000, 3000, 4000]),
        ("0:2000:800", [0, 1000, 2000]),
        ("141500:", [142000, 143000]),
        (":4", [0, 1, 2, 4]),
        ("0, 512,1000", [0, 512, 1000]),
        ("143000", [143000]),
    ],
)
def test_a_text_names_steps(text: str, expected: list[int]) -> None:
    assert chosen_steps(PYTHIA, text, "pythia") == expected


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("0,3", "pythia has no step 3; its steps are 154 from 0 to 143000"),
        ("600:900", "pythia has no step from 600 to 900"),
        ("early", "as 0:10000:1000"),
        ("5-7", "as 0:10000:1000"),
        (1, "the first and the last one at least, got 1"),
        ([], "`steps` names none"),
    ],
)
def test_what_chooses_nothing_is_refused(choice: str | int | list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chosen_steps(PYTHIA, choice, "pythia")


def test_a_series_is_opened_at_the_chosen_steps(small_folder: object) -> None:
    assert open_series(str(small_folder), steps=2).steps == (0, 6)
    assert open_series(str(small_folder), steps="0:4:2").steps == (0, 2, 4)
