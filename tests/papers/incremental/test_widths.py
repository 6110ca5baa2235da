"""Which group is learned first, beside rules."""

import pandas as pd
import pytest

from stagewise.papers.incremental import _widths
from stagewise.papers.incremental._widths import RULES, figure_widths, first_learned
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation

pytestmark = pytest.mark.usefixtures("unchecked")


def test_far_from_a_tie_the_larger_block_is_first_whatever_its_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_widths, "STRENGTHS", (1.5, 3.0))
    monkeypatch.setattr(_widths, "WIDTHS", (1, 4))
    cells = first_learned((0,))
    assert cells["first"].tolist() == cells["m sqrt(w)"].tolist() == [0, 1, 0, 0]
    assert cells["m w"].tolist() == [0, 1, 0, 1]


def test_a_tie_does_not_count_for_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = pd.DataFrame(
        {"strength": 2.0, "width": [4, 1], "first": [1, 0], "m sqrt(w)": [None, 0], "m alone": 0, "m w": [1, 0]}
    )
    monkeypatch.setattr(_widths, "first_learned", lambda *_, **__: cells)
    remarks = figure_widths().numbers["remark"].tolist()
    assert remarks == ["1 of 1 flows", "1 of 2 flows", "2 of 2 flows", ""]


def test_the_rules_are_of_norm_strength_and_effect() -> None:
    theory = TensorFactorisation((3.0, 2.0), (1, 4))
    assert {name: rule(theory).tolist() for name, rule in RULES.items()} == {
        "m sqrt(w)": [3.0, 4.0], "m alone": [3.0, 2.0], "m w": [3.0, 8.0],
    }  # fmt: skip
