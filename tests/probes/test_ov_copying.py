"""Copying by weights: eigenvalues, against maps written out in full: native, grouped queries, Hugging Face."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.attention import Circuits
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.probes import OVCopying
from stagewise.tasks import RepeatedTokens


def test_copying_is_that_of_the_eigenvalues_of_the_token_map(
    circuits: Circuits, written_out: tuple[Tensor, Tensor]
) -> None:
    (reading,) = OVCopying().read_circuits(circuits)
    _, ov = written_out
    for layer in range(3):
        for head in range(4):
            eigenvalues = torch.linalg.eigvals(circuits.W_E.double() @ ov[layer, head].double() @ circuits.W_U.double())
            expected = eigenvalues.real.sum() / eigenvalues.abs().sum()
            assert reading.values[layer, head].item() == pytest.approx(expected.item(), abs=1e-4)


def test_a_head_that_writes_what_it_reads_copies_and_its_negative_does_the_opposite() -> None:
    made = models.circuits(models.build(full(6, 5, n_layers=1, n_heads=2, d_model=8)))
    factored = type(made.OV)
    tokens = torch.linalg.qr(torch.randn(8, 6, generator=torch.Generator().manual_seed(0))).Q.T
    half = torch.eye(8)[:, :4]
    for sign in (1.0, -1.0):
        ov = factored(half.expand(1, 2, 8, 4), sign * half.T.expand(1, 2, 4, 8))
        (reading,) = OVCopying().read_circuits(Circuits(made.QK, ov, tokens, tokens.T, None))
        assert reading.values.flatten().tolist() == pytest.approx([sign] * 2, abs=1e-5)


def test_fifty_thousand_tokens_make_no_large_matrix(sizes: dict[str, Any]) -> None:
    made = models.circuits(models.build(Architecture({**sizes, "d_vocab": 50_000, "n_layers": 1})))
    (reading,) = OVCopying().read_circuits(made)
    # W_E OV W_U and OV W_U W_E have the same eigenvalues but for zeros; the second one is d_model wide.
    turned = made.W_U.double() @ made.W_E.double()
    for head, value in enumerate(reading.values[0]):
        eigenvalues = torch.linalg.eigvals(made.OV.AB[0, head].detach().double() @ turned)
        expected = eigenvalues.real.sum() / eigenvalues.abs().sum()
        assert value.item() == pytest.approx(expected.item(), abs=1e-4)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama"])
def test_hugging_face_weights_are_read_as_they_are(kind: str, hugging_face: Callable[..., Any]) -> None:
    plain = hugging_face(kind)
    state = {name: weight.detach() for name, weight in plain.named_parameters()}
    series = CheckpointSeries("run", models.described(plain), (0,), lambda step: state)
    table = measure(series, [OVCopying()], RepeatedTokens(32, length=6).probe_batch(4, seed=0), progress=False)
    v, o = per_head(kind, state)
    embed, unembed = plain.get_input_embeddings().weight, plain.get_output_embeddings().weight
    for head in range(4):
        eigenvalues = torch.linalg.eigvals((embed @ v[head] @ o[head] @ unembed.T).detach().double())
        expected = (eigenvalues.real.sum() / eigenvalues.abs().sum()).item()
        rows = table[(table["layer"] == 1) & (table["head"] == head)]
        assert rows["value"].item() == pytest.approx(expected, abs=1e-3)


def per_head(kind: str, state: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """W_V [model d_head] and W_O [d_head model] of the four heads of layer 1, from Hugging Face's own names."""
    if kind == "GPT2":
        v = state["transformer.h.1.attn.c_attn.weight"][:, 64:].split(8, 1)
        return list(v), list(state["transformer.h.1.attn.c_proj.weight"].split(8, 0))
    if kind == "GPTNeoX":
        qkv = state["gpt_neox.layers.1.attention.query_key_value.weight"].view(4, 3, 8, 32)
        return list(qkv[:, 2].mT), [part.T for part in state["gpt_neox.layers.1.attention.dense.weight"].split(8, 1)]
    shared = [part.T for part in state["model.layers.1.self_attn.v_proj.weight"].split(8, 0)]
    return [shared[head // 2] for head in range(4)], [
        part.T for part in state["model.layers.1.self_attn.o_proj.weight"].split(8, 1)
    ]


def test_tokens_without_logits_of_their_own_are_refused(sizes: dict[str, Any]) -> None:
    made = models.circuits(models.build(Architecture({**sizes, "d_vocab_out": 3})))
    with pytest.raises(ValueError, match="this model reads 11 tokens and predicts 3 others"):
        OVCopying().read_circuits(made)
