"""Levels of the whole model's curves at each transition, and which are asked what would have been seen."""

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._scores import followed, of_whole_model
from stagewise.findings._whole_model import ASKED, levels_of, power_of
from stagewise.findings.stages import find_stages
from stagewise.table import tidy

STEPS = np.arange(0, 2000, 20)
JUMP = 1 / (1 + np.exp(-(STEPS - 800) / 30.0))


def test_levels_are_those_that_a_reader_finds_on_the_curve() -> None:
    noisy = 0.1 + 0.8 * JUMP + 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
    before, after = find_stages(read_log({"step": STEPS, "accuracy": noisy})).levels.to_dict("records")
    assert before["after"] == after["before"] == pytest.approx(0.1, abs=0.04)
    assert after["after"] == pytest.approx(0.9, abs=0.04)


def test_heads_and_curves_that_are_not_finite_have_none(one_onset: pd.DataFrame) -> None:
    assert levels_of(of_whole_model(followed(one_onset)), [0.0], 9).empty
    table = read_log({"step": STEPS, "loss": JUMP})
    table.loc[5, "value"] = np.nan
    assert levels_of(of_whole_model(followed(table)), [0.0], 2000).empty


EVEN = np.arange(0, 1000, 25)
NOISE = 0.02 * np.random.default_rng(0).standard_normal((3, len(EVEN)))


def test_curves_of_the_whole_model_are_asked_and_no_more_than_pay() -> None:
    curves = {"step": EVEN, "loss": 2 + NOISE[0], "accuracy": 0.5 + NOISE[1], "perplexity": 9 + NOISE[2]}
    power = power_of(followed(read_log(curves)))
    assert len(power) == ASKED
    assert (power["size"] > 0.02).all()
    assert (power["found"] >= 4).all()


def test_without_such_the_head_is_asked_that_moved_most() -> None:
    heads = [
        pd.DataFrame({"step": EVEN, "value": 0.1 + size * EVEN / 1000 + NOISE[head]}).assign(layer=0, head=head)
        for head, size in enumerate((0.1, 0.4))
    ]
    table = tidy([pd.concat(heads).assign(run="r", probe="AttentionTo", quantity="along", relation="self")])
    assert power_of(followed(table))[["probe", "quantity"]].to_dict("records") == [
        {"probe": "AttentionTo", "quantity": "along"}
    ]


@pytest.mark.parametrize("jump", [0.0, 0.6])
def test_it_is_asked_only_where_nothing_was_found(jump: float) -> None:
    values = 0.2 + jump / (1 + np.exp(-(EVEN - 400) / 20)) + NOISE[0]
    stages = find_stages(read_log({"step": EVEN, "accuracy": values}))
    assert len(stages.power) == (jump == 0)
