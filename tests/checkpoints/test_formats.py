"""Other forms of checkpoints: torch's distributed folders, adapters merged as peft does, and lines for the rest."""

import copy
import gzip
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from stagewise.checkpoints._formats import adapter_file, merged, read_shards
from stagewise.checkpoints._weight_names import CONVERTERS, SHARDS, converter
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Kind
from stagewise.checkpoints.series import find, open_series


def saved_by_torch(state: dict[str, Any], folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict_saver import save

    save(state, checkpoint_id=folder, no_dist=True)


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_torch_distributed_is_read(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    for step in (10, 20):
        module = hugging_face("GPT2", step)
        optimiser = {"state": {0: {"exp_avg": torch.ones(3)}}}
        saved_by_torch({"model": module.state_dict(), "optimizer": optimiser, "step": step}, tmp_path / f"step-{step}")
    series = open_series(tmp_path, architecture=module.config)
    assert series.steps == (10, 20)
    assert all(torch.equal(weight, module.state_dict()[name]) for name, weight in series.weights(20).items())
    assert series.weights(20).keys() == module.state_dict().keys()
    assert find(tmp_path).entries[1].read().step == 20
    next((tmp_path / "step-20").glob("*.distcp")).unlink()
    with pytest.raises(FileNotFoundError, match=r"\.distcp is gone, a part of the checkpoint"):
        series.weights(20)


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_torch_distributed_in_the_format_of_safetensors_is_read(
    tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat
    from torch.distributed.checkpoint.state_dict_saver import save

    module = hugging_face("Llama", 0)
    writer = FileSystemWriter(tmp_path / "step-10", serialization_format=SerializationFormat.SAFETENSORS)
    save({"model": module.state_dict(), "step": torch.tensor(11)}, storage_writer=writer, no_dist=True)
    contents = find(tmp_path).entries[0].read()
    assert contents.step == 11
    assert contents.weights.keys() == module.state_dict().keys()
    assert all(torch.equal(weight, module.state_dict()[name]) for name, weight in contents.weights.items())


@pytest.mark.filterwarnings("ignore")
def test_a_compressed_folder_of_torch_distributed_is_refused_by_the_name_of_its_compression(tmp_path: Path) -> None:
    pytest.importorskip("zstandard", reason="zstandard is not installed")
    from torch.distributed.checkpoint._extension import ZStandard
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    writer = FileSystemWriter(tmp_path / "step-10", _extensions=[ZStandard()])
    save({"w": torch.ones(4, 4)}, storage_writer=writer, no_dist=True)
    (finding,) = audit(find(tmp_path)).findings
    assert finding.kind is Kind.NO_WEIGHTS
    assert "is compressed (stream.zstd/1): load it with" in finding.message


@pytest.mark.filterwarnings("ignore")
def test_shards_of_several_processes_are_put_together(tmp_path: Path) -> None:
    saved_by_torch({"w": torch.arange(12.0).reshape(4, 3)}, tmp_path)
    with open(tmp_path / SHARDS, "rb") as file:
        described = pickle.load(file)
    import torch.distributed.checkpoint.metadata as of_torch
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    parts = [torch.arange(6.0).reshape(2, 3), torch.arange(6.0, 12.0).reshape(2, 3)]
    described.storage_data.clear()
    for number, part in enumerate(parts):
        torch.save(part, tmp_path / f"__{number}_0.distcp")
        index = of_torch.MetadataIndex("w", torch.Size([2 * number, 0]), number)
        size = (tmp_path / f"__{number}_0.distcp").stat().st_size
        described.storage_data[index] = _StorageInfo(f"__{number}_0.distcp", 0, size)
    (tmp_path / SHARDS).write_bytes(pickle.dumps(described))
    assert torch.equal(read_shards(tmp_path)["w"], torch.arange(12.0).reshape(4, 3))


class Bomb:
    """A call in a pickle."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


def test_the_description_of_shards_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / SHARDS).write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    with pytest.raises(ValueError, match=r"\.metadata is damaged, or of another version of torch"):
        read_shards(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["../outside", "/etc/passwd", "a/b"])
@pytest.mark.filterwarnings("ignore")
def test_shards_outside_of_their_folder_are_not_read(place: str, tmp_path: Path) -> None:
    saved_by_torch({"w": torch.ones(2)}, tmp_path)
    with open(tmp_path / SHARDS, "rb") as file:
        described = pickle.load(file)
    for one in described.storage_data.values():
        one.relative_path = place
    (tmp_path / SHARDS).write_bytes(pickle.dumps(described))
    with pytest.raises(ValueError, match=r"which is no file beside it"):
        read_shards(tmp_path)


def adapter_of(module: Any, folder: Path, kind: str = "LoraConfig", **settings: Any) -> dict[str, Tensor]:
    """Let peft put an adapter of random weights on a copy of a model and save it; return the merged weights."""
    import peft

    config = getattr(peft, kind)(**{"target_modules": ["c_attn"], "fan_in_fan_out": True, **settings})
    adapted = peft.get_peft_model(copy.deepcopy(module), config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in filter(lambda each: each.requires_grad, adapted.parameters()):
            weight.normal_(std=0.1, generator=generator)
    adapted.save_pretrained(folder)
    return dict(adapted.merge_and_unload().state_dict())


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_rslora": True, "r": 2},
        {"rank_pattern": {"h.0.attn.c_attn": 3}},
        {"bias": "all"},
        {"modules_to_save": ["ln_f"], "target_modules": "all-linear"},
    ],
    ids=lambda settings: "-".join(settings) or "plain",
)
def test_a_series_of_adapters_is_merged_onto_its_base(
    settings: dict[str, Any], tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("GPT2")
    module.save_pretrained(tmp_path / "base")
    expected, _ = (adapter_of(module, tmp_path / "run" / f"checkpoint-{step}", **settings) for step in (5, 10))
    series = open_series(tmp_path / "run", base=tmp_path / "base")
    assert (series.steps, series.architecture.n_layers) == ((5, 10), module.config.n_layer)
    for name, weight in series.weights(5).items():
        torch.testing.assert_close(weight, expected[name])
    found = audit(find(tmp_path / "run", base=tmp_path / "base"))
    assert {one.kind for one in found.findings} == {Kind.IDENTICAL_WEIGHTS}
    with pytest.raises(ValueError, match=r"give the model that it adapts, --base NAME, in Python `base=`"):
        open_series(tmp_path / "run", architecture=module.config).weights(5)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"kind": "IA3Config", "feedforward_modules": []}, "IA3"),
        ({"use_dora": True}, "LORA with use_dora"),
        ({"lora_bias": True}, "LORA with lora_bias"),
        ({"alpha_pattern": {"h.0.attn.c_attn": 3}}, "LORA with alpha_pattern"),
        ({"target_modules": ["wte"]}, "LORA with embeddings"),
        ({"target_modules": ["c_fc"], "trainable_token_indices": {"wte": [1]}}, "LORA with trainable_token_indices"),
        ({"init_lora_weights": "pissa"}, "LORA with init_lora_weights pissa"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_adapters_that_add_something_else_are_refused(
    settings: dict[str, Any], kind: str, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("GPT2")
    adapter_of(module, tmp_path, **settings)
    with pytest.raises(ValueError, match=rf"holds an adapter of the kind {kind}: save `model\.merge_and_unload"):
        merged(module.state_dict(), load_file(adapter_file(tmp_path)), tmp_path)
    adapter_file(tmp_path).unlink()
    with pytest.raises(FileNotFoundError, match="and no weights of the adapter"):
        adapter_file(tmp_path)


def test_adapters_of_another_model_are_refused(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    module = hugging_face("GPT2")
    adapter_of(module, tmp_path)
    adapter = load_file(adapter_file(tmp_path))
    with pytest.raises(
        ValueError, match=r"adapts .*h\.0\.attn\.c_attn\.weight, which the weights of `base` do not have"
    ):
        merged({"wte.weight": torch.ones(3, 4)}, adapter, tmp_path)
    with pytest.raises(ValueError, match=r"changes .* by a matrix of \(\d+, \d+\), and it is \(\d+, \d+\): save"):
        merged({name: weight[:-1] for name, weight in module.state_dict().items()}, adapter, tmp_path)


@pytest.mark.parametrize("end", CONVERTERS)
def test_weights_that_others_wrote_are_named_with_what_converts_them(end: str, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-5").mkdir()
    for part in "xy":  # a single file of torch's is read
        (tmp_path / "checkpoint-5" / f"{part}{end}").write_bytes(b"x")
    assert CONVERTERS[end] in converter([f"x{end}"])
    (found,) = audit(find(tmp_path)).findings
    assert found.kind is Kind.NO_WEIGHTS
    assert f"x{end} holds weights {CONVERTERS[end]}" in found.message
    assert "\n" not in found.message


@pytest.mark.parametrize("name", ["flax_model.msgpack", "params.npz"])
def test_a_folder_of_such_files_alone_says_so(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(FileNotFoundError, match=rf"{name} holds weights of "):
        open_series(tmp_path)


def test_deepspeeds_whole_tensors_are_read(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    folder, module = tmp_path / "global_step100", hugging_face("GPT2")
    folder.mkdir()
    torch.save({"module": module.state_dict(), "global_steps": 100}, folder / "mp_rank_00_model_states.pt")
    torch.save({"optimizer_state_dict": {}}, folder / "zero_pp_rank_0_mp_rank_00_optim_states.pt")
    series = open_series(tmp_path, architecture=module.config)
    assert series.steps == (100,)
    assert series.weights(100).keys() == module.state_dict().keys()


def _gzipped(path: Path) -> None:
    torch.save({"w": torch.ones(3)}, path)
    path.write_bytes(gzip.compress(path.read_bytes()))


LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 12345\n"

OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "TorchScript": (
        lambda path: torch.jit.script(torch.nn.Linear(2, 2)).save(str(path)),
        "is TorchScript: save `torch",
    ),
    "gzip": (_gzipped, "is compressed: unpack it"),
    "Git LFS": (lambda path: path.write_text(LFS), "is a pointer of Git LFS, not the file: run `git lfs pull`"),
    "a page": (lambda path: path.write_text("<!DOCTYPE html><html>404</html>"), "is a page of the web, not the file"),
    "pickle": (
        lambda path: path.write_bytes(pickle.dumps({"w": np.ones(3)})),
        "is a pickle of Python's own: save its weights with `torch.save`",
    ),
    "no weights": (lambda path: torch.save({"a": {"w": torch.ones(3)}, "b": {"w": torch.ones(3)}}, path), "by name"),
}
"""A file that is whole, and holds no weights that are read -> what makes it, and what is said."""


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_a_file_of_another_form_is_not_called_damaged(kind: str, ending: str, tmp_path: Path) -> None:
    write, said = OTHERS[kind]
    write(tmp_path / f"step1{ending}")
    with warnings.catch_warnings(action="error"):
        (found,) = audit(find(tmp_path)).findings
    assert found.kind is Kind.NO_WEIGHTS
    assert said in found.message
    assert "\n" not in found.message


def test_torchs_old_format_is_read_and_where_it_is_cut_off_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "step1.pt"
    torch.save({"w": torch.ones(3, 4)}, path, _use_new_zipfile_serialization=False)
    assert find(tmp_path).entries[0].load()["w"].shape == (3, 4)
    path.write_bytes(path.read_bytes()[:-8])
    (found,) = audit(find(tmp_path)).findings
    assert found.kind is Kind.DAMAGED


@pytest.mark.parametrize("zipped", [True, False])
def test_a_newer_pickle_protocol_is_no_damage(zipped: bool, tmp_path: Path) -> None:
    weights = {f"w{number}": torch.ones(3, 4) for number in range(9)}
    torch.save(weights, tmp_path / "step1.pt", pickle_protocol=4, _use_new_zipfile_serialization=zipped)
    (found,) = audit(find(tmp_path)).findings
    assert found.kind is Kind.NO_WEIGHTS
    assert "is a pickle of protocol 4 or later: save it as" in found.message


def test_what_a_file_holds_decides_not_its_name(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "step1.safetensors")
    save_file({"w": torch.ones(3)}, tmp_path / "step2.pt")
    assert [entry.load()["w"].tolist() for entry in find(tmp_path).entries] == [[1, 1, 1]] * 2


def test_shards_without_an_index_are_read_where_none_is_missing(tmp_path: Path) -> None:
    (tmp_path / "step1").mkdir()
    for number, name in enumerate("ab", 1):
        save_file({name: torch.ones(3)}, tmp_path / "step1" / f"model-{number:05d}-of-00002.safetensors")
    (entry,) = find(tmp_path).entries
    assert entry.load().keys() == {"a", "b"}
    (tmp_path / "step1" / "model-00001-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="holds no weights that can be read"):
        entry.load()
