"""A run measured with every kind of probe, made by hand: two stages, two heads; and parts of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.findings.stages import Stages, find_stages
from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.probe import Reading
from stagewise.reporting._measured import Measured
from stagewise.table import Quantity, declare, tidy

STEPS = (*range(0, 120, 20), 140, 180, *range(220, 320, 20), 340, *range(400, 601, 50))
RUN_NAME = "</script><b>run & co"
OWN = "Logit<Lens>"
"""A probe of one's own, which has no section; its quantity is written with what HTML and formulas take for theirs."""

FURTHER = {
    "Copying": ("batch", "accuracy"),
    "LossByPosition": ("batch position", "cross_entropy"),
    "OVCopying": ("layer head", "copying"),
    "EffectiveSupport": ("batch layer head", "keys"),
    OWN: ("batch layer", "early & $late$"),
}
"""Probes that are read out as random numbers."""

SIZES = {"batch": 8, "layer": 1, "head": 2, "position": 4}


def kl(step: int) -> torch.Tensor:
    """KL to A*_1 and A*_1:2 in two stages: to a plateau around step 150, from it at about 200."""
    first, second = (1 / (1 + np.exp(-(step - middle) / 12)) for middle in (50, 260))
    values = [3 - 2 * first + second, 3 - 1.9 * first - second]
    return torch.tensor(values) + 1e-3 * torch.randn(8, 2, generator=torch.Generator().manual_seed(step))


NESTED = {"A*_1": 1, "A*_1:2": 2}


def further(step: int) -> dict[str, list[Reading]]:
    generator = torch.Generator().manual_seed(step)
    sizes = {probe: [SIZES[axis] for axis in axes.split()] for probe, (axes, _) in FURTHER.items()}
    return {
        probe: [Reading(axes, torch.rand(sizes[probe], generator=generator), quantity, _labels(axes))]
        for probe, (axes, quantity) in FURTHER.items()
    }


def _labels(axes: str) -> dict[str, range]:
    return {"position": range(4)} if "position" in axes else {}


def readings(step: int) -> dict[str, list[Reading]]:
    second = 1 / (1 + np.exp(-(step - 260) / 12))
    mass = torch.tensor([[[0.9, 0.1], [0.9 - 0.8 * second, 0.1 + 0.8 * second]]]).expand(8, 1, 2, 2)
    relation, feature = {"relation": ["I(1)", "I(2)"]}, {"feature": ["A*_1", "A*_2"]}
    ablation = {"kind": ["zero"], "control": ["head", "random head"]}
    pattern = torch.full((1, 2, 4, 4), step / 600).tril()
    return {
        "KLToReference": [
            Reading("batch reference", kl(step), "kl", {"reference": ["A*_1", "A*_1:2"]}),
            Reading(
                "batch reference context",
                kl(step)[:, :1, None],
                "kl",
                {"reference": ["trained c=1"], "context": [1]},
            ),
        ],
        "Loss": [Reading("batch", kl(step)[:, 1], "excess")],
        "Accuracy": [Reading("batch", mass[:, 0, 1, 1], "accuracy")],
        "AttentionTo": [Reading("batch layer head relation", mass, name, relation) for name in ("mass", "along")],
        "HeadSpecialisation": [
            Reading("batch layer head relation", mass, "share", relation),
            Reading("batch", mass[:, 0, 0, 0], "competition"),
            Reading("batch", mass[:, 0, 1, 1], "coverage"),
        ],
        "RestrictedContextKL": [Reading("batch context", mass[:, 0, 1], "kl", {"context": [1, 2]})],
        "HeadAblation": [Reading("batch layer head kind control", mass[:, :, :, None], "kl", ablation)],
        "AttentionEntropy": [Reading("batch layer head", mass[..., 0], "entropy")],
        "ValueAlignment": [Reading("layer head feature", mass[0], name, feature) for name in ("cosine", "projection")],
        "MeanPattern": [Reading("layer head query key", pattern, "attention", {"query": range(4), "key": range(4)})],
    }


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    """Two stages of one layer of two heads, with rows of every kind of probe. Copy it before changing anything."""
    weights = bootstrap_weights(8, 20)
    frames = [
        rows(reading, weights).assign(run=RUN_NAME, step=step, probe=probe)
        for step in STEPS
        for probe, found in {**readings(step), **further(step)}.items()
        for reading in found
    ]
    frames = [
        frame.assign(nested=[NESTED.get(name, 0) for name in frame["reference"]]) if "reference" in frame else frame
        for frame in frames
    ]
    measured = tidy(frames)
    declare(measured, {OWN: {"early & $late$": Quantity("loss of <early> exits", "nats", (0, None), "down")}})
    return measured


@pytest.fixture(scope="session")
def stages(table: pd.DataFrame) -> Stages:
    return find_stages(table)


@pytest.fixture(scope="session")
def measured(table: pd.DataFrame, stages: Stages) -> Measured:
    return Measured({}, table, stages)


@pytest.fixture(scope="session")
def bare() -> Callable[..., Measured]:
    """Make what is known of a run from its rows alone."""

    def make(rows: pd.DataFrame, **known: Any) -> Measured:
        return Measured({}, rows)._replace(**known)

    return make
