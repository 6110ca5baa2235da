"""Other forms of checkpoints: torch's distributed folders, adapters merged as peft does, and lines for the rest."""

import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from stagewise.checkpoints._formats import CONVERTERS, SHARDS, adapter_file, converter, merged, read_shards
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
    next((tmp_path / "step-20").glob("*.distcp")).unlink()
    with pytest.raises(FileNotFoundError, match=r"\.distcp is gone, a part of the checkpoint"):
        series.weights(20)


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


def adapter_of(weights: dict[str, Tensor], folder: Path, **config: Any) -> dict[str, Tensor]:
    """Write an adapter as peft does; return the matrices that it adds, by the names of the weights."""
    rank, generator = 2, torch.Generator().manual_seed(0)
    settings = {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "base_model_name_or_path": "owner/base", **config}
    added, saved = dict[str, Tensor](), dict[str, Tensor]()
    for name, weight in weights.items():
        if name.endswith("c_attn.weight"):
            wide = weight.T if config.get("fan_in_fan_out") else weight
            down = torch.randn(rank, wide.shape[1], generator=generator)
            up = torch.randn(wide.shape[0], rank, generator=generator)
            owner = f"base_model.model.{name.removesuffix('.weight')}"
            saved |= {f"{owner}.lora_A.weight": down, f"{owner}.lora_B.weight": up}
            added[name] = (up @ down).T if config.get("fan_in_fan_out") else up @ down
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    save_file({name: weight.contiguous() for name, weight in saved.items()}, folder / "adapter_model.safetensors")
    return added


@pytest.mark.parametrize(("stabilised", "scale"), [(False, 4.0), (True, 8 / math.sqrt(2))])
def test_a_series_of_adapters_is_merged_onto_its_base(
    stabilised: bool, scale: float, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("GPT2")
    module.save_pretrained(tmp_path / "base")
    weights = dict(module.state_dict())
    options = {"fan_in_fan_out": True, "use_rslora": stabilised}
    added, _ = (adapter_of(weights, tmp_path / "run" / f"checkpoint-{step}", **options) for step in (5, 10))
    series = open_series(tmp_path / "run", base=tmp_path / "base")
    assert (series.steps, series.architecture.n_layers) == ((5, 10), module.config.n_layer)
    for name, weight in series.weights(5).items():
        torch.testing.assert_close(weight, weights[name] + scale * added[name] if name in added else weights[name])
    found = audit(find(tmp_path / "run", base=tmp_path / "base"))
    assert {one.kind for one in found.findings} == {Kind.IDENTICAL_WEIGHTS}
    with pytest.raises(ValueError, match=r"give the model that it adapts, --base owner/base, in Python `base=`"):
        open_series(tmp_path / "run", architecture=module.config).weights(5)


def test_adapters_that_are_no_lora_or_of_another_model_are_refused(tmp_path: Path) -> None:
    weights = {"h.0.attn.c_attn.weight": torch.ones(3, 4)}
    adapter_of(weights, tmp_path / "a")
    adapter = {"base_model.model.h.9.attn.c_attn.lora_A.weight": torch.ones(2, 4)}
    with pytest.raises(ValueError, match=r"adapts h\.9\.attn\.c_attn\.weight, which the weights of `base` do not have"):
        merged(weights, adapter, tmp_path / "a")
    adapter_of(weights, tmp_path / "b", peft_type="IA3")
    adapter_of(weights, tmp_path / "c", use_dora=True)
    for folder, kind in (("b", "IA3"), ("c", "LORA with use_dora")):
        with pytest.raises(ValueError, match=rf"holds an adapter of the kind {kind}: save `model\.merge_and_unload"):
            merged(weights, {}, tmp_path / folder)
    adapter_file(tmp_path / "c").unlink()
    with pytest.raises(FileNotFoundError, match="and no weights of the adapter"):
        adapter_file(tmp_path / "c")


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


@pytest.mark.parametrize("name", ["model.gguf", "flax_model.msgpack", "params.npz"])
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
