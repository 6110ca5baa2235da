"""Which curves are asked what change would have been seen in them."""

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._power import ASKED, power_of
from stagewise.findings._scores import followed
from stagewise.findings.stages import find_stages
from stagewise.table import tidy

STEPS = np.arange(0, 1000, 25)
NOISE = 0.02 * np.random.default_rng(0).standard_normal((3, len(STEPS)))


def test_curves_of_the_whole_model_are_asked_and_no_more_than_pay() -> None:
    curves = {"step": STEPS, "loss": 2 + NOISE[0], "accuracy": 0.5 + NOISE[1], "perplexity": 9 + NOISE[2]}
    power = power_of(followed(read_log(curves)))
    assert len(power) == ASKED
    assert (power["size"] > 0.02).all()
    assert (power["found"] >= 4).all()


def test_without_such_the_head_is_asked_that_moved_most() -> None:
    heads = [
        pd.DataFrame({"step": STEPS, "value": 0.1 + size * STEPS / 1000 + NOISE[head]}).assign(layer=0, head=head)
        for head, size in enumerate((0.1, 0.4))
    ]
    table = tidy([pd.concat(heads).assign(run="r", probe="AttentionTo", quantity="along", relation="self")])
    assert power_of(followed(table))[["probe", "quantity"]].to_dict("records") == [
        {"probe": "AttentionTo", "quantity": "along"}
    ]


@pytest.mark.parametrize("jump", [0.0, 0.6])
def test_it_is_asked_only_where_nothing_was_found(jump: float) -> None:
    values = 0.2 + jump / (1 + np.exp(-(STEPS - 400) / 20)) + NOISE[0]
    stages = find_stages(read_log({"step": STEPS, "accuracy": values}))
    assert len(stages.power) == (jump == 0)
