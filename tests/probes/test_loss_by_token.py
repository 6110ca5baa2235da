"""The loss by class of predictions: of each token, position, relation and repeated n-gram."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import View
from stagewise.probes import LossByToken


def test_copied_tokens_are_learned_and_new_ones_are_not(copying_view: Callable[[bool], View]) -> None:
    view = copying_view(True)
    batch = dataclasses.replace(view.batch, scored=torch.ones_like(view.batch.scored), relations={})
    view = dataclasses.replace(view, batch=batch, log_probs=view.log_probs.double())
    (reading,) = LossByToken(tokens=()).read(view)
    assert reading.exists is not None
    means = {
        name: values[there].mean().item()
        for name, values, there in zip(reading.labels["predictions"], reading.values.T, reading.exists.T, strict=True)
        if there.any()
    }
    assert means["of new tokens"] == pytest.approx(math.log(20))
    assert means["that repeat 2 tokens"] == pytest.approx(0, abs=1e-6)


def test_the_tokens_of_a_large_vocabulary_are_classes_where_they_are_asked_for(view_of: Callable[..., View]) -> None:
    view = view_of(torch.ones(2, 1, 1, 3, 3))
    tokens = [
        [name for name in probe.read(view)[0].labels["predictions"] if str(name).startswith("of token")]
        for probe in (LossByToken(), LossByToken(most=1), LossByToken(tokens=(1,)))
    ]
    assert tokens == [[f"of token {token}" for token in range(view.log_probs.shape[-1])], [], ["of token 1"]]


def test_a_regression_is_refused(view_of: Callable[..., View]) -> None:
    view = view_of(torch.ones(2, 1, 1, 3, 3))
    batch = dataclasses.replace(view.batch, targets=torch.zeros(2, 3, 3))
    with pytest.raises(ValueError, match="a regression predicts no token"):
        LossByToken().read(dataclasses.replace(view, batch=batch))
