"""Which curves are followed: what a table declares, on any axes, each once."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise import read_log
from stagewise.criteria import StageCriteria
from stagewise.event import labels_of
from stagewise.findings.onsets import find_onsets
from stagewise.findings.scores import (
    UNIT,
    _answers,
    _grain,
    _resolution,
    curves_of,
    followed,
    has_scores,
    quantities_of,
)
from stagewise.probes import Accuracy
from stagewise.statistics import binomial_errors
from stagewise.table import Quantity, declare
from tests.fixtures.told import told

Curves = Callable[..., pd.DataFrame]


def declaring(table: pd.DataFrame, **quantities: Quantity) -> pd.DataFrame:
    declare(table, {"LogitLens": quantities})
    return table


@pytest.fixture
def lens(step_up: Curves) -> pd.DataFrame:
    """Rows of a probe of one's own, by position and feature: one rises at 100, the others do not."""
    of = {"probe": "LogitLens", "quantity": "rank"}
    frames = [
        step_up(100 + position, 0.7 * (position == 1 and feature == "b"), position=position, feature=feature, **of)
        for position in (0, 1)
        for feature in ("a", "b")
    ]
    return pd.concat(frames, ignore_index=True)


def test_tables_that_lost_what_their_numbers_are_are_warned_of(lens: pd.DataFrame) -> None:
    tables = [lens.assign(probe="Mine", run=name) for name in ("one", "other")]
    for table in tables:
        declare(table, {"Mine": {"rank": Quantity(f"rank of {table['run'].iloc[0]}", progress="up")}})
    with pytest.warns(UserWarning, match=r"does not say what the numbers of Mine are, as after pandas' `concat`"):
        assert find_onsets(pd.concat(tables)).empty


def test_a_probe_of_ones_own_is_followed_on_its_own_axes(lens: pd.DataFrame) -> None:
    table = declaring(lens, rank=Quantity("rank", progress="up"))
    onsets = find_onsets(table)
    assert len(onsets) == 4
    assert onsets["onset"].tolist() == [True, False, False, False]
    assert labels_of(onsets.iloc[0].to_dict()) == {"position": 1, "feature": "b"}
    assert told(table, onsets)[0].startswith("position 1, feature b: rank rises (0.05 -> 0.7")


def test_a_quantity_falls_where_down_is_progress(lens: pd.DataFrame) -> None:
    turned = declaring(lens.assign(value=-lens["value"]), rank=Quantity("rank", progress="down", onset="sinks"))
    onsets = find_onsets(turned).query("onset")
    assert onsets["before"].item() > onsets["after"].item()
    assert told(turned, onsets)[0].startswith("position 1, feature b sinks (-0.05 -> -0.7")


def test_what_is_neither_progress_up_nor_down_is_not_followed(lens: pd.DataFrame) -> None:
    assert not has_scores(declaring(lens, rank=Quantity("rank")))
    assert not has_scores(lens)


def test_a_table_that_declares_nothing_takes_what_the_library_says(step_up: Curves) -> None:
    table = step_up(100, probe="Accuracy", quantity="accuracy")
    assert quantities_of(table)["Accuracy"] == Accuracy.quantities
    assert [curve.labels for curve in followed(table)] == [{}]


def test_a_quantity_is_left_out_where_the_one_that_stands_for_it_has_the_same_labels(step_up: Curves) -> None:
    of = {"probe": "AttentionTo", "relation": "induction", "layer": 0}
    mass = [step_up(100, head=head, quantity="mass", **of) for head in (0, 1)]
    table = pd.concat([*mass, step_up(100, head=1, quantity="along", **of)])
    assert sorted((curve.quantity, curve.labels["head"]) for curve in followed(table)) == [("along", 1), ("mass", 0)]


@pytest.mark.parametrize(("named", "heads"), [(0.2, [0]), (0.3, [])])
def test_a_head_at_an_offset_is_followed_from_the_attention_that_the_criteria_name(
    step_up: Curves, named: float, heads: list[int]
) -> None:
    of = {"probe": "OffsetProfile", "layer": 0, "head": 0}
    peak = step_up(100, by=0.2, quantity="peak", **of)
    table = pd.concat([peak, peak.assign(quantity="peak_offset", value=3.0)], ignore_index=True)
    criteria = StageCriteria(named=named)
    assert [curve.labels["head"] for curve in followed(table, criteria)] == heads
    assert find_onsets(table, criteria)["head"].tolist() == heads
    assert has_scores(table, criteria) == bool(heads)


@pytest.mark.parametrize(
    ("peak", "words"),
    [(0.7, "L0H2 becomes an induction head, or one of offset 11: the same on this batch (0.05 ->"),
     (0.4, "L0H2 becomes an induction head (0.05 ->")],
)  # fmt: skip
def test_an_induction_head_whose_keys_lie_at_one_offset_may_be_of_that_offset(
    peak: float, words: str, step_up: Curves
) -> None:
    of_head = {"layer": 0, "head": 2}
    attention = [
        step_up(100, by=0.7, probe="AttentionTo", quantity=name, relation="induction", **of_head)
        for name in ("mass", "along")
    ]
    at = step_up(100, by=peak, probe="OffsetProfile", quantity="peak", **of_head)
    table = pd.concat([*attention, at, at.assign(quantity="peak_offset", value=11.0)], ignore_index=True)
    assert [one for one in told(table, find_onsets(table)) if one.startswith(words)]


def test_labels_that_no_curve_of_a_run_differs_in_are_no_axes(step_up: Curves) -> None:
    table = step_up(100, probe="Accuracy", quantity="accuracy", seed=3)
    (curve,) = followed(table.assign(tokens=512 * table["step"]))
    assert curve.labels == {}
    assert len(curve.rows) == len(table)


def test_the_curve_of_a_row_is_the_one_that_was_followed(lens: pd.DataFrame) -> None:
    table = declaring(lens, rank=Quantity("rank", progress="up"))
    without = table[table["position"] == 0].assign(position=pd.NA)  # type: ignore[arg-type]
    table = declaring(pd.concat([table, without]), rank=Quantity("rank", progress="up"))
    onsets = find_onsets(table).iloc[::-1]
    expected = {frozenset(curve.labels.items()): curve.rows for curve in followed(table)}
    for row, curve in zip(onsets.to_dict("records"), curves_of(table, onsets), strict=True):
        pd.testing.assert_frame_equal(curve, expected[frozenset(labels_of(row).items())])


def test_an_axis_that_is_called_like_a_column_of_the_onsets_is_refused(lens: pd.DataFrame) -> None:
    table = declaring(lens.rename(columns={"feature": "noise"}), rank=Quantity("rank", progress="up"))
    with pytest.raises(ValueError, match="LogitLens has an axis 'noise', which is a column of the onsets"):
        find_onsets(table)


def test_several_values_at_a_step_are_refused_with_the_step(lens: pd.DataFrame) -> None:
    step = lens["step"].unique()[20]
    resumed = declaring(pd.concat([lens, lens[lens["step"] == step]]), rank=Quantity("rank", progress="up"))
    with pytest.raises(ValueError, match=rf"LogitLens.rank has several values at step {step}:"):
        find_onsets(resumed)


def test_a_curve_without_any_value_is_not_finite(attention: pd.DataFrame) -> None:
    onsets = find_onsets(attention.assign(value=np.nan))
    assert (onsets["verdict"] == "not finite").all()


def test_a_curve_ends_before_it_is_lost(step_up: Curves) -> None:
    table = step_up(100, probe="Accuracy", quantity="accuracy")
    steps = table["step"].tolist()
    (curve,) = followed(table.assign(value=table["value"].where(table["step"] < steps[-3])))
    assert (curve.steps.tolist(), curve.lost, curve.is_finite) == (steps[:-3], (steps[-3], steps[-1]), True)
    (hole,) = followed(table.assign(value=table["value"].where(table["step"] != steps[-3])))
    assert (hole.steps.tolist(), hole.lost, hole.is_finite) == (steps, None, False)


def test_a_change_by_two_answers_of_a_curve_that_counts_is_none() -> None:
    answers = np.arange(20) / 50
    curve = answers + np.sqrt(np.arange(20)) / 100
    table = read_log({"step": np.arange(20), "score": answers, "loss": curve})
    smallest = {curve.quantity: curve.criteria.smallest for curve in followed(table)}
    assert smallest["score"] == pytest.approx(3 / 50)
    assert smallest["loss"] == pytest.approx(0.1 * UNIT * np.ptp(curve[2:]))


def test_numbers_are_as_fine_as_the_smallest_type_that_holds_them() -> None:
    assert [_resolution(np.array(values)) for values in ([0.5, 1], [0.1, 1])] == [2**-10, 2**-52]


def test_the_grain_divides_all_differences() -> None:
    grains = [_grain(values) for values in (np.arange(10) / 50, np.arange(10) ** 0.5, np.arange(2))]
    assert grains == pytest.approx([0.02, 0, 0])


def test_shares_tell_of_how_many_answers_they_are_unless_they_are_rounded() -> None:
    right = np.array([0, 3, 4, 9, 11, 30, 77, 90, 104])
    assert [_answers(right / number) for number in (104, 5153, 1000)] == [104, 5153, 0]
    assert [_answers(values) for values in (right / 52, -right / 104, np.append(right / 104, np.nan))] == [0, 0, 0]
    (curve,) = followed(read_log({"step": np.arange(9), "acc": right / 104}))
    assert curve.errors == pytest.approx(binomial_errors(right / 104, 104))


@pytest.mark.parametrize(("digits", "averaged"), [(5, 1), (5, 3), (3, 3), (2, 3)])
def test_means_of_decimals_are_no_shares_of_answers(digits: int, averaged: int) -> None:
    rounded = np.random.default_rng(0).uniform(0, 1, (400, averaged)).round(digits)
    assert _answers(rounded.mean(1)) == 0


def test_one_answer_of_twenty_more_is_no_onset_where_the_shares_say_that_there_are_twenty() -> None:
    shares = np.array([12, 15, 16, 13, 13, 14, 12, 17, 14, 13] + [18] * 12 + [19] * 12 + [20] * 12) / 20
    of_shares, of_others = (
        find_onsets(read_log({"step": np.arange(46), "ratio": values})) for values in (shares, shares + shares**9 / 99)
    )
    assert of_shares[["before", "after"]].to_numpy() == pytest.approx(np.array([[0.65, 0.9]]), abs=0.01)
    assert of_others["onset"].sum() == 3


@pytest.mark.parametrize(("level", "onsets"), [(0.0178, 0), (0.0150, 1)])
def test_a_head_that_keeps_nine_tenths_of_its_level_only_drifts(level: float, onsets: int) -> None:
    steps, generator = np.arange(0, 4000, 50), np.random.default_rng(0)
    fall = 1 / (1 + np.exp((steps - 2000) / 100))
    heads = {f"prev/L0H{head}": 0.02 + 2e-5 * generator.standard_normal(len(steps)) for head in range(4)}
    heads["prev/L0H2"] += (level - 0.02) * (1 - fall)
    assert find_onsets(read_log({"step": steps, **heads}))["onset"].sum() == onsets


@pytest.mark.parametrize(("fall", "onsets"), [(0.03, 0), (0.06, 1)])
def test_a_logged_loss_that_changes_by_less_than_a_hundredth_of_itself_stays(fall: float, onsets: int) -> None:
    steps, generator = np.arange(0, 4000, 50), np.random.default_rng(0)
    loss = 4 - fall / (1 + np.exp((2000 - steps) / 100)) + 2e-4 * generator.standard_normal(len(steps))
    assert find_onsets(read_log({"step": steps, "ctl_loss": loss}))["onset"].sum() == onsets


@pytest.mark.parametrize(("name", "log"), [("val_ppl", True), ("eval/perplexity", True), ("clip_applied", False)])
def test_a_perplexity_is_searched_by_its_logarithm_and_no_word_that_holds_its_letters(name: str, log: bool) -> None:
    [curve] = followed(read_log({"step": [*range(10)], name: [*range(20, 0, -2)]}))
    assert curve.log == log
