"""Batched (Y, Z) training: against one run at a time in plain loops, and the published logs."""

import csv
from pathlib import Path

import pytest
import torch

from stagewise.papers.scan_and_snap.published_data import published_stream, published_weights
from stagewise.papers.scan_and_snap.yz_model import YZ, Counts, count, step, zeros
from stagewise.papers.scan_and_snap.yz_training import Moment, Rates, train_yz
from stagewise.papers.tasks import SequenceClasses, syn_medium, syn_small

TASK = SequenceClasses(2, 1, n_common=2, n_distinct=2, length=7)
FLOAT64 = 1e-13


def data(now: int) -> Counts:
    return count(TASK.stream(0)(now, 6), TASK.d_vocab, torch.float64)


def last(moments: list[Moment]) -> YZ:
    return moments[-1].weights


def test_momentum_is_heavy_ball_at_two_rates() -> None:
    rates = [Rates(y=0.3, z=0.2), Rates(y=2.0, z=0.1)]
    start = zeros(2, TASK.d_vocab, torch.float64)
    found = last(list(train_yz(start, data, rates, steps=4, momentum=0.9)))
    for run, rate in enumerate(rates):
        weights, speed = zeros(1, TASK.d_vocab, torch.float64), zeros(1, TASK.d_vocab, torch.float64)
        for now in range(4):
            ascent = step(weights, data(now)).ascent
            speed = YZ(0.9 * speed.y + ascent.y, 0.9 * speed.z + ascent.z)
            weights = YZ(weights.y + rate.y * speed.y, weights.z + rate.z * speed.z)
        torch.testing.assert_close(found.y[run], weights.y[0], atol=FLOAT64, rtol=0)
        torch.testing.assert_close(found.z[run], weights.z[0], atol=FLOAT64, rtol=0)


def test_a_run_is_the_same_alone_and_among_others() -> None:
    rates = [Rates(1.0, 0.5), Rates(2.0, 0.1), Rates(0.5, 3.0)]
    for optimiser in ("sgd", "adam"):
        start = zeros(3, TASK.d_vocab, torch.float64)
        together = last(list(train_yz(start, data, rates, 5, optimiser)))
        alone = last(list(train_yz(YZ(start.y[1:2], start.z[1:2]), data, rates[1:2], 5, optimiser)))
        torch.testing.assert_close(together.y[1], alone.y[0], atol=FLOAT64, rtol=0)
        assert not start.y.any()


def test_the_first_adam_step_is_as_long_as_the_rate() -> None:
    start = zeros(1, TASK.d_vocab, torch.float64)
    found = last(list(train_yz(start, data, [Rates(0.25, 0.5)], 1, "adam")))
    moved = found.y[found.y != 0].abs()
    torch.testing.assert_close(moved, torch.full_like(moved, 0.25), rtol=1e-5, atol=0)


def test_wrong_rates_and_optimisers_are_refused() -> None:
    start = zeros(2, TASK.d_vocab)
    with pytest.raises(ValueError, match="got 1 rates for 2 runs"):
        next(train_yz(start, data, [Rates(1.0, 1.0)], 1))
    with pytest.raises(ValueError, match='must be "sgd" or "adam", got \'lion\''):
        next(train_yz(start, data, [Rates(1.0, 1.0)] * 2, 1, "lion"))


def losses(path: Path) -> dict[int, float]:
    with path.open(encoding="utf8") as file:
        return {int(row["iteration"]): float(row["loss"]) for row in csv.DictReader(file)}


def replay(task: SequenceClasses, seed: int, start: YZ, rate: float) -> dict[int, float]:
    draw = published_stream(task, seed)
    moments = train_yz(start, lambda now: count(draw(now, 128), task.d_vocab), [Rates(rate, rate)], 100)
    return {moment.step: moment.loss.item() for moment in moments if moment.loss is not None}


def test_the_replay_of_syn_small_agrees_with_its_log(scan_data: Path) -> None:
    recorded = losses(scan_data / "figure_4_loss.csv")
    found = replay(syn_small(), 2, zeros(1, 34), 1.0)
    assert len(recorded) == 50
    for now, loss in recorded.items():
        assert found[now] == pytest.approx(loss, rel=2e-5 if loss > 1e-2 else 5e-3), f"iteration {now}"


def test_the_replay_of_syn_medium_agrees_with_its_log(scan_data: Path) -> None:
    recorded = losses(scan_data / "figure_6_loss.csv")
    task = syn_medium(1)
    start = YZ(*(matrix[None] for matrix in published_weights(task.d_vocab, 1)))
    found = replay(task, 1, start, 0.5)
    assert len(recorded) == 50
    for now, loss in recorded.items():
        assert found[now] == pytest.approx(loss, rel=2e-4), f"iteration {now}"
