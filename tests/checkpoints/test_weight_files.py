"""Weight files: which ones are read, and that each way to cut or spoil one is an error that names it."""

import json
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from stagewise.checkpoints._digest import file_digest
from stagewise.checkpoints._weight_files import files_of, load_file, not_finite, read

STATE = {"a": torch.arange(15.0).reshape(5, 3), "b": torch.arange(4)}
FORMATS: dict[str, Callable[[Path], object]] = {
    "w.safetensors": lambda path: save_file(STATE, path),
    "w.pt": lambda path: torch.save(STATE, path),
    "old.pt": lambda path: torch.save(STATE, path, _use_new_zipfile_serialization=False),
}
every_format = pytest.mark.parametrize("name", FORMATS)


def same(state: object) -> bool:
    return isinstance(state, dict) and all(torch.equal(state[name], STATE[name]) for name in STATE)


@every_format
def test_what_was_saved_is_loaded(name: str, tmp_path: Path) -> None:
    FORMATS[name](tmp_path / name)
    assert same(load_file(tmp_path / name))
    assert same(read([tmp_path / name]).weights)


@every_format
@pytest.mark.parametrize("apart", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_a_file_that_is_cut_off_is_named_wherever_it_is_cut(name: str, apart: int, tmp_path: Path) -> None:
    path = tmp_path / name
    FORMATS[name](path)
    content = path.read_bytes()
    for length in range(0, len(content), apart):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=rf"{name} is truncated or damaged \({length} bytes: .*Restore it"):
            load_file(path)


@pytest.mark.parametrize("length", [1 << 16, 70_000, 100_000, 131_000, -1, -30, -300])
def test_a_large_archive_that_is_cut_off_is_named(length: int, tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    torch.save({"w": torch.randn(200, 200)}, path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"large.pt is truncated or damaged \(\d+ bytes: "):
        load_file(path)


@every_format
def test_a_byte_that_is_spoilt_is_no_other_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FORMATS[name](path)
    content, draws, reasons = path.read_bytes(), random.Random(0), []
    for _ in range(200):
        spoilt = bytearray(content)
        spoilt[draws.randrange(len(content))] = draws.randrange(256)
        path.write_bytes(spoilt)
        try:
            load_file(path)
        except ValueError as reason:
            reasons.append(str(reason))
    assert len(reasons) > 10
    # A name that is spoilt within an old file, which has no checksums, is another object's.
    assert all(re.search(rf"{name} (is truncated or damaged|holds Python objects)", reason) for reason in reasons)


def test_the_error_ends_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"w.pt is truncated or damaged \(0 bytes: .*\)\. Delete it$"):
        load_file(tmp_path / "w.pt", "Delete it")


def test_a_file_that_is_gone_and_one_that_is_a_folder_are_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"w.pt is gone: it was there when the series was opened"):
        load_file(tmp_path / "w.pt")
    (tmp_path / "folder.pt").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder.pt"):
        load_file(tmp_path / "folder.pt")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {"w": 3}}'])
def test_a_damaged_index_is_named(text: str, tmp_path: Path) -> None:
    for k in (1, 2):
        save_file({f"w{k}": torch.zeros(2)}, tmp_path / f"model-0000{k}-of-00002.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(ValueError, match=r"model.safetensors.index.json .*Restore it, or leave its step out"):
        files_of(tmp_path)


def test_an_index_that_names_a_shard_which_is_gone_is_named(tmp_path: Path) -> None:
    save_file({"w": torch.zeros(2)}, tmp_path / "model-00001-of-00002.safetensors")
    index = '{"weight_map": {"w": "model-00001-of-00002.safetensors", "v": "model-00002-of-00002.safetensors"}}'
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(FileNotFoundError, match=r"index.json names model-00002-of-00002.safetensors, which is not"):
        files_of(tmp_path)


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float64])
def test_real_numbers_of_every_type_are_read_and_asked_whether_they_are_finite(
    kind: torch.dtype, ending: str, tmp_path: Path
) -> None:
    weights = {"good": torch.tensor([0.5, -2.0]).to(kind), "bad": torch.tensor([1.0, torch.nan]).to(kind)}
    path = tmp_path / f"model_1.{ending}"
    save_file(weights, path) if ending == "safetensors" else torch.save(weights, path)
    state = read([path]).weights
    assert state["good"].float().tolist() == [0.5, -2.0]
    assert not_finite(state) == ("bad",)


@pytest.mark.parametrize(
    ("weight", "form"),
    [
        (torch.zeros(4, device="meta"), "without its numbers, on torch's meta device: save it from where it has them"),
        (torch.eye(3).to_sparse(), "as a sparse_coo tensor: take `weight.to_dense()`"),
    ],
    ids=["meta", "sparse"],
)
def test_what_nothing_can_be_computed_with_is_refused_in_a_line(weight: Tensor, form: str, tmp_path: Path) -> None:
    torch.save({"W": weight}, tmp_path / "model_1.pt")
    with pytest.raises(ValueError, match=r"model_1\.pt holds W ") as refused:
        read([tmp_path / "model_1.pt"])
    assert form in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(not hasattr(torch, "float4_e2m1fn_x2"), reason="torch has these numbers from version 2.8 on")
def test_two_numbers_a_byte_are_refused_in_a_line(tmp_path: Path) -> None:
    packed = torch.zeros(2, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    test_what_nothing_can_be_computed_with_is_refused_in_a_line(packed, "two numbers a byte: convert it", tmp_path)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
def test_a_folder_in_the_place_of_a_file_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(IsADirectoryError, match=name):
        read([tmp_path / name])


def bomb(path: Path) -> None:
    torch.save({"w": torch.zeros(10**6)}, path.with_suffix(".plain"))
    with (
        zipfile.ZipFile(path.with_suffix(".plain")) as plain,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for record in plain.infolist():
            packed.writestr(record.filename, plain.read(record))


def hollow(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**42)


@pytest.mark.parametrize("name", ["step-1.pt", "step-1.safetensors"])
@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (bomb, r"is truncated or damaged \(\d+ bytes: its \d+ bytes would unpack to \d+"),
        (hollow, "is hollow: only 0 of its 4398046511104 bytes are on the disk"),
        (lambda path: torch.save({"w": torch.zeros(1).expand(10**6, 10**6)}, path), "holds tensors that repeat what"),
        (
            lambda path: torch.save([{"x": {"w": torch.zeros(1, 1).expand(10**9, 10**5)}}], path),
            "holds tensors that repeat what its .* would take 4000000000",
        ),
    ],
    ids=["zip bomb", "sparse", "repeated", "repeated deep inside"],
)
def test_what_would_fill_the_memory_is_named_and_not_read(
    make: Callable[[Path], None], fault: str, name: str, tmp_path: Path
) -> None:
    if name.endswith(".safetensors") and make is not hollow:
        pytest.skip("a form of torch.save")
    make(tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} {fault}"):
        load_file(tmp_path / name)
    if make is hollow:
        with pytest.raises(ValueError, match=f"{name} {fault}"):
            file_digest([tmp_path / name])


@pytest.mark.parametrize("name", ["../other/model.safetensors", "/etc/passwd", "", "..", "a/b"])
def test_an_index_that_points_out_of_its_folder_is_named_and_nothing_read(name: str, tmp_path: Path) -> None:
    save_file({"w": torch.zeros(1)}, tmp_path / "model-00001-of-00001.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(ValueError, match=r"index.json names '.*', which is no file beside it: it was not read"):
        files_of(tmp_path)


def test_a_step_of_hundreds_of_digits_is_none(tmp_path: Path) -> None:
    torch.save({"model": {"w": torch.zeros(1)}, "step": 10**600}, tmp_path / "a.pt")
    assert read([tmp_path / "a.pt"]).step is None


@pytest.mark.parametrize("key", ["ema", "current_model_state", "averaged"])
def test_other_weights_of_the_same_shapes_in_the_file_are_named(key: str, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    averaged = torch.optim.swa_utils.AveragedModel(model).module.state_dict()
    torch.save({"model": model.state_dict(), key: averaged}, tmp_path / "step-3.pt")
    with pytest.warns(UserWarning, match=rf"left aside beside the weights: {key} \(other weights of the same shapes\)"):
        assert read([tmp_path / "step-3.pt"]).aside == (f"{key} (other weights of the same shapes)",)


def test_averages_that_are_a_list_of_tensors_are_named(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    shadow = {"decay": 0.9, "shadow_params": [one.detach().clone() for one in model.parameters()]}
    torch.save({"model": model.state_dict(), "ema": shadow}, tmp_path / "step-3.pt")
    with pytest.warns(UserWarning, match="ema"):
        assert read([tmp_path / "step-3.pt"]).aside == ("ema (other weights of the same shapes)",)


def test_an_optimisers_state_and_a_tensor_of_another_shape_are_no_other_weights(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    beside = {"optimizer": optimizer.state_dict(), "rng": [torch.zeros(5)], "step": 3}
    torch.save({"model": model.state_dict(), **beside}, tmp_path / "step-3.pt")
    assert read([tmp_path / "step-3.pt"]).aside == ()


def save_a_part(path: Path) -> None:
    """Save a weight that a process of FSDP2 has a part of."""
    tensor = pytest.importorskip("torch.distributed.tensor")
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}.store", rank=0, world_size=1)
    part = tensor.distribute_tensor(torch.randn(4, 3), tensor.init_device_mesh("cpu", (1,)), [tensor.Shard(0)])
    torch.save({"model": {"weight": part, "bias": torch.zeros(3)}}, path)
    torch.distributed.destroy_process_group()


def test_parts_of_processes_by_fsdp2_are_refused_with_what_saves_their_whole(tmp_path: Path) -> None:
    save_a_part(tmp_path / "step-3.pt")
    with pytest.raises(ValueError, match=r"DTensor.*full_state_dict=True"):
        read([tmp_path / "step-3.pt"])


@pytest.mark.slow
def test_where_nothing_imported_their_class_they_are_refused_too(tmp_path: Path) -> None:
    save_a_part(path := tmp_path / "step-3.pt")
    reading = (
        "import sys, pathlib; from stagewise.checkpoints._weight_files import read; read([pathlib.Path(sys.argv[1])])"
    )
    done = subprocess.run([sys.executable, "-c", reading, str(path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "DTensor" in done.stderr.splitlines()[-1]
    assert "full_state_dict=True" in done.stderr.splitlines()[-1]
