"""Previous-token and induction heads of a text: their onsets, the sentence on them, and the cells of the report."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.criteria import StageCriteria
from stagewise.papers.wikitext.text_figures import HEAD_KINDS
from stagewise.papers.wikitext.text_heads import head_onsets, head_rows, heads

STEPS = np.unique(np.geomspace(1, 5000, 40).round().astype(int))


def sudden(step: float, top: float) -> np.ndarray:
    """A rise from 0.05 to `top` around a step, with a little noise."""
    noise = 0.003 * np.random.default_rng(round(step)).standard_normal(len(STEPS))
    return 0.05 + (top - 0.05) / (1 + (step / STEPS) ** 6) + noise


def table(**curves: np.ndarray) -> pd.DataFrame:
    """`AttentionTo` rows of two heads, those of a kind by its first word; what is not given stays flat."""
    rows = []
    for kind, relation in HEAD_KINDS.items():
        for layer in (0, 1):
            values = curves.get(f"{kind.split('-')[0]}_{layer}", sudden(100 + layer, 0.05))
            frame = pd.DataFrame({"step": STEPS, "value": values, "relation": relation, "layer": layer, "head": 0})
            rows.append(frame.assign(run="a", probe="AttentionTo", quantity="along"))
    return pd.concat(rows, ignore_index=True)


BOTH = {"previous_0": sudden(200, 0.8), "induction_1": sudden(1500, 0.6)}


def said(**curves: np.ndarray) -> str:
    return heads(head_onsets(table(**curves)), last=5000)


def test_a_head_is_named_with_an_interval_that_holds_its_rise() -> None:
    onsets = head_onsets(table(**BOTH))
    named = {(row["kind"], row["layer"]): row for row in onsets[onsets["named"]].to_dict("records")}
    assert set(named) == {("previous-token", 0), ("induction", 1)}
    assert named["previous-token", 0]["t50_lo"] <= 200 <= named["previous-token", 0]["t50_hi"]
    assert named["induction", 1]["largest"] == pytest.approx(0.6, abs=0.02)


@pytest.mark.slow
def test_from_which_attention_a_head_is_named_is_decided_by_the_criteria() -> None:
    assert head_onsets(table(**BOTH), StageCriteria(named=0.7))["named"].sum() == 1
    assert head_onsets(table(**BOTH), StageCriteria(named=0.9))["named"].sum() == 0


def test_the_kind_that_rises_first_comes_first() -> None:
    assert said(**BOTH).endswith("So previous-token heads come before induction heads.")
    other = {"induction_0": sudden(200, 0.8), "previous_1": sudden(1500, 0.6)}
    assert said(**other).endswith("So induction heads come before previous-token heads.")


def test_heads_that_rise_together_have_no_order() -> None:
    assert "Which kind came first cannot be decided" in said(previous_0=sudden(200, 0.8), induction_1=sudden(205, 0.6))


def test_an_unseen_kind_comes_later_if_at_all() -> None:
    words = said(previous_0=BOTH["previous_0"], induction_1=sudden(1500, 0.25))
    assert "; no induction head by step 5000 (the largest mass is 0.2" in words
    assert ".." not in words
    assert words.endswith("So previous-token heads come before induction heads, if any form.")


def test_a_head_that_was_of_a_kind_from_the_start_leaves_the_order_open() -> None:
    words = said(previous_0=BOTH["previous_0"], induction_1=np.full(len(STEPS), 0.6))
    assert "no induction head by step 5000 (the largest mass is 0.60" in words
    assert "before" not in words


def test_where_nothing_was_found_no_order_is_claimed() -> None:
    assert said().count("no ") == 2
    assert "before" not in said()


def test_the_table_names_the_heads_found_and_the_best_of_each_kind() -> None:
    rows = head_rows(head_onsets(table(previous_0=BOTH["previous_0"])), "text")
    assert next(row[:3] for row in rows) == ["text", "previous-token", "L0H0"]
    assert len(rows) == 2
    assert str(rows[1][-1]).startswith("no onset: ")


def head(kind: str, t50: float, largest: float = 0.6, named: bool = True) -> dict[str, Any]:
    times = {"t50": t50, "t50_lo": t50 - 10, "t50_hi": t50 + 10, "before": 0.1, "last": largest}
    own = {"kind": kind, "layer": 0, "head": 1, "largest": largest, "named": named, "onset": named}
    return {**own, **times, "after": largest, "verdict": "common"}


@pytest.mark.parametrize(
    ("induction", "sentence"),
    [
        (head("induction", 300), "So previous-token heads come before induction heads."),
        (head("induction", 105), "Which kind came first cannot be decided: the intervals of previous-token"),
        (head("induction", 300, 0.2, named=False), "come before induction heads, if any form."),
    ],
)
def test_an_order_is_claimed_where_the_intervals_show_it(induction: dict[str, Any], sentence: str) -> None:
    assert sentence in heads(pd.DataFrame([head("previous-token", 100), induction]), last=900)


def test_a_kind_without_a_name_that_has_enough_attention_leaves_the_order_open() -> None:
    onsets = pd.DataFrame([head("previous-token", 100), head("induction", 300, 0.2, named=False)])
    assert "come before" in heads(onsets, 900)
    assert "come before" not in heads(onsets, 900, StageCriteria(named=0.1))


def test_the_cells_of_a_head_hold_its_time_or_the_reason_against_one() -> None:
    onsets = pd.DataFrame([head("induction", 300, named=False), head("previous-token", 100)])
    first, second = head_rows(onsets, "text")
    assert first == ["text", "previous-token", "L0H1", "0.10", "0.60", "0.60", "100 [90, 110]"]
    assert second[-1] == "no onset: moves no faster than before or after"
