"""Frames as plain data: what is read is what was written; a digest tells tables apart by what they say."""

import json
import math

import pandas as pd
import pytest

from stagewise.findings._frames import digest, from_plain, plain, rows_of, typed
from stagewise.table import Quantity, Role, declare, families
from stagewise.words._onsets import largest

TYPES = {"step": "int64", "t50": "float64", "layer": "Int64", "relation": "string", "words": "str", "onset": "bool"}
ROWS: list[dict[str, object]] = [
    {"step": 1, "t50": 1 / 3, "layer": 0, "relation": "self", "words": "a", "onset": True},
    {"step": 2, "t50": math.inf, "words": "", "onset": False},
    {"step": 3, "t50": math.nan, "layer": None, "relation": None, "words": "é", "onset": True},
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[1:], []])
def test_a_frame_survives_json_with_its_types(rows: list[dict[str, object]]) -> None:
    frame = typed(rows, TYPES)
    text = json.dumps(plain(frame), allow_nan=False)
    pd.testing.assert_frame_equal(from_plain(json.loads(text)), frame)


def test_the_digest_is_that_of_the_values_not_of_their_types() -> None:
    frame = typed(ROWS, TYPES)
    assert digest(frame) == digest(frame.astype({"step": "Int64", "relation": "object", "words": "string"}))
    assert digest(frame) == digest(frame.assign(nothing=None, resamples=1.0))


@pytest.mark.parametrize(("column", "value"), [("t50", 0.5), ("layer", 3), ("relation", "other"), ("words", "b")])
def test_another_value_gives_another_digest(column: str, value: float | str) -> None:
    frame = typed(ROWS, TYPES)
    changed = frame.copy()
    changed.loc[0, column] = value
    assert digest(changed) != digest(frame)


def test_what_a_table_declares_counts() -> None:
    frame, declaring = typed(ROWS, TYPES), typed(ROWS, TYPES)
    declare(declaring, {"Own": {"score": Quantity("score", progress="up")}})
    assert digest(declaring) != digest(frame)


def test_references_of_which_none_is_a_partial_solution_are_others() -> None:
    rows = pd.DataFrame({"reference": ["unigram", "bigram"], "nested": pd.array([0, 0], dtype="Int64")})
    assert families(rows) == {"nested": [], "trained": [], "other": ["unigram", "bigram"]}


def test_of_many_onsets_every_score_has_its_largest_before_any_has_its_second() -> None:
    sizes = {"loss": [9.0, 8.0, 7.0], "mass": [0.2, 0.9], "accuracy": [0.5]}
    rows = [{"probe": "P", "quantity": name, "before": 0.0, "after": size} for name, of in sizes.items() for size in of]
    chosen = largest(pd.DataFrame(rows), 4)
    assert chosen["after"].tolist() == [9.0, 8.0, 0.9, 0.5]
    assert largest(pd.DataFrame(rows), 2)["after"].tolist() == [9.0, 0.9]


def test_between_scores_of_different_units_the_p_value_decides() -> None:
    rows = {"probe": "Logged", "quantity": ["tokens", "loss", "norm"], "before": 0.0, "after": [1e9, -0.5, 1e3]}
    onsets = pd.DataFrame({**rows, "p_value": [1e-3, 1e-9, 1e-6]})
    assert largest(onsets, 2)["quantity"].tolist() == ["loss", "norm"]


def test_rows_of_a_role_are_those_of_the_first_quantity_that_has_it() -> None:
    rows = [{"run": "run", "step": 0, "probe": "Mine", "quantity": "q", "value": 2.0}]
    mine = pd.DataFrame(rows)
    declare(mine, {"Mine": {"q": Quantity("loss", "nats", role="loss")}})
    assert rows_of(mine, Role.LOSS)["value"].tolist() == [2.0]
    both = pd.DataFrame([*rows, {**rows[0], "probe": "Loss", "quantity": "cross_entropy", "value": 1.0}])
    both.attrs = mine.attrs
    assert rows_of(both, Role.LOSS)["value"].tolist() == [1.0]


def test_rows_of_a_role_that_a_table_lacks_are_refused_with_the_librarys_probe() -> None:
    table = pd.DataFrame({"run": "run", "step": [0], "probe": "P", "quantity": "q", "value": 1.0})
    with pytest.raises(ValueError, match="no rows of AttentionTo, along; it has P"):
        rows_of(table, Role.ATTENTION_ALONG)
