"""A series read checkpoint by checkpoint: once each, and elsewhere the same."""

from collections import Counter

import pandas as pd
import pytest
import torch

from stagewise import models
from stagewise.architectures import minimal
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement._along import TOGETHER
from stagewise.measurement.comparing import compare_checkpoints
from stagewise.measurement.trajectory import compare_on_trajectory, measure_trajectory
from stagewise.tasks import MarkovChain
from tests.fixtures.runs import AtOnce

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=6)
BATCH = TASK.probe_batch(8, seed=0)
MADE = minimal(TASK.d_vocab, TASK.n_ctx)
BROKEN = 7


def weights(step: int) -> State:
    state = models.weights(models.build(MADE, seed=step))
    return {name: torch.full_like(weight, torch.nan) for name, weight in state.items()} if step == BROKEN else state


def series(load: object = weights) -> CheckpointSeries:
    return CheckpointSeries("run", MADE, tuple(range(TOGETHER + 3)), load)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:step 7 of 'run' holds nan")
def test_the_tables_are_the_same_in_groups_elsewhere_and_those_of_either_alone() -> None:
    here = compare_on_trajectory(series(), BATCH, progress=False)
    there = compare_on_trajectory(series(), BATCH, executor=AtOnce(), progress=False)
    alone = compare_checkpoints(series(), BATCH, progress=False), measure_trajectory(series(), BATCH, progress=False)
    for one, other, each in zip(here, there, alone, strict=True):
        assert set(one["step"]) >= {TOGETHER + 2}
        assert BROKEN not in set(one["step"])
        pd.testing.assert_frame_equal(one, other)
        pd.testing.assert_frame_equal(one, each)


@pytest.mark.filterwarnings("ignore:step 7 of 'run' holds nan")
def test_each_checkpoint_is_read_once_for_both_tables() -> None:
    read = Counter[int]()

    def load(step: int) -> State:
        read[step] += 1
        return weights(step)

    compare_on_trajectory(series(load), BATCH, progress=False)
    assert read == Counter(range(TOGETHER + 3))
