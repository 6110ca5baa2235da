"""A file of llama.cpp, written by its own library, is a source of one checkpoint."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from stagewise.checkpoints._gguf import gguf_at
from stagewise.checkpoints.series import open_series

SIZES = {"embedding_length": 32, "feed_forward_length": 64, "context_length": 48, "block_count": 2}
HEADS, KEY_HEADS, VOCABULARY = 4, 2, 40
Q8 = gguf.GGMLQuantizationType.Q8_0


@pytest.fixture(scope="module")
def tensors() -> dict[str, np.ndarray]:
    rng, width, kv = np.random.default_rng(0), SIZES["embedding_length"], SIZES["embedding_length"] // 2
    shapes = {"token_embd.weight": (VOCABULARY, width), "output_norm.weight": (width,)}
    for layer in range(SIZES["block_count"]):
        of_layer = {
            **{"attn_norm": (width,), "ffn_norm": (width,), "attn_output": (width, width)},
            **{"attn_q": (width, width), "attn_k": (kv, width), "attn_v": (kv, width)},
            **{"ffn_gate": (64, width), "ffn_up": (64, width), "ffn_down": (width, 64)},
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def folder(tensors: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantised")
    writer = gguf.GGUFWriter(folder / "tiny-135M.Q8_0.gguf", "llama")
    for name, size in SIZES.items():
        getattr(writer, f"add_{name}")(size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    for name, values in tensors.items():
        if values.ndim > 1:
            writer.add_tensor(name, gguf.quantize(values, Q8), raw_dtype=Q8)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder


def test_the_model_has_its_sizes_and_its_weights_without_their_quantisation(
    folder: Path, tensors: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    series = open_series(folder)
    weights = series.load(0)
    assert (series.steps, series.architecture.n_layers, series.architecture.n_heads) == ((0,), 2, 4)
    assert "called step 0; its weights are dequantised to float32" in capsys.readouterr().err
    for ours, theirs in (("embed_tokens", "token_embd"), ("layers.1.mlp.down_proj", "blk.1.ffn_down")):
        values = gguf.dequantize(gguf.quantize(tensors[f"{theirs}.weight"], Q8), Q8)
        np.testing.assert_array_equal(weights[f"model.{ours}.weight"].numpy(), values)
    assert open_series(folder / "tiny-135M.Q8_0.gguf").name == series.name == "tiny-135M.Q8_0"


def test_a_file_is_a_source_only_where_no_other_weights_lie_beside_it(folder: Path, tmp_path: Path) -> None:
    assert gguf_at(folder) == folder / "tiny-135M.Q8_0.gguf"
    for names in (["a.gguf", "b.gguf"], ["a.gguf", "step_1.safetensors"], ["config.json"]):
        place = tmp_path / "-".join(names)
        place.mkdir()
        for name in names:
            (place / name).touch()
        assert gguf_at(place) is None
    assert gguf_at(tmp_path / "nothing") is None


def test_a_damaged_file_is_named_in_one_line(folder: Path, tmp_path: Path) -> None:
    whole = (folder / "tiny-135M.Q8_0.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (0, 100, len(whole) // 2):
        cut.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut.gguf cannot be read as a file of llama.cpp: .+") as refusal:
            open_series(cut).load(0)
        assert "\n" not in str(refusal.value)
