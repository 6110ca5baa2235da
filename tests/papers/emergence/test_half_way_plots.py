"""The drawing of what emerges: its panels share their steps, and only what came up is named."""

import numpy as np
import pandas as pd
import pytest

from stagewise.papers.emergence._half_way import rise_of
from stagewise.papers.emergence._half_way_plots import NAMED, emergence, rise


def test_loss_accuracy_and_attention_share_their_steps_on_one_page(emerging: pd.DataFrame) -> None:
    loss, both = emergence(emerging).axes
    assert loss.get_xlim() == both.get_xlim() == (0, 950)
    assert (loss.get_ylabel(), both.get_ylabel()) == ("loss, nats", "attention, accuracy")
    assert len(emergence(emerging[emerging["probe"] != "Loss"]).axes) == 1


def test_the_step_axis_is_logarithmic_where_checkpoints_are_not_evenly_spaced(emerging: pd.DataFrame) -> None:
    crowded = emerging.assign(step=emerging["step"] ** 2)
    assert [ax.get_xscale() for ax in emergence(emerging).axes] == ["linear", "linear"]
    assert [ax.get_xscale() for ax in emergence(crowded).axes] == ["symlog", "symlog"]
    assert [ax.get_xlabel() for ax in emergence(crowded).axes] == ["", "step (log scale; linear near 0)"]
    assert rise(crowded).get_xscale() == "symlog"


def test_only_what_emerged_is_named_in_the_drawing(emerging: pd.DataFrame) -> None:
    labels = [str(line.get_label()) for line in rise(emerging).get_lines()]
    assert [label for label in labels if not label.startswith("_")] == ["L0H0, value to key", "accuracy"]


def test_of_many_heads_that_rose_those_that_rose_most_are_named(emerging: pd.DataFrame) -> None:
    rows = emerging[emerging["probe"] == "AttentionTo"]
    heads = [rows.assign(head=head, value=rows["value"] * (1 - 0.01 * head)) for head in range(2 * NAMED)]
    others = emerging[emerging["probe"] != "AttentionTo"]
    labels = [str(line.get_label()) for line in rise(pd.concat([others, *heads])).get_lines()]
    named = [label for label in labels if not label.startswith("_")]
    assert named == [*(f"L0H{head}, value to key" for head in range(NAMED)), "accuracy"]
    assert len(labels) > len(named)


def test_a_drawing_without_its_probes_says_what_to_measure(emerging: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="measure with both probes"):
        rise(emerging[emerging["probe"] == "Accuracy"])


def test_the_rise_of_the_accuracy_is_shaded_in_every_panel(emerging: pd.DataFrame) -> None:
    accuracy = emerging[emerging["probe"] == "Accuracy"].set_index("step")["value"]
    for ax in emergence(emerging).axes:
        whole, half = (patch.get_extents().transformed(ax.transData.inverted()) for patch in ax.patches[:2])
        assert accuracy[round(whole.x0)] <= 0.1 < 0.9 <= accuracy[round(whole.x1)]
        assert (round(half.x0), round(half.x1)) == (500, 550)


def test_a_rise_that_may_not_be_over_is_shaded_to_the_last_step(emerging: pd.DataFrame) -> None:
    step = emerging["step"]
    wobbling = np.where(step < 500, 0.0, np.where((step // 50) % 2, 0.8, 0.2))
    table = emerging.assign(value=np.where(emerging["probe"] == "Accuracy", wobbling, emerging["value"]))
    rose = rise_of(table)
    assert rose is not None
    assert rose.half.censored
    for ax in emergence(table).axes:
        half = ax.patches[1].get_extents().transformed(ax.transData.inverted())
        assert (round(half.x0), round(half.x1)) == (rose.half.lo, 950)
