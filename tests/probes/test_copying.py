"""Copying: a model that repeats gains all that there is to gain."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import View
from stagewise.probes import Copying


def test_a_model_that_copies_gains_all_that_there_is(copying_view: Callable[[bool], View]) -> None:
    accuracy, gain = Copying().read(copying_view(True))
    assert accuracy.values.tolist() == [1, 1, 1, 1]
    torch.testing.assert_close(gain.values, torch.full((4,), math.log(20)))


def test_a_model_that_is_sure_of_other_tokens_loses(copying_view: Callable[[bool], View]) -> None:
    accuracy, gain = Copying().read(copying_view(False))
    assert accuracy.values.tolist() == [0, 0, 0, 0]
    assert bool((gain.values < 0).all())


def test_a_gain_is_over_a_guess_where_a_model_is_worse_than_that(copying_view: Callable[[bool], View]) -> None:
    view = copying_view(True)
    worse = view.log_probs.clone()
    worse[~view.batch.scored] -= 9.0
    _, gain = Copying().read(dataclasses.replace(view, log_probs=worse))
    torch.testing.assert_close(gain.values, torch.full((4,), math.log(20)))


def test_copying_needs_positions_to_compare_with(view_of: Callable[..., View]) -> None:
    with pytest.raises(ValueError, match="this batch has sequences without others"):
        Copying().read(view_of(torch.ones(2, 1, 1, 4, 4)))


def test_a_regression_has_no_tokens_to_copy(view_of: Callable[..., View]) -> None:
    view = view_of(torch.ones(2, 1, 1, 4, 4))
    batch = dataclasses.replace(view.batch, targets=torch.zeros(2, 4, 3), scored=torch.arange(4).expand(2, 4) == 3)
    with pytest.raises(ValueError, match="a regression has no tokens to copy"):
        Copying().read(dataclasses.replace(view, batch=batch))
