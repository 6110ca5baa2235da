"""Fixtures of probes: a model that copies, and the circuits of small models."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import Circuits
from stagewise.probe import View
from stagewise.tasks import RepeatedTokens

SIZES: dict[str, Any] = {
    "n_layers": 3,
    "n_heads": 4,
    "d_model": 16,
    "d_head": 4,
    "n_ctx": 9,
    "d_vocab": 11,
    "attn_only": True,
}
MODELS: dict[str, dict[str, Any]] = {"native": {}, "grouped": {"n_key_value_heads": 2}}


@pytest.fixture(scope="session")
def sizes() -> dict[str, Any]:
    """A config of three layers of four heads."""
    return SIZES


@pytest.fixture(scope="module", params=MODELS)
def circuits(request: pytest.FixtureRequest) -> Circuits:
    """Of a model with these sizes, each head with its own keys and values, or two sharing theirs."""
    return models.circuits(models.build(Architecture({**SIZES, **MODELS[request.param]}), seed=3))


@pytest.fixture(scope="module")
def written_out(circuits: Circuits) -> tuple[Tensor, Tensor]:
    """QK and OV of every head as matrices: [layer head model model]."""
    return circuits.QK.A @ circuits.QK.B, circuits.OV.A @ circuits.OV.B


@pytest.fixture(scope="session")
def copying_view(view_of: Callable[..., View]) -> Callable[[bool], View]:
    """A model that is uniform on the first half and certain on the second; of the target or of another token."""

    def make(right: bool) -> View:
        batch = RepeatedTokens(d_vocab=20, length=6, again=6).sample(4, seed=0)
        said = batch.targets if right else (batch.targets + 1) % 20
        logits = torch.zeros(4, 11, 20).scatter(2, said[..., None], 30.0)
        log_probs = torch.where(batch.scored[..., None], logits, 0.0).log_softmax(-1)
        made = view_of(torch.ones(4, 1, 1, 11, 11))
        return dataclasses.replace(made, batch=batch, log_probs=log_probs)

    return make
