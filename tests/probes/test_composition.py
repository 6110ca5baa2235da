"""Composition: ratios of Frobenius norms, against matrices written out in full and TransformerLens's own scores."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.attention import Circuits
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.probes import Composition
from stagewise.tasks import RepeatedTokens


def test_compositions_are_ratios_of_frobenius_norms(circuits: Circuits, written_out: tuple[Tensor, Tensor]) -> None:
    qk, ov = written_out
    readings = Composition().read_circuits(circuits)
    assert [reading.values.shape for reading in readings] == [(1, 4, 4, 3), (1, 4, 8, 3)]
    for layer, reading in enumerate(readings, start=1):
        for place, source in enumerate(reading.labels["source"]):
            below, other = int(str(source)[1]), int(str(source)[3])
            written = ov[below, other]
            for head in range(4):
                reads = (qk[layer, head], qk[layer, head].T, ov[layer, head])
                expected = [((written @ m).norm() / (written.norm() * m.norm())).item() for m in reads]
                assert reading.values[0, head, place].tolist() == pytest.approx(expected, abs=1e-4)


def test_transformer_lens_says_the_same_of_composition(sizes: dict[str, Any]) -> None:
    made: Any = models.build(Architecture(sizes), seed=1)
    theirs = {kind: made.all_composition_scores(kind) for kind in "QKV"}
    for reading in Composition().read_circuits(models.circuits(made)):
        (layer,) = (int(label) for label in reading.labels["layer"])
        for place, source in enumerate(reading.labels["source"]):
            below, other = int(str(source)[1]), int(str(source)[3])
            for column, kind in enumerate("QKV"):
                scores = getattr(theirs[kind], "scores", theirs[kind])
                torch.testing.assert_close(reading.values[0, :, place, column], scores[below, other, layer])


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama"])
def test_hugging_face_heads_are_compared_with_every_head_below(
    kind: str, hugging_face: Callable[..., nn.Module]
) -> None:
    plain = hugging_face(kind)
    state = {name: weight.detach() for name, weight in plain.named_parameters()}
    series = CheckpointSeries("run", models.described(plain), (0,), lambda step: state)
    table = measure(series, [Composition()], RepeatedTokens(32, length=6).probe_batch(4, seed=0), progress=False)
    assert len(table) == 4 * 4 * 3


def test_a_model_of_one_layer_is_refused() -> None:
    one = models.circuits(models.build(full(6, 5, n_layers=1, n_heads=2, d_model=8)))
    with pytest.raises(ValueError, match="this model has one layer"):
        Composition().read_circuits(one)
