"""What emerged in which order, from curves made by hand."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.criteria import StageCriteria
from stagewise.papers.emergence._half_way import HalfWay, Rise, _rise, curves, events, in_words, rise_of
from stagewise.statistics import Interval
from stagewise.table import tidy

STEPS = np.arange(0, 1000, 50)


def step_up(at: float, height: float) -> np.ndarray:
    return height / (1 + np.exp(-(STEPS - at) / 20))


def rows(values: np.ndarray, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"step": STEPS, "value": values}).assign(run="made", **columns)


@pytest.fixture
def table() -> pd.DataFrame:
    along = {"probe": "AttentionTo", "quantity": "along", "relation": "value to key", "head": 0}
    return tidy(
        [
            rows(step_up(420, 0.9), layer=0, **along),
            rows(step_up(420, 0.1), layer=1, **along),
            rows(step_up(540, 1.0), probe="Accuracy", quantity="accuracy"),
            rows(4 - step_up(560, 3.9), probe="Loss", quantity="cross_entropy"),
            rows(step_up(210, 0.4), probe="ValueAlignment", quantity="cosine", layer=1, head=0, feature="copy"),
        ]
    )


def said(table: pd.DataFrame) -> str:
    return in_words(events(table), rise_of(table))


def test_events_come_in_order_and_what_hardly_moved_is_none(table: pd.DataFrame) -> None:
    assert [(event.kind, str(event), *event.interval) for event in events(table)] == [
        ("weights", "L1H0, copy passes 0.20", 200, 250),
        ("attention", "L0H0, value to key passes 0.45", 400, 450),
        ("accuracy", "accuracy passes 0.50", 500, 550),
        ("loss", "loss passes 2.05", 550, 600),
    ]


def test_the_order_is_told_with_the_plateau_and_its_end(table: pd.DataFrame) -> None:
    assert said(table) == (
        "The plateau lasts until step 450; the accuracy is half-way between steps 500 and 550 and has nine tenths of "
        "its rise by step 600. Half-way came weights (L1H0, copy: steps 200 to 250), then attention (L0H0, value to "
        "key: steps 400 to 450), then accuracy (steps 500 to 550), then loss (steps 550 to 600)."
    )


def test_what_comes_within_the_same_checkpoints_comes_together(table: pd.DataFrame) -> None:
    same = pd.concat(
        [
            table[table["probe"] == "Accuracy"],
            rows(step_up(530, 0.9), probe="AttentionTo", quantity="along", relation="r", layer=0, head=0),
        ]
    )
    assert "accuracy (steps 500 to 550), together with attention (L0H0, r" in said(same)


def test_a_run_in_which_nothing_emerged_says_so(table: pd.DataFrame) -> None:
    flat = table.assign(value=0.1)
    assert events(flat) == []
    assert rise_of(flat) is None
    assert said(flat).startswith("Nothing emerged in this run")


def test_attention_may_rise_without_accuracy(table: pd.DataFrame) -> None:
    blind = table.assign(value=table["value"].where(table["probe"] != "Accuracy", 0.1))
    assert said(blind).startswith("The accuracy did not rise. Half-way came weights")


def test_what_hardly_moved_is_decided_by_the_criteria(table: pd.DataFrame) -> None:
    assert "L1H0, value to key passes 0.05" in map(str, events(table, StageCriteria(growth=0.05)))
    assert events(table, StageCriteria(growth=1.0)) == []
    assert rise_of(table, StageCriteria(growth=1.0)) is None


def test_a_table_without_a_probe_has_no_curves_of_it(table: pd.DataFrame) -> None:
    assert list(curves(table[table["probe"] == "Accuracy"], "weights")) == []


WEIGHTS = HalfWay("weights", "L0H0, copy", 0.2, Interval(200, 250))
ACCURACY = HalfWay("accuracy", "accuracy", 0.5, Interval(500, 550))
LOSS = HalfWay("loss", "loss", 2.0, Interval(520, 560))
RISE = Rise(Interval(450, 500), Interval(500, 550), Interval(600, 650), first=0)


def test_what_came_first_is_said_first_and_overlapping_intervals_come_together() -> None:
    assert in_words([WEIGHTS, ACCURACY, LOSS], RISE) == (
        "The plateau lasts until step 450; the accuracy is half-way between steps 500 and 550 and has nine tenths of "
        "its rise by step 650. Half-way came weights (L0H0, copy: steps 200 to 250), then accuracy (steps 500 to 550), "
        "together with loss (steps 520 to 560)."
    )


def test_an_accuracy_that_rises_from_the_first_checkpoint_on_has_no_plateau() -> None:
    said = [in_words([ACCURACY], RISE._replace(first=first)) for first in (450, 400)]
    assert said[0].startswith("No plateau is seen; the accuracy is half-way")
    assert said[1].startswith("The plateau lasts until step 450; ")


def test_of_several_events_of_a_kind_the_first_is_said() -> None:
    late = HalfWay("weights", "L1H0, copy", 0.2, Interval(300, 350))
    assert "L1H0" not in in_words([WEIGHTS, late], None)


def test_a_rise_that_is_not_over_ends_at_the_end_and_no_rise_is_said_too() -> None:
    assert "nine tenths of its rise by the end." in in_words([ACCURACY], RISE._replace(most=Interval(900, math.inf)))
    assert in_words([WEIGHTS], None).startswith("The accuracy did not rise. ")
    assert in_words([], None).startswith("Nothing emerged in this run")


def test_a_rise_is_told_from_its_first_to_its_last_value_and_none_where_it_is_small() -> None:
    steps, values = np.arange(0, 110, 10), np.linspace(0.0, 1.0, 11)
    found = _rise(steps, values, 0.2)
    assert found is not None
    assert (found.half, found.first) == ((40, 50), 0)
    assert _rise(steps, values, 1.5) is None
