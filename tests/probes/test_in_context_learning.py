"""The in-context learning score: late less early."""

import math
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import View, example_view
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


@pytest.mark.parametrize(("scored", "early"), [(False, 2), (True, 100)])
def test_a_position_that_nobody_trained_counts_as_a_guess_at_most(scored: bool, early: int) -> None:
    view = example_view(probs=[[0.99, 0.01], [0.25, 0.75]], targets=[1, 1], scored=[scored, True])
    (score,) = InContextLearning().read(view)
    assert score.values.item() == pytest.approx(-math.log(0.75) - math.log(early), abs=1e-5)
