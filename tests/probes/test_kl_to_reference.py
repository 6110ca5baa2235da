"""Divergence from references: zero from the model's own distribution, log d from a certain one to the uniform."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from stagewise.probe import Reading, View
from stagewise.probes import KLToReference

FLOAT32 = 1e-6
"""Sums of a few float32 numbers of order one."""


def random_distribution(seed: int) -> torch.Tensor:
    return torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)


@pytest.fixture
def view(view_of: Callable[..., View]) -> View:
    made = view_of(torch.eye(4).expand(3, 1, 1, -1, -1), scored=torch.arange(4).expand(3, -1) >= 1)
    references = {
        "model": random_distribution(0),
        "other": random_distribution(1),
        "certain": torch.eye(5)[1].log().expand(3, 4, -1),
    }
    batch = dataclasses.replace(made.batch, references=references)
    return dataclasses.replace(made, batch=batch, log_probs=random_distribution(0))


def reading(view: View, *names: str) -> Reading:
    (only,) = KLToReference(names or None).read(view)
    return only


def test_a_reference_equal_to_the_model_is_at_distance_zero(view: View) -> None:
    assert reading(view, "model").values.abs().max() < FLOAT32


def test_divergences_are_from_the_reference_to_the_model(view: View) -> None:
    p, q = random_distribution(1)[:, 1:], random_distribution(0)[:, 1:]
    expected = (p.exp() * (p - q)).sum(-1).mean(-1)
    torch.testing.assert_close(reading(view, "other").values[:, 0], expected, atol=FLOAT32, rtol=0)
    backwards = (q.exp() * (q - p)).sum(-1).mean(-1)
    assert (expected - backwards).abs().max() > 100 * FLOAT32


def test_a_certain_reference_costs_minus_its_log_probability(view: View) -> None:
    expected = -random_distribution(0)[:, 1:, 1].mean(-1)
    torch.testing.assert_close(reading(view, "certain").values[:, 0], expected, atol=FLOAT32, rtol=0)
    uniform = dataclasses.replace(view, log_probs=torch.full((3, 4, 5), -math.log(5)))
    assert reading(uniform, "certain").values.flatten().tolist() == pytest.approx([math.log(5)] * 3, abs=FLOAT32)


def test_divergences_are_not_negative(view: View) -> None:
    assert (reading(view).values > -FLOAT32).all()


def test_all_references_come_in_their_order_and_a_choice_in_its_own(view: View) -> None:
    assert list(reading(view).labels["reference"]) == ["model", "other", "certain"]
    chosen = reading(view, "certain", "model")
    assert list(chosen.labels["reference"]) == ["certain", "model"]
    assert torch.equal(chosen.values, reading(view).values[:, [2, 0]])


def test_a_reference_that_is_not_there_is_refused(view: View) -> None:
    with pytest.raises(ValueError, match=r"no reference 'A\*_9'; it has 'model', 'other', 'certain'"):
        KLToReference(("A*_9",)).read(view)


def test_a_batch_without_references_is_refused(view_of: Callable[..., View]) -> None:
    with pytest.raises(ValueError, match="the batch has no references"):
        KLToReference().read(view_of(torch.eye(4).expand(1, 1, 1, -1, -1)))
