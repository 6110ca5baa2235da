"""Jumps: to another run, which is a fault, and of the learning rate, which is none."""

import pytest
import torch

from stagewise.checkpoints._jumps import breaks, rate_jumps
from tests.checkpoints.walks import KINDS, common_of, series


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_was_not_touched_does_not_jump(kind: str) -> None:
    common, paths = common_of(series(kind, n=30))
    assert not [*breaks(common, paths, range(30)), *rate_jumps(common, range(30))]


@pytest.mark.parametrize("at", [2, 5, 9])
def test_the_checkpoint_from_which_another_run_goes_on_is_found(at: int) -> None:
    checkpoints = series("walk")[:at] + series("walk", seed=1)[at:]
    common, paths = common_of(checkpoints)
    (jump,) = breaks(common, paths, range(12))
    assert (jump.other, jump.checkpoint) == (at - 1, at)
    assert jump.times is not None
    assert jump.times > 50


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_learning_rate_that_jumps_is_told_and_no_break(factor: float) -> None:
    rates = torch.tensor([1.0] * 8 + [factor] * 8)
    steps = 0.01 * rates[:, None, None] * torch.randn(16, 30, 40, generator=torch.Generator().manual_seed(0))
    start = torch.randn(30, 40, generator=torch.Generator().manual_seed(1))
    common, paths = common_of([{"w": start + moved} for moved in steps.cumsum(0)])
    assert not [*breaks(common, paths, range(16))]
    (jump,) = rate_jumps(common, range(16))
    assert jump.checkpoint == 7
    assert jump.times == pytest.approx(factor, rel=0.3)


def test_strides_over_wider_gaps_are_no_jump() -> None:
    checkpoints = series("walk", n=60)
    steps = [*range(10), *range(10, 60, 5)]
    common, _ = common_of([checkpoints[step] for step in steps])
    assert not [*rate_jumps(common, steps)]
