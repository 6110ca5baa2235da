"""Pickles: what would run code is called so, nothing is run, checksums are compared; files are made by the tools."""

import argparse
import copyreg
import os
import pickle
from pathlib import Path

import pytest
import torch

from stagewise.checkpoints.pickles import foreign_names, refusal, spoilt_record


class Runs:
    """What a hostile file holds."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("way", ["zip", "old", "plain", "nested"])
def test_a_hostile_file_is_called_so_and_not_run(way: str, tmp_path: Path) -> None:
    path, marker = tmp_path / "w.pt", tmp_path / "ran"
    if way == "plain":
        path.write_bytes(pickle.dumps(Runs(marker)))
    else:
        held = {"w": torch.zeros(2), "x": Runs(marker)}
        held = {"state_dict": held} if way == "nested" else held
        torch.save(held, path, _use_new_zipfile_serialization=way != "old")
    assert foreign_names(path) == ["posix.system"]
    why = refusal(path)
    assert why is not None
    assert "is hostile, no checkpoint: loading it as a pickle would call posix.system" in why
    assert not marker.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_names_of_one_module_are_told_apart_in_every_protocol(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dask, where another test has imported it, has every exception pickled in a way of its own.
    monkeypatch.delitem(copyreg.dispatch_table, argparse.ArgumentTypeError, raising=False)
    held = [argparse.Namespace(rate=1), argparse.ArgumentTypeError("bad"), argparse.Namespace(rate=2)]
    (tmp_path / "w.pkl").write_bytes(pickle.dumps(held, protocol))
    names = foreign_names(tmp_path / "w.pkl")
    assert {"argparse.Namespace", "argparse.ArgumentTypeError"} == {*names} - {"copy_reg._reconstructor"}
    (tmp_path / "w.pkl").write_bytes(pickle.dumps(held, protocol)[:-4])  # what is damaged is named up to there
    assert "argparse.ArgumentTypeError" in foreign_names(tmp_path / "w.pkl")


def test_objects_that_run_nothing_are_named_with_what_to_do(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(2, 2), tmp_path / "w.pt")
    why = refusal(tmp_path / "w.pt")
    assert why is not None
    assert "holds Python objects beside or instead of weights (torch.nn.modules.linear.Linear)" in why
    assert "torch.save(model.state_dict(), path)" in why


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
def test_weights_alone_are_not_refused(dtype: torch.dtype, tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(model.parameters())
    held = {"w": torch.zeros(3).to(dtype), "p": torch.nn.Parameter(torch.ones(2)), "s": optimiser.state_dict()}
    for new in (True, False):
        torch.save(held, tmp_path / "w.pt", _use_new_zipfile_serialization=new)
        assert refusal(tmp_path / "w.pt") is None


def test_settings_beside_weights_are_named_alone(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(2), "args": argparse.Namespace(rate=1)}, tmp_path / "w.pt")
    assert foreign_names(tmp_path / "w.pt") == ["argparse.Namespace"]


def test_a_record_whose_bytes_changed_is_found(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    torch.save({"w": torch.full((100,), 1.5)}, path)
    assert spoilt_record(path) is None
    content = path.read_bytes()
    at = content.index(torch.full((100,), 1.5).numpy().tobytes())
    path.write_bytes(content[: at + 7] + b"\x01" + content[at + 8 :])
    record = spoilt_record(path)
    assert record is not None
    assert record.endswith("data/0")


def test_an_archive_without_checksums_is_not_called_damaged(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"w": torch.randn(9)}, tmp_path / "w.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert spoilt_record(tmp_path / "w.pt") is None
