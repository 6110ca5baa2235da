"""Pickles: what would run code is called so, nothing is run, checksums are compared; files are made by the tools."""

import argparse
import collections
import copyreg
import dataclasses
import enum
import functools
import os
import pathlib
import pickle
import random
import subprocess
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from stagewise.checkpoints._pickles import (
    NotOnlyWeightsError,
    Stub,
    _foreign_names,
    array_of,
    load_inertly,
    refusal,
    spoilt_record,
)


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
    assert _foreign_names(path) == ["posix.system"]
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
    names = _foreign_names(tmp_path / "w.pkl")
    assert {"argparse.Namespace", "argparse.ArgumentTypeError"} == {*names} - {"copy_reg._reconstructor"}
    (tmp_path / "w.pkl").write_bytes(pickle.dumps(held, protocol)[:-4])  # what is damaged is named up to there
    assert "argparse.ArgumentTypeError" in _foreign_names(tmp_path / "w.pkl")


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
    assert _foreign_names(tmp_path / "w.pt") == ["argparse.Namespace"]


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


class Mapping(dict[str, int]):
    """A mapping of one's own, as easydict's."""


class Row(list[int]):
    """A sequence of one's own."""


@dataclasses.dataclass
class Config:
    """A script's settings."""

    layers: int = 2


class Kind(enum.Enum):
    """A script's choice."""

    ONE = 1


BESIDE: dict[str, object] = {
    "NumPy's scalar": np.float64(0.5), "an array": np.arange(6.0).reshape(2, 3), "a Fortran array": np.ones((2, 3)).T,
    "NumPy's state": np.random.RandomState(0).get_state(), "a generator": np.random.default_rng(0),
    "Python's state": random.getstate(),
    "a defaultdict": collections.defaultdict(list, a=[1]), "a deque": collections.deque([1], maxlen=3),
    "a Namespace": argparse.Namespace(rate=1), "a SimpleNamespace": types.SimpleNamespace(rate=1),
    "a mapping": Mapping(a=1), "a sequence": Row([1]), "a dataclass": Config(), "an enum": Kind.ONE, "a set": {1, 2},
    "a frozenset": frozenset([1]), "a path": pathlib.PurePosixPath("a"), "a function": torch.nn.functional.relu,
    "a partial": functools.partial(torch.nn.functional.gelu, approximate="tanh"), "a type": int,
    "a dtype": np.dtype("f4"),
    "a module": torch.nn.Linear(2, 2), "a method": Row([1]).append, "a complex": 1j,
    "nested": [{"a": (Config(), Row())}],
}  # fmt: skip


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "old"])
@pytest.mark.parametrize("name", BESIDE)
def test_weights_are_read_whatever_lies_beside_them(name: str, zipped: bool, tmp_path: Path) -> None:
    weights = {"w": torch.arange(6.0).reshape(3, 2)}
    held = {"model": weights, "beside": BESIDE[name]}
    torch.save(held, tmp_path / "w.pt", _use_new_zipfile_serialization=zipped)
    if name == "a module" and not zipped:  # which names its class in the place of a tensor
        with pytest.raises(NotOnlyWeightsError, match=r"holds Python objects .*torch\.nn\.modules\.linear\.Linear"):
            load_inertly(tmp_path / "w.pt")
        return
    loaded = load_inertly(tmp_path / "w.pt")
    assert torch.equal(loaded["model"]["w"], weights["w"])


@pytest.mark.parametrize(
    "array", [np.float64(0.5), np.int8(-3), np.arange(6).reshape(2, 3), np.asfortranarray(np.eye(3)[:2])], ids=repr
)
def test_numbers_of_numpy_are_decoded_from_what_stands_for_them(array: object, tmp_path: Path) -> None:
    torch.save({"x": array}, tmp_path / "w.pt")
    decoded = array_of(load_inertly(tmp_path / "w.pt")["x"])
    assert decoded is not None
    np.testing.assert_array_equal(decoded, np.asarray(array))


def calls(marker: Path) -> dict[str, tuple[Callable[..., object], tuple[object, ...]]]:
    return {
        "a command": (os.system, (f"touch {marker}",)),
        "a process": (subprocess.call, ([f"touch {marker}"],)),
        "code": (exec, (f"open({str(marker)!r}, 'w')",)),
        "a file": (open, (str(marker), "w")),
        "a method of pathlib": (Path.touch, (marker,)),
        "torch's own loader": (torch.load, (str(marker),)),
        "bytes that torch loads": (torch.storage._load_from_bytes, (b"",)),
        "an import": (__import__, ("antigravity",)),
        "a partial of a command": (functools.partial, (os.system, f"touch {marker}")),
    }


class Call:
    """What a hostile file holds: any call."""

    def __init__(self, call: tuple[Callable[..., object], tuple[object, ...]]) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "old"])
@pytest.mark.parametrize("kind", calls(Path()))
def test_nothing_in_a_file_that_is_read_inertly_runs(kind: str, zipped: bool, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    held = {"model": {"w": torch.ones(2)}, "beside": Call(calls(marker)[kind])}
    torch.save(held, tmp_path / "w.pt", _use_new_zipfile_serialization=zipped)
    if kind == "bytes that torch loads":
        assert isinstance(load_inertly(tmp_path / "w.pt")["beside"], Stub)
    else:
        why = "holds Python objects" if kind == "a method of pathlib" else "is hostile"
        with pytest.raises(NotOnlyWeightsError, match=why):
            load_inertly(tmp_path / "w.pt")
    assert not marker.exists()
