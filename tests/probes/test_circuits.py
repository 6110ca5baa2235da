"""Scores of weights alone, against matrices written out in full: native, grouped queries, Hugging Face."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from stagewise import models as model
from stagewise.architecture import Architecture, full
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.circuits import Circuits
from stagewise.measurement.engine import measure
from stagewise.probes import Composition, OVCopying, QKOffset
from stagewise.tasks import RepeatedTokens

SIZES = {"n_layers": 3, "n_heads": 4, "d_model": 16, "d_head": 4, "n_ctx": 9, "d_vocab": 11, "attn_only": True}
MODELS = {"native": {}, "grouped": {"n_key_value_heads": 2}}


@pytest.fixture(scope="module", params=MODELS)
def circuits(request: pytest.FixtureRequest) -> Circuits:
    return model.circuits(model.build(Architecture({**SIZES, **MODELS[request.param]}), seed=3))


def matrices(circuits: Circuits) -> tuple[Tensor, Tensor]:
    """QK and OV of every head, written out: [layer head model model]."""
    return circuits.QK.A @ circuits.QK.B, circuits.OV.A @ circuits.OV.B


def test_copying_is_that_of_the_eigenvalues_of_the_token_map(circuits: Circuits) -> None:
    (reading,) = OVCopying().read_circuits(circuits)
    _, ov = matrices(circuits)
    for layer in range(3):
        for head in range(4):
            eigenvalues = torch.linalg.eigvals(circuits.W_E.double() @ ov[layer, head].double() @ circuits.W_U.double())
            expected = eigenvalues.real.sum() / eigenvalues.abs().sum()
            assert reading.values[layer, head].item() == pytest.approx(expected.item(), abs=1e-4)


def test_a_head_that_writes_what_it_reads_copies_and_its_negative_does_the_opposite() -> None:
    made = model.circuits(model.build(full(6, 5, n_layers=1, n_heads=2, d_model=8)))
    factored = type(made.OV)
    tokens = torch.linalg.qr(torch.randn(8, 6, generator=torch.Generator().manual_seed(0))).Q.T
    half = torch.eye(8)[:, :4]
    for sign in (1.0, -1.0):
        ov = factored(half.expand(1, 2, 8, 4), sign * half.T.expand(1, 2, 4, 8))
        (reading,) = OVCopying().read_circuits(Circuits(made.QK, ov, tokens, tokens.T, None))
        assert reading.values.flatten().tolist() == pytest.approx([sign] * 2, abs=1e-5)


def test_fifty_thousand_tokens_make_no_large_matrix() -> None:
    config = {**SIZES, "d_vocab": 50_000, "n_layers": 1}
    (reading,) = OVCopying().read_circuits(model.circuits(model.build(Architecture(config))))
    assert bool(reading.values.isfinite().all())


@pytest.mark.parametrize("offset", [0, 1, 2])
def test_the_share_of_positions_is_that_of_the_scores_written_out(circuits: Circuits, offset: int) -> None:
    (reading,) = QKOffset(offset).read_circuits(circuits)
    assert circuits.W_pos is not None
    scores = circuits.W_pos @ matrices(circuits)[0] @ circuits.W_pos.T
    for layer, head in ((0, 0), (1, 3), (2, 2)):
        hits = [scores[layer, head, i, : i + 1].argmax().item() == i - offset for i in range(offset, 9)]
        assert reading.values[layer, head].item() == pytest.approx(sum(hits) / len(hits))


def test_a_head_whose_positions_ask_for_the_one_before_scores_one() -> None:
    made = model.circuits(model.build(Architecture({**SIZES, "d_head": 9, "d_model": 36})))
    position = torch.eye(36)[:9]
    query, key = position.T.roll(-1, 1), position.T
    qk = type(made.QK)(query.expand(3, 4, 36, 9), key.T.expand(3, 4, 9, 36))
    found = Circuits(qk, made.OV, made.W_E, made.W_U, position)
    assert QKOffset().read_circuits(found)[0].values.flatten().tolist() == [1.0] * 12
    assert QKOffset(offset=2).read_circuits(found)[0].values.flatten().tolist() == [0.0] * 12


def test_compositions_are_ratios_of_frobenius_norms(circuits: Circuits) -> None:
    qk, ov = matrices(circuits)
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


def test_transformer_lens_says_the_same_of_composition() -> None:
    made = model.build(Architecture(SIZES), seed=1)
    theirs = {kind: made.all_composition_scores(kind) for kind in "QKV"}
    for reading in Composition().read_circuits(model.circuits(made)):
        (layer,) = map(int, reading.labels["layer"])
        for place, source in enumerate(reading.labels["source"]):
            below, other = int(str(source)[1]), int(str(source)[3])
            for column, kind in enumerate("QKV"):
                scores = getattr(theirs[kind], "scores", theirs[kind])
                torch.testing.assert_close(reading.values[0, :, place, column], scores[below, other, layer])


@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama"])
def test_hugging_face_weights_are_read_as_they_are(kind: str, hugging_face: Callable[..., nn.Module]) -> None:
    plain = hugging_face(kind)
    made = model.described(plain)
    state = {name: weight.detach() for name, weight in plain.named_parameters()}
    series = CheckpointSeries("run", made, (0,), lambda step: state)
    batch = RepeatedTokens(32, length=6).probe_batch(4, seed=0)
    table = measure(series, [OVCopying(), Composition()], batch, progress=False)
    v, o = per_head(kind, state)
    embed, unembed = plain.get_input_embeddings().weight, plain.get_output_embeddings().weight
    for head in range(4):
        eigenvalues = torch.linalg.eigvals((embed @ v[head] @ o[head] @ unembed.T).detach().double())
        expected = (eigenvalues.real.sum() / eigenvalues.abs().sum()).item()
        rows = table[(table["probe"] == "OVCopying") & (table["layer"] == 1) & (table["head"] == head)]
        assert rows["value"].item() == pytest.approx(expected, abs=1e-3)
    assert len(table[table["probe"] == "Composition"]) == 4 * 4 * 3


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


def test_what_weights_do_not_have_is_refused(circuits: Circuits) -> None:
    with pytest.raises(ValueError, match="reads learned positions, this model has none"):
        QKOffset().read_circuits(Circuits(circuits.QK, circuits.OV, circuits.W_E, circuits.W_U, None))
    with pytest.raises(ValueError, match="expected 0 <= offset < positions <= 9; got 9 and 9"):
        QKOffset(9).read_circuits(circuits)
    one = model.circuits(model.build(full(6, 5, n_layers=1, n_heads=2, d_model=8)))
    with pytest.raises(ValueError, match="this model has one layer"):
        Composition().read_circuits(one)
