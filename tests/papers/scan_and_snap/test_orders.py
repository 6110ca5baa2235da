"""Constants of orders, and the correlation of classes, beside closed forms."""

import numpy as np
import pytest

from stagewise.papers.scan_and_snap._orders import SIZES, constants, correlation, figure_orders, lemma_6
from stagewise.papers.tasks import SequenceClasses, syn_small

pytestmark = pytest.mark.usefixtures("unchecked")


def test_the_late_order_needs_the_size_of_the_vocabulary() -> None:
    """At S = 2 (1 + d') ln M gamma S is S u / (S - u), u = ln(M S): below 2 u, and no multiple of ln S."""
    found = [constants(M) for M in SIZES]
    assert np.diff([each.late for each in found]).min() > 0.5
    assert all(1 < each.with_size < 2 for each in found)


def test_the_early_order_has_the_constant_one() -> None:
    for M in SIZES:
        assert ((M - 1) / M) ** 2 * 0.98 < constants(M).early < 1


def test_h_solves_its_differential_equation() -> None:
    assert [lemma_6(M) for M in (34, 1000)] == pytest.approx([1, 1], abs=1e-6)


def test_classes_that_share_no_token_do_not_correlate_and_the_papers_own_do() -> None:
    apart = SequenceClasses(n_queries=2, n_common=1, common_weight=1e-9)
    assert correlation(apart, steps=2).largest == pytest.approx(0, abs=1e-6)
    assert correlation(syn_small(), steps=2).largest == pytest.approx(2 * 0.722022, abs=1e-6)


def test_classes_compete_though_they_correlate() -> None:
    numbers = figure_orders().numbers.set_index("quantity")["ours"]
    positive = numbers[numbers.index.str.startswith("Eqn 9")]
    assert positive.tolist() == ["1.000"] * 5
