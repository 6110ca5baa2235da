"""Figures of the formulas: their numbers against the formulas' limits."""

import itertools
import math

import pytest

from stagewise.papers.scan_and_snap._theory_figures import figure_3, figure_8, figure_9

pytestmark = pytest.mark.usefixtures("unchecked")


def values(result: object, start: str) -> list[float]:
    numbers = result.numbers  # type: ignore[attr-defined]
    return [float(value) for value in numbers[numbers["quantity"].str.startswith(start)]["ours"]]


def test_attention_grows_less_at_larger_rates_of_the_decoder_and_mostly_before_the_transition() -> None:
    result = figure_3()
    assert values(result, "chi") == pytest.approx([45.2, 34.7, 26.3, 18.0], abs=0.06)
    assert min(values(result, "share")) > 0.8
    assert values(result, "phase") == pytest.approx([20 * math.log(1000) / eta for eta in (0.5, 1, 2, 5)], abs=0.5)


def test_a_larger_vocabulary_takes_longer_by_its_logarithm() -> None:
    times = values(figure_8(), "time")
    steps = [late - early for early, late in itertools.pairwise(times[1:])]
    assert steps == pytest.approx([math.log(10)] * 2, abs=0.15)


def test_growth_falls_with_the_ratio_of_the_rates() -> None:
    growth = values(figure_9(), "chi")
    assert growth == sorted(growth, reverse=True)
