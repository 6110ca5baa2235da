"""Planted behaviours: with all parts the answer is right, without one it is not, and decoys do what they are called."""

import numpy as np
import pytest
import torch

from evidence.behaviours.circuits import BLIND, CORRUPTED, MOVER, SILENT, STEPS, Part, case, models, null, prompts


def difference(parts: tuple[Part, ...], step: int) -> float:
    batch = prompts(0)
    model = dict(models(parts, np.random.default_rng(0)))[step]
    with torch.no_grad():
        return float(batch.difference(model(batch.tokens)[:, -1]).mean())


@pytest.mark.parametrize("number", range(3))
def test_the_behaviour_needs_all_its_parts(number: int) -> None:
    whole = difference(case(number), int(STEPS[-1]))
    others = [difference(case(number), 0), difference(null(number), int(STEPS[-1]))]
    assert whole > 5 * max(1.0, *map(abs, others))  # nats; of the jitter, whose draws differ with the model's names


def test_every_case_has_its_three_decoys_and_heads_of_their_own() -> None:
    for number in range(20):
        parts = case(number)
        assert {SILENT, BLIND, CORRUPTED, MOVER} <= {part.kind for part in parts}
        assert len({part.name for part in parts}) == len(parts)
