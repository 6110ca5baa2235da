"""Other forms of checkpoints: each is called by its name, with what makes weights of it."""

import gzip
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from stagewise.checkpoints._weight_names import CONVERTERS, converter
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Kind
from stagewise.checkpoints.series import find, open_series


def saved_by_torch(state: dict[str, Any], folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict_saver import save

    save(state, checkpoint_id=folder, no_dist=True)


@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_torch_distributed_is_read_once_it_is_converted_by_torch(
    tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    module = hugging_face("GPT2", 10)
    saved_by_torch({"model": module.state_dict(), "step": 10}, tmp_path / "parts" / "step-10")
    (finding,) = audit(tmp_path / "parts").findings
    assert finding.kind is Kind.NO_WEIGHTS
    (advice,) = re.findall("`python (.*)`", finding.message)
    (tmp_path / "whole").mkdir()
    places = [str(tmp_path / "parts" / "step-10"), str(tmp_path / "whole" / "step-10.pt")]
    subprocess.run([sys.executable, *advice.split(), *places], check=True)
    series = open_series(tmp_path / "whole", architecture=module.config)
    assert series.steps == (10,)
    assert all(torch.equal(weight, module.state_dict()[name]) for name, weight in series.weights(10).items())


def test_adapters_are_called_so_with_what_merges_them(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    settings = peft.LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True)
    for step in (5, 10):
        peft.get_peft_model(hugging_face("GPT2"), settings).save_pretrained(tmp_path / f"checkpoint-{step}")
    found = audit(tmp_path).findings
    assert [one.kind for one in found] == [Kind.NO_WEIGHTS] * 2
    assert "holds weights of an adapter: save `PeftModel.from_pretrained" in found[0].message


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
