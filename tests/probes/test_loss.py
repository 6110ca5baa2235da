"""The loss and its excess over the complete reference."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import View
from stagewise.probes import Loss
from stagewise.tasks import MarkovChain

FLOAT32 = 1e-6
"""Means of a few float32 numbers of order one."""

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=3)


@pytest.fixture
def view(view_of: Callable[..., View]) -> View:
    batch = TASK.probe_batch(5, seed=0)
    made = view_of(torch.eye(TASK.n_ctx).expand(5, 1, 1, -1, -1))
    return dataclasses.replace(made, batch=batch, log_probs=torch.full((5, TASK.n_ctx, 4), -math.log(4)))


def test_the_uniform_model_loses_log_d(view: View) -> None:
    loss, _ = Loss().read(view)
    assert loss.values.tolist() == pytest.approx([math.log(4)] * 5, abs=FLOAT32)


def test_the_complete_solution_has_no_excess(view: View) -> None:
    solution = dataclasses.replace(view, log_probs=view.batch.references["A*_1:2"])
    _, excess = Loss().read(solution)
    assert not excess.values.any()


def test_the_excess_is_over_the_last_reference_on_the_same_targets(view: View) -> None:
    _, excess = Loss().read(view)
    for row in range(5):
        scored = view.batch.scored[row].nonzero()[:, 0].tolist()
        solution = view.batch.references["A*_1:2"][row]
        gaps = [math.log(4) + float(solution[t, view.batch.targets[row, t]]) for t in scored]
        assert excess.values[row].item() == pytest.approx(sum(gaps) / len(gaps), abs=FLOAT32)


def test_a_batch_without_references_has_no_excess(view: View) -> None:
    bare = dataclasses.replace(view, batch=dataclasses.replace(view.batch, references={}))
    assert [reading.quantity for reading in Loss().read(bare)] == ["cross_entropy"]
