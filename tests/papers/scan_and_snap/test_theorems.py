"""The theorems beside simulations: what the formulas say happens."""

import dataclasses

import pytest

from stagewise.papers.scan_and_snap._theorems import (
    FAST,
    LENGTHS,
    ONE_COMMON,
    OVERLAP,
    SLOW,
    competition,
    decoder_errors,
    fates,
    gains,
    gradient_rows,
    growth,
    growth_rows,
    limit_distances,
    overlapping_error,
    population_ascent,
)
from stagewise.papers.theory.scan_and_snap import ScanAndSnap

pytestmark = pytest.mark.usefixtures("unchecked")

PAPER = ScanAndSnap(M=1000, K=10, eta_y=0.5, eta_z=0.5)


def test_the_simulated_decoder_follows_theorem_1() -> None:
    errors = decoder_errors((100, 200, 400))
    assert list(errors.values()) == pytest.approx(PAPER.class_error(list(errors)).tolist(), rel=0.02)


def test_overlap_acts_as_a_slower_rate_only_where_every_token_is_a_label() -> None:
    def by_rate(M: int, K: int, rate: float) -> float:
        return ScanAndSnap(M=M, K=K, eta_y=rate * PAPER.eta_y).class_error(20 * K).item()

    assert overlapping_error(M=200, K=200, overlap=OVERLAP) == pytest.approx(by_rate(200, 200, 1 - OVERLAP), rel=0.01)
    slower, whole = by_rate(1000, 10, 1 - OVERLAP), by_rate(1000, 10, 1.0)
    assert whole < overlapping_error(M=1000, K=10, overlap=OVERLAP) < whole + (slower - whole) / 10


def test_classes_that_compete_push_their_distinct_tokens_up() -> None:
    first, *path = (competition(weights, ONE_COMMON) for weights in population_ascent(ONE_COMMON, 1.0, 0.02, 100))
    assert first == 0
    assert min(path) > 0


@pytest.mark.slow
def test_classes_that_do_not_overlap_are_those_of_theorem_1() -> None:
    assert overlapping_error(M=1000, K=10, overlap=0.0) == pytest.approx(decoder_errors((200,))[200], rel=1e-3)


def test_the_gradients_of_lemma_1_are_those_of_autograd() -> None:
    assert [float(row["ours"]) < 1e-12 for row in gradient_rows()] == [True]


def test_sampled_attention_approaches_its_limit_as_the_square_root_of_the_length() -> None:
    short, longer, longest = limit_distances(LENGTHS).values()
    assert short / longer == pytest.approx(4, rel=0.15)
    assert longer / longest == pytest.approx(4, rel=0.15)


def test_distinct_tokens_rise_and_the_common_one_falls() -> None:
    moves = fates(steps=200).diff(dim=0)[1:]
    assert (moves[:, 1:] > 0).all()
    assert (moves[:, 0] < 0).all()


@pytest.mark.parametrize(("rates", "least"), [(SLOW, 0.99), (FAST, 0.6)])
def test_gains_grow_by_the_growth_factor_where_the_decoder_is_quasi_static(
    rates: tuple[float, float, float], least: float
) -> None:
    chi, ratio, (lower, upper) = gains(*rates)
    assert lower <= chi <= upper
    assert least <= ratio.min() <= ratio.max() <= 1.01
    assert bool(ratio.min() < 0.7) is (rates == FAST)


@pytest.mark.parametrize("C_0", [1.0, 0.2, 5.0])
def test_the_growth_integral_is_the_solution_of_equation_13(C_0: float) -> None:
    theory, times = dataclasses.replace(PAPER, C_0=C_0), [50, 300, 700]
    assert growth(theory, times) == pytest.approx(theory.growth_integral(times), rel=1e-5)


def test_the_printed_formula_of_theorem_4_is_the_solution_for_one_constant_alone() -> None:
    for row in growth_rows():
        printed, corrected = (float(part.split()[0]) for part in row["published"].split("; "))
        assert float(row["ours"]) == pytest.approx(corrected, abs=1e-3)
        assert (printed == corrected) is ("C_0 = 1," in row["quantity"])
