"""The terms of a law: what they are over the columns of a sweep, and when runs do not decide them."""

import numpy as np
import pandas as pd
import pytest

from stagewise.statistics._law_terms import NoLaw, column, decided_design, design_of, positive, terms_of

RUNS = pd.DataFrame({"T": [64, 256, 1024, 64], "B": [1, 1, 2, 2], "d": [8, 8, 8, 8]})


def test_the_design_has_the_logarithm_of_each_term_after_a_column_of_ones() -> None:
    design = design_of(RUNS, terms_of("T / B, d"))
    assert design == pytest.approx(np.stack([np.ones(4), np.log(RUNS["T"] / RUNS["B"]), np.log(RUNS["d"])], 1))


def test_a_term_that_does_not_vary_decides_nothing() -> None:
    assert decided_design(RUNS, ("T", "B")).shape == (4, 3)
    with pytest.raises(NoLaw, match="a term does not vary"):
        decided_design(RUNS, ("T", "d"))
    with pytest.raises(NoLaw, match="3 numbers to fit: 2 runs"):
        decided_design(RUNS[:2], ("T", "B"))


def test_columns_that_are_missing_or_not_positive_are_named() -> None:
    with pytest.raises(ValueError, match="no column 'time'; they have T, B, d"):
        column(RUNS, "time")
    with pytest.raises(ValueError, match=r"time has 0\.0"):
        positive(np.array([1.0, 0.0]), "time")
