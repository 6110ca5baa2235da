"""What one major version of TransformerLens trains and saves, the other continues to read, with the same numbers.

Needs the interpreter of an environment with the other version in STAGEWISE_OTHER_PYTHON: `make test-tl4` sets it.
"""

import os
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from stagewise import models as model
from stagewise.checkpoints.series import open_series
from tests import exchange

ROOT = Path(__file__).parents[2]
TABLE = 1e-4
WEIGHTS = 1e-5
"""Rounding after 20 steps of SGD at a rate of 0.3, in which a weight moves by a tenth and more."""

KINDS = ("minimal", "full", "rotary", "gated", "shortformer", "GPT2", "Llama")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The runs trained here and those of the other version, each measured there."""
    if (python := os.environ.get("STAGEWISE_OTHER_PYTHON")) is None:
        pytest.skip("STAGEWISE_OTHER_PYTHON names no environment with another TransformerLens: `make test-tl4` does")
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    exchange.trained(here)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    script = str(ROOT / "tests" / "exchange.py")
    subprocess.run([python, script, str(here), str(there)], check=True, env=environment, cwd=ROOT)
    return here, there


@every_kind
@pytest.mark.parametrize("whose", [0, 1], ids=["trained here", "trained there"])
def test_a_run_measures_alike_under_both_versions(kind: str, whose: int, folders: tuple[Path, Path]) -> None:
    ours, theirs = exchange.measured(folders[whose], kind), pd.read_parquet(folders[whose] / f"{kind}.parquet")
    drop = ["value", "lo", "hi", "resamples"]
    pd.testing.assert_frame_equal(ours.drop(columns=drop), theirs.drop(columns=drop))
    assert (ours["value"] - theirs["value"]).abs().max() < TABLE


@every_kind
def test_a_seed_trains_the_same_model_under_both_versions(kind: str, folders: tuple[Path, Path]) -> None:
    ours, theirs = (open_series(folder / kind) for folder in folders)
    for step in (0, 10, 20):
        one, other = ours.weights(step), theirs.weights(step)
        assert one.keys() == other.keys()
        for name, weight in one.items():
            assert (weight - other[name]).abs().max() <= (WEIGHTS if step else 0), f"{name} at step {step}"


@pytest.mark.parametrize(
    "kind", ["minimal", "full", "rotary", "shortformer"]
)  # 4 leaves b_in of a gated MLP out of its state dict
def test_a_state_dict_of_the_other_version_loads(kind: str, folders: tuple[Path, Path]) -> None:
    built = model.build(exchange.KINDS[kind])
    model.load(built, load_file(folders[1] / f"{kind}.safetensors"))
    expected = open_series(folders[1] / kind).weights(20)
    assert all(torch.equal(weight, expected[name]) for name, weight in model.weights(built).items())
