"""Runs that leave another one: their names, their other order, and the classes that are left out."""

from pathlib import Path

import pytest

from calibration.influence import TWO_LAGS
from stagewise.replay._changes import changed_run, in_order, in_orders, left_out, named_classes
from stagewise.training import train

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")


def test_a_change_is_named_and_leaves_what_came_before_it() -> None:
    one = changed_run(TWO_LAGS, {"plan.learning_rate": 0.01}, 20, 0, "change")
    assert one.name == "plan.learning_rate=0.01-20"
    assert [one.recipe.at(step).plan.learning_rate for step in (19, 20)] == [0.05, 0.01]


def test_another_order_has_the_same_batches_from_the_step_on() -> None:
    own = changed_run(TWO_LAGS, {}, 20, 0, "")
    assert in_order(own, 0) is own
    draws = [in_order(own, 1).recipe.at(step).plan.draw for step in range(100)]
    assert draws[:20] == list(range(20))
    assert draws != list(range(100))
    assert set(draws) == set(range(100))
    assert [one.paired for one in in_orders(own, (None, "other"))] == [None, "other"]


def test_classes_are_named_by_what_their_names_begin_with_and_come_back_at_the_stop(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(TWO_LAGS, folder, progress=False, until=4)
    assert named_classes(TWO_LAGS, folder, ["of token 5", "at position"])[0] == "of token 5"
    with pytest.raises(ValueError, match=r"two classes at least are told apart, \['of token 5'\] are \['of token 5'\]"):
        named_classes(TWO_LAGS, folder, ["of token 5"])
    one = left_out(TWO_LAGS, ("of token 5",), 20, 30)
    assert [one.recipe.at(step).plan.leave_out for step in (19, 20, 30)] == [None, ("of token 5",), None]
