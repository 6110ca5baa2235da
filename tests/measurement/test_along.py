"""A series read checkpoint by checkpoint: once each, and elsewhere the same."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architectures import minimal
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement import _along as positions
from stagewise.measurement._along import TOGETHER, Positions, linear_cka
from stagewise.measurement.trajectory import compare_checkpoints, compare_on_trajectory, measure_trajectory
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


TASK_POSITIONS = MarkovChain(d_vocab=4, spans=(1, 1), length=6)
BATCH_POSITIONS = TASK_POSITIONS.probe_batch(7, seed=0)
MADE_POSITIONS = minimal(TASK_POSITIONS.d_vocab, TASK_POSITIONS.n_ctx)


def test_all_scored_positions_are_there_in_order_and_of_fewer_the_first_and_the_last() -> None:
    scored = BATCH_POSITIONS.scored.nonzero().tolist()
    every, some = Positions.of(BATCH_POSITIONS, 10**6), Positions.of(BATCH_POSITIONS, 5)
    assert torch.stack([every.sequence, every.position], 1).tolist() == scored
    chosen = torch.stack([some.sequence, some.position], 1).tolist()
    assert len(some) == 5
    assert [chosen[0], chosen[-1]] == [scored[0], scored[-1]]
    assert chosen == sorted(chosen)


@pytest.mark.parametrize("most", [10**6, 9])
def test_slices_give_what_the_whole_batch_gives(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, chosen, hook = models.build(MADE_POSITIONS), Positions.of(BATCH_POSITIONS, most), "blocks.0.hook_resid_post"
    log_probs, clean = models.clean_pass(model, BATCH_POSITIONS.tokens, [hook])
    monkeypatch.setattr(positions, "default_memory", lambda device: 1)
    predictions, activations = chosen.read(model, MADE_POSITIONS, BATCH_POSITIONS, [hook])
    rows = chosen.sequence, chosen.position
    torch.testing.assert_close(predictions, log_probs[rows])
    torch.testing.assert_close(activations[hook], clean[hook][rows])


N = 40


def vectors(seed: int, d: int, n: int = N) -> Tensor:
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hsic_by_kernels(x: Tensor, y: Tensor) -> float:
    """Song et al. (2012), equation 5, as it is written."""
    k, l = ((z @ z.T).fill_diagonal_(0).numpy() for z in (x.clone(), y.clone()))  # noqa: E741
    n, one = len(k), np.ones(len(k))
    terms = np.trace(k @ l) + (one @ k @ one) * (one @ l @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * one @ k @ l @ one
    return float(terms / (n * (n - 3)))


@pytest.mark.parametrize(("d", "e", "shift"), [(3, 5, 0.0), (30, 2, 4.0), (60, 60, -1.0)])
def test_cka_is_that_of_the_kernel_matrices(d: int, e: int, shift: float) -> None:
    x = vectors(0, d) + shift
    y = torch.tanh(x[:, :1]) + 0.5 * vectors(1, e)
    pairs = hsic_by_kernels(x, x), hsic_by_kernels(y, y)
    estimate = linear_cka(x, y, torch.arange(N))
    assert estimate is not None
    assert estimate.value == pytest.approx(hsic_by_kernels(x, y) / np.sqrt(pairs[0] * pairs[1]), abs=1e-9)


def test_turned_scaled_and_shifted_is_the_same() -> None:
    x = vectors(0, 6)
    turn, _ = torch.linalg.qr(vectors(1, 6, 6))
    estimate = linear_cka(x, 3 * x @ turn + 5, torch.arange(N) % 4)
    assert estimate is not None
    assert estimate.value == pytest.approx(1, abs=1e-9)
    assert estimate.lo == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_independent_ones_are_at_zero_on_average_however_many_dimensions() -> None:
    values = [linear_cka(vectors(2 * seed, 50), vectors(2 * seed + 1, 50), torch.arange(N)) for seed in range(100)]
    mean = np.mean([each.value for each in values if each is not None])
    assert abs(mean) < 0.02  # the estimate with bias gives 0.56 here


def test_the_interval_holds_the_value_of_many_vectors() -> None:
    def pair(seed: int, n: int) -> tuple[Tensor, Tensor]:
        x = vectors(seed, 4, n)
        return x, x[:, :2] + vectors(seed + 1, 2, n)

    whole = linear_cka(*pair(9000, 50_000), torch.zeros(50_000, dtype=torch.long))
    assert whole is not None
    assert whole.lo is None
    inside = 0
    for seed in range(200):
        estimate = linear_cka(*pair(2 * seed, 100), torch.arange(100) // 5)
        assert estimate is not None
        assert estimate.lo is not None
        assert estimate.hi is not None
        inside += estimate.lo <= whole.value <= estimate.hi
    assert 180 <= inside <= 200


def test_what_does_not_vary_and_too_few_vectors_have_none() -> None:
    assert linear_cka(torch.ones(N, 3), vectors(0, 3), torch.arange(N)) is None
    assert linear_cka(vectors(0, 3, 3), vectors(1, 3, 3), torch.arange(3)) is None
