"""Planted rises are half-way where they are planted; noise has its correlation; models hold the heads put into them."""

import numpy as np
import pytest

from evidence.answers.circuits import EVEN, I1, P0, Circuit, at, models
from evidence.answers.planting import correlated, generator, logistic


def test_a_rise_is_half_way_at_its_step() -> None:
    assert logistic(np.array([0.0, 700.0, 1e6]), 700, 0.06) == pytest.approx([0, 0.5, 1], abs=1e-6)


def test_noise_has_its_correlation_and_deviation() -> None:
    noise = correlated(generator("noise"), 20_000, 0.6, 0.03)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(0.6, abs=0.03)
    assert noise.std() == pytest.approx(0.03, rel=0.05)


def test_a_head_is_there_between_the_steps_of_its_change() -> None:
    head = I1._replace(comes=400, goes=2000)
    assert [head.there(step) for step in (0, 400, 450, 500, 2000, 2250, 2500, 3000)] == [0, 0, 0.5, 1, 1, 0.5, 0, 0]
    assert (P0.there(0), P0.there(3000), at(400, head).hi) == (1, 1, 500)


def test_a_model_with_both_heads_repeats_what_followed_a_token_and_one_without_does_not() -> None:
    from evidence.answers.circuits import TASK

    batch = TASK.probe_batch(8, 0)
    circuit = Circuit("", 2, (P0, I1._replace(comes=1000)), steps=EVEN[[0, -1]])
    right = [
        (model(batch.tokens).argmax(-1) == batch.targets)[batch.scored].float().mean().item()
        for _, model in models(circuit, generator("both"))
    ]
    assert right[0] < 0.3
    assert right[1] == 1
