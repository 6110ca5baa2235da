"""The in-context learning score: late less early."""

import math
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import View
from stagewise.probes import InContextLearning


def test_the_score_is_the_fall_of_the_loss(copying_view: Callable[[bool], View]) -> None:
    (score,) = InContextLearning().read(copying_view(True))
    torch.testing.assert_close(score.values, torch.full((4,), -math.log(20)))


def test_positions_that_are_predicted_alike_score_zero(copying_view: Callable[[bool], View]) -> None:
    (score,) = InContextLearning(early=0, late=5).read(copying_view(True))
    torch.testing.assert_close(score.values, torch.zeros(4))


@pytest.mark.parametrize(("early", "late"), [(5, 5), (-1, 3), (0, 11)])
def test_positions_that_are_not_there_are_refused(early: int, late: int, copying_view: Callable[[bool], View]) -> None:
    with pytest.raises(ValueError, match="expected 0 <= early < late <= 10, the batch's last position"):
        InContextLearning(early, late).read(copying_view(True))
