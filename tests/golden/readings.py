"""What the catalogue of probes reads out of a model of random weights, as plain data."""

from typing import Any

import pandas as pd
import torch

from stagewise import measure, models, probes
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.init import GaussianInit
from stagewise.probe import AbstractProbe
from stagewise.task import AbstractTask
from stagewise.tasks import MarkovChain, RepeatedTokens

D_VOCAB, SEQUENCES = 12, 5
TASKS: dict[str, AbstractTask] = {
    "repeated tokens": RepeatedTokens(D_VOCAB, length=8),
    "Markov chain": MarkovChain(D_VOCAB, spans=(2, 2), length=3),
}
SIZES = {"n_layers": 2, "n_heads": 3, "d_model": 12, "d_head": 4, "d_mlp": 8, "act_fn": "relu", "d_vocab": D_VOCAB}
OF_PROMPTS = {"BehaviourCurve", "BehaviourHeads"}
"""Probes of batches with answers, which these are not: they are held against TransformerLens in their tests."""

FEATURES = {"copy": torch.eye(D_VOCAB), "next": torch.eye(D_VOCAB).roll(1, 0)}


def _series(task: AbstractTask) -> CheckpointSeries:
    n_ctx = task.probe_batch(1, seed=0).tokens.shape[1]
    architecture = Architecture({**SIZES, "n_ctx": n_ctx, "normalization_type": None}, GaussianInit(0.5))
    return CheckpointSeries("run", architecture, (0,), lambda _: models.weights(models.build(architecture)))


def _catalogue() -> list[AbstractProbe]:
    kinds = [kind for kind in vars(probes).values() if isinstance(kind, type) and issubclass(kind, AbstractProbe)]
    given: dict[str, dict[str, Any]] = {"ValueAlignment": {"features": FEATURES}}
    return [kind(**given.get(kind.__name__, {})) for kind in kinds if kind.__name__ not in OF_PROMPTS]


def _summed(table: pd.DataFrame) -> dict[str, list[float]]:
    """Return the number, the mean and the mean square of the values of each quantity, and the means of its interval."""
    summed = {}
    for (probe, quantity), rows in table.groupby(["probe", "quantity"]):
        means = [rows["value"].mean(), (rows["value"] ** 2).mean(), rows["lo"].mean(), rows["hi"].mean()]
        summed[f"{probe}.{quantity}"] = [float(len(rows)), *map(float, means)]
    return summed


def find_readings() -> dict[str, Any]:
    """Return the readings of every probe of the catalogue on two batches."""
    batches = {name: task.probe_batch(SEQUENCES, seed=0) for name, task in TASKS.items()}
    return {
        name: _summed(measure(_series(TASKS[name]), _catalogue(), batch, progress=False))
        for name, batch in batches.items()
    }
