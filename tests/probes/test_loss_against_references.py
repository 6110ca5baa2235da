"""The model's loss less a reference's, on predictions worked out by hand."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import View
from stagewise.probes import LossAgainstReferences

FLOAT32 = 1e-6
"""Means of a few float32 numbers of order one."""

DISTRIBUTIONS = {"half": [0.5, 0.5], "sure": [0.9, 0.1]}
TARGETS = [0, 1, 0]


@pytest.fixture
def view(view_of: Callable[..., View]) -> View:
    """One sequence of three predictions, the last not scored; the model gives token 0 a probability of 0.8."""
    made = view_of(torch.eye(3).expand(1, 1, 1, -1, -1))
    references = {name: torch.tensor([[distribution] * 3]).log() for name, distribution in DISTRIBUTIONS.items()}
    scored = torch.tensor([[True, True, False]])
    batch = dataclasses.replace(made.batch, targets=torch.tensor([TARGETS]), scored=scored, references=references)
    return dataclasses.replace(made, batch=batch, log_probs=torch.tensor([[[0.8, 0.2]] * 3]).log())


def test_the_gap_is_the_models_loss_less_the_references(view: View) -> None:
    losses, gaps = LossAgainstReferences().read(view)
    assert losses.labels == gaps.labels == {"reference": ["half", "sure"]}
    model = -(math.log(0.8) + math.log(0.2)) / 2
    for i, distribution in enumerate(DISTRIBUTIONS.values()):
        loss = -sum(math.log(distribution[target]) for target in TARGETS[:2]) / 2
        assert losses.values[0, i].item() == pytest.approx(loss, abs=FLOAT32)
        assert gaps.values[0, i].item() == pytest.approx(model - loss, abs=FLOAT32)


def test_the_reference_itself_has_no_gap(view: View) -> None:
    same = dataclasses.replace(view, log_probs=view.batch.references["sure"])
    _, gaps = LossAgainstReferences(("sure",)).read(same)
    assert not gaps.values.any()


def test_an_unknown_reference_is_named(view: View) -> None:
    with pytest.raises(ValueError, match="no reference 'bigram'; it has 'half', 'sure'"):
        LossAgainstReferences(("bigram",)).read(view)
