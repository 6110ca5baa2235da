"""Runs that leave another one: their names, their other order, and the classes that are left out."""

from pathlib import Path

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit
from stagewise.replay import Parent
from stagewise.replay._changes import _matched_head, changed_run, in_order, in_orders, left_out, named_classes
from stagewise.training import train
from tests.fixtures.two_lags import TWO_LAGS

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")


def test_a_change_is_named_and_leaves_what_came_before_it() -> None:
    one = changed_run(TWO_LAGS, {"plan.learning_rate": 0.01}, 20, 0, "change")
    assert one.name == "plan.learning_rate=0.01-20"
    assert [one.recipe.at(step).plan.learning_rate for step in (19, 20)] == [0.1, 0.01]


def test_another_order_has_the_same_batches_from_the_step_on() -> None:
    own = changed_run(TWO_LAGS, {}, 20, 0, "")
    assert in_order(own, 0) is own
    draws = [in_order(own, 1).recipe.at(step).plan.draw for step in range(100)]
    assert draws[:20] == list(range(20))
    assert draws != list(range(100))
    assert set(draws) == set(range(100))
    assert [one.paired for one in in_orders(own, (None, "other"))] == [None, "other"]


def test_classes_are_named_by_what_their_names_begin_with_and_left_out_from_a_step_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(TWO_LAGS, folder, progress=False, until=4)
    parent = Parent(folder, TWO_LAGS)
    named = named_classes(parent, ["of token 5", "at position"])
    assert next(iter(named)) == "of token 5"
    assert named["of token 5"] == int((parent.batch.scored & (parent.batch.targets == 5)).sum()) > 0
    with pytest.raises(ValueError, match=r"two classes at least are told apart, \['of token 5'\] are \['of token 5'\]"):
        named_classes(parent, ["of token 5"])
    one = left_out(TWO_LAGS, ("of token 5",), 20)
    assert [one.recipe.at(step).plan.leave_out for step in (19, 20)] == [None, ("of token 5",)]


def test_the_matched_head_has_the_nearest_norm_and_is_of_another_layer_where_it_must_be() -> None:
    one = {f"blocks.{layer}.attn.W_O": torch.full((1, 2, 2), float(2 + layer)) for layer in range(3)}
    assert _matched_head(one, (0, 0)) == (1, 0)
    assert _matched_head({"blocks.0.attn.W_O": one["blocks.0.attn.W_O"]}, (0, 0)) is None


def test_a_head_of_grouped_queries_is_matched_by_the_values_of_its_group() -> None:
    sizes = {"n_layers": 2, "n_heads": 4, "n_key_value_heads": 2, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5}
    made = Architecture({**sizes, "act_fn": "relu"}, GaussianInit(0.4))
    weights = models.weights(models.build(made))
    assert "blocks.0.attn._W_V" in weights
    weights["blocks.0.attn._W_V"][1] *= 100
    for layer in range(2):
        W_O, values = (weights[f"blocks.{layer}.attn.{name}"] for name in ("W_O", "_W_V"))
        norms = [float((values[head // 2] @ W_O[head]).norm()) for head in range(4)]
        for head in range(4):
            others = [each for each in range(4) if each != head]
            expected = min(others, key=lambda each: abs(norms[each] - norms[head]))
            assert _matched_head(weights, (layer, head)) == (layer, expected)
