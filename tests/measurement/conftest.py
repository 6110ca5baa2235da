"""What these measurements share: random models as checkpoints, and a probe batch."""

from collections.abc import Callable
from typing import Any

import pytest

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.init import GaussianInit
from stagewise.task import Batch
from stagewise.tasks import MarkovChain

CONFIG = {"n_layers": 2, "d_model": 12, "d_head": 4, "n_ctx": 6, "d_vocab": 4, "act_fn": "relu", "d_mlp": 8}


@pytest.fixture(scope="session")
def batch() -> Batch:
    return MarkovChain(d_vocab=4, spans=(1, 1, 1), length=4).probe_batch(12, seed=0)


@pytest.fixture(scope="session")
def series_of() -> Callable[..., CheckpointSeries]:
    """Make random models, one a step, of two layers of three heads; keywords change their config."""

    def make(steps: tuple[int, ...] = (0, 5, 9), name: str = "run", **change: Any) -> CheckpointSeries:
        made = Architecture({**CONFIG, **change}, GaussianInit(0.4))
        return CheckpointSeries(name, made, steps, lambda step: models.weights(models.build(made, seed=step)))

    return make
