"""The table that the figures are drawn from: random numbers of every kind of probe, at five checkpoints."""

import itertools
from collections.abc import Callable

import pandas as pd
import pytest
import torch

from stagewise.findings import Stages
from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.probe import Reading
from stagewise.table import tidy

STEPS = (0, 1, 10, 100, 300)
REFERENCES = ["uniform", "A*_1", "A*_1:2"]
RELATIONS = ["I(1)", "I(2)"]


def readings(step: int) -> dict[str, list[Reading]]:
    generator = torch.Generator().manual_seed(step)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator)

    relation, feature = {"relation": RELATIONS}, {"feature": ["A*_1", "A*_2"]}
    ablation = {"kind": ["zero"], "control": ["head", "random head"]}
    pattern = draw(1, 2, 4, 4).tril().softmax(-1).tril()
    return {
        "KLToReference": [Reading("batch reference", draw(6, 3), "kl", {"reference": REFERENCES})],
        "Loss": [Reading("batch", draw(6), "cross_entropy"), Reading("batch", draw(6), "excess")],
        "AttentionTo": [Reading("batch layer head relation", draw(6, 1, 2, 2), "mass", relation)],
        "HeadSpecialisation": [Reading("batch", draw(6), name) for name in ("competition", "coverage")],
        "RestrictedContextKL": [Reading("batch context", draw(6, 2), "kl", {"context": [1, 2]})],
        "HeadAblation": [Reading("batch layer head kind control", draw(6, 1, 2, 1, 2), "kl", ablation)],
        "AttentionEntropy": [Reading("batch layer head", draw(6, 1, 2), "entropy")],
        "ValueAlignment": [Reading("layer head feature", draw(1, 2, 2) - 0.5, "projection", feature)],
        "MeanPattern": [Reading("layer head query key", pattern, "attention", {"query": range(4), "key": range(4)})],
    }


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    weights = bootstrap_weights(6, 20)
    frames = [
        rows(reading, weights).assign(run="small", step=step, probe=probe)
        for step in STEPS
        for probe, found in readings(step).items()
        for reading in found
    ]
    frames = [frame.assign(nested=[0, 1, 2]) if "reference" in frame else frame for frame in frames]
    return tidy(frames)


def _stages_between(*edges: tuple[float, float, float]) -> Stages:
    rows_of_stages = [
        dict(zip(("start", "start_lo", "start_hi", "end", "end_lo", "end_hi"), (*a, *b), strict=True))
        for a, b in itertools.pairwise(edges)
    ]
    frame = pd.DataFrame(rows_of_stages).assign(stage=range(1, len(edges)), t10=1.0, t50=2.0, t90=3.0, summary="")
    return Stages("small", frame, pd.DataFrame(), pd.DataFrame())


@pytest.fixture
def stages() -> Stages:
    return _stages_between((0, 0, 0), (10, 5, 20), (100, 60, 150), (300, 300, 300))


@pytest.fixture
def stages_between() -> Callable[..., Stages]:
    """Make stages from their edges: (step, lo, hi) each."""
    return _stages_between
