"""Accuracy counts the scored predictions whose most likely token is right."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import View
from stagewise.probes import Accuracy


@pytest.fixture
def view(view_of: Callable[..., View]) -> View:
    scored = torch.tensor([[False, True], [True, True]])
    view = view_of(torch.full((2, 1, 1, 2, 2), 0.5), scored=scored)
    log_probs = torch.tensor([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.3, 0.7]]]).log()
    return dataclasses.replace(view, log_probs=log_probs)


def test_only_scored_predictions_count(view: View) -> None:
    (reading,) = Accuracy().read(view)  # all targets are token 0
    assert reading.values.tolist() == [0, 0.5]


def test_a_regression_is_refused(view: View) -> None:
    batch = dataclasses.replace(view.batch, targets=torch.zeros(2, 2, 3))
    with pytest.raises(ValueError, match="a regression has no most likely token"):
        Accuracy().read(dataclasses.replace(view, batch=batch))
