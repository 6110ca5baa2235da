"""One file as a source: lists and mappings of state dicts, with their steps where they have some."""

import argparse
import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints import _one_file
from stagewise.checkpoints._weight_names import gguf_at
from stagewise.checkpoints.series import open_series

CONFIG = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}


def state(seed: int) -> dict[str, Tensor]:
    return dict(models.weights(models.build(Architecture(CONFIG), seed)))


WAYS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "a list": (lambda one: [one(0), one(1), one(2)], (0, 1, 2)),
    "a tuple": (lambda one: (one(0), one(1), one(2)), (0, 1, 2)),
    "a list with steps": (lambda one: [{"model": one(k), "step": 50 * k} for k in range(3)], (0, 50, 100)),
    "a mapping from steps": (lambda one: {100: one(1), 0: one(0), 300: one(2)}, (0, 100, 300)),
    "a mapping from names": (lambda one: {f"step_{100 * k}": one(k) for k in range(3)}, (0, 100, 200)),
    "grokking notebooks": (
        lambda one: {
            "model": one(2),
            "config": CONFIG,
            "checkpoints": [one(0), one(1), one(2)],
            "checkpoint_epochs": [0, 100, 200],
            "train_losses": [3, 2, 1, 0],
        },
        (0, 100, 200),
    ),
    "steps as a tensor": (
        lambda one: {"states": [one(0), one(1), one(2)], "steps": torch.tensor([0, 7, 9]), "lr": [1, 2, 3]},
        (0, 7, 9),
    ),
    "objects beside": (lambda one: {"all": [one(0), one(1), one(2)], "args": argparse.Namespace(a=1)}, (0, 1, 2)),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_checkpoints_in_a_file_are_a_series(way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, steps = WAYS[way]
    torch.save(make(state), tmp_path / "run.pt")
    series = open_series(tmp_path / "run.pt", architecture=CONFIG)
    assert series.steps == steps
    for seed, step in enumerate(steps):
        assert all(torch.equal(series.weights(step)[name], weight) for name, weight in state(seed).items())
    counted = "entries of the list, not updates" in capsys.readouterr().err
    assert counted is (steps == (0, 1, 2))


def test_the_config_in_the_file_is_that_of_its_checkpoints(tmp_path: Path) -> None:
    torch.save(WAYS["grokking notebooks"][0](state), tmp_path / "run.pth")
    assert open_series(tmp_path / "run.pth").architecture == Architecture(CONFIG)


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_file_of_one_checkpoint_has_the_step_in_its_name_or_in_it(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"step_30.{ending}"
    save_file(state(0), path) if ending == "safetensors" else torch.save(state(0), path)
    assert open_series(path, architecture=CONFIG).steps == (30,)
    torch.save({"model": state(0), "step": 70}, tmp_path / "last.pt")
    assert open_series(tmp_path / "last.pt", architecture=CONFIG).steps == (70,)
    torch.save(state(0), tmp_path / "last.pt")
    with pytest.raises(
        ValueError, match=r"last\.pt holds one checkpoint, and no step of it \(.*\): give it, as in --parse"
    ):
        open_series(tmp_path / "last.pt", architecture=CONFIG)


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


def test_what_an_audit_read_is_read_no_second_time_unless_the_file_was_written_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds, read, [path] = list[str](), _one_file._read, folder.iterdir()

    def counted(path: Path, kind: str, **given: Any) -> Any:
        kinds.append(kind)
        return read(path, kind, **given)

    monkeypatch.setattr(_one_file, "_read", counted)
    monkeypatch.setattr(_one_file, "_HELD", {})
    series = open_series(path)
    kinds.clear()
    first, second = series.load(0), series.load(0)
    assert kinds == ["AutoModelForCausalLM"]
    assert all(torch.equal(first[name], second[name]) for name in first)
    series.load(0)
    os.utime(path, (1, 1))
    series.load(0)
    assert kinds.count("AutoModelForCausalLM") == 3


def test_a_file_is_parsed_once_for_its_config_and_its_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, maps, [path], make = list[Path](), list[object](), folder.iterdir(), gguf.get_tensor_name_map

    class Counted(gguf.GGUFReader):
        def __init__(self, file: Path) -> None:
            parsed.append(Path(file))
            super().__init__(file)

    def counted(*given: Any) -> Any:
        maps.append(given)
        return make(*given)

    monkeypatch.setattr(gguf, "GGUFReader", Counted)
    monkeypatch.setattr(gguf, "get_tensor_name_map", counted)
    monkeypatch.setattr(_one_file, "_HELD", {})
    _one_file._config_at.cache_clear()
    open_series(path).load(0)
    assert (parsed, len(maps)) == ([path], 1)
    assert gguf.GGUFReader is Counted


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
