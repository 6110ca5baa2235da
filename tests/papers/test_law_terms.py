"""The terms of a law: what they are over the columns of a sweep, and when runs do not decide them."""

import numpy as np
import pandas as pd
import pytest

from stagewise.papers.law_terms import NoLaw, column, decided, design_of, positive, settings_of, terms_of

RUNS = pd.DataFrame({"T": [64, 256, 1024, 64], "B": [1, 1, 2, 2], "d": [8, 8, 8, 8]})


def test_the_design_has_the_logarithm_of_each_term_after_a_column_of_ones() -> None:
    design = design_of(RUNS, terms_of("T / B, d"))
    assert design == pytest.approx(np.stack([np.ones(4), np.log(RUNS["T"] / RUNS["B"]), np.log(RUNS["d"])], 1))


def test_a_term_that_does_not_vary_decides_nothing() -> None:
    assert decided(design_of(RUNS, ("T", "B")), ("T", "B")).shape == (4, 3)
    with pytest.raises(NoLaw, match="a term does not vary"):
        decided(design_of(RUNS, ("T", "d")), ("T", "d"))
    with pytest.raises(NoLaw, match="3 numbers to fit: 2 runs"):
        decided(design_of(RUNS[:2], ("T", "B")), ("T", "B"))


def test_columns_that_are_missing_or_not_positive_are_named() -> None:
    with pytest.raises(ValueError, match="no column 'time'; they have T, B, d"):
        column(RUNS, "time")
    with pytest.raises(ValueError, match=r"time has 0\.0"):
        positive(np.array([1.0, 0.0]), "time")


@pytest.mark.parametrize("term", ["T / B", "T * B**2", "T**0.5 + B", "-(1 - T) // B", "T % 7 + 1", "`batch size` * T"])
def test_terms_over_arrays_are_those_that_pandas_reads_over_a_frame(term: str) -> None:
    runs = RUNS.assign(**{"batch size": [4, 5, 6, 7]})
    columns = {name: runs[name].to_numpy() for name in runs}
    assert np.exp(design_of(columns, [term])[:, 1]) == pytest.approx(np.asarray(runs.eval(term)), rel=1e-14)
    assert (design_of(columns, [term]) == design_of(runs, [term])).all()


@pytest.mark.parametrize("term", ["T^2", "D", "T.sum()", "T if B else d", "", "T B", "'T'", "__import__('os')", "T[0]"])
def test_what_is_no_arithmetic_over_the_columns_is_refused_by_its_name(term: str) -> None:
    with pytest.raises(ValueError, match="is no expression over T, B, d with numbers for values"):
        design_of(RUNS, [term])


def test_settings_are_numbered_as_they_come_whatever_they_are_called() -> None:
    assert settings_of({"s": ["b", "a", "b"]}, "s").tolist() == [0, 1, 0]
    assert settings_of(pd.DataFrame({"s": pd.array([7, 7, 3], dtype="Int64")}), "s").tolist() == [0, 0, 1]
    for missing in (None, float("nan"), pd.NA):
        with pytest.raises(ValueError, match="s is missing in row 1"):
            settings_of({"s": ["b", missing]}, "s")
