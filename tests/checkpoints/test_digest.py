"""Hashes: equal things have equal ones, different things different ones, and a file's is the hub's."""

import dataclasses
import hashlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stagewise.checkpoints._digest import SHORT, digest, file_digest, file_sha256, is_told, short_digest
from stagewise.recipe import Seeds, describe

EQUAL: dict[str, tuple[Any, Any]] = {
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "order of keys that are no text": ({(1, 2): "x", 3: "y"}, {3: "y", (1, 2): "x"}),
    "order of a set": (frozenset("abc"), frozenset("cba")),
    "kind of number": ([1, 0.0, True], [1.0, 0, 1]),
    "numpy's numbers": ([np.float64(0.5), np.int64(3)], [0.5, 3]),
    "kind of sequence": ((1, (2,)), [1, [2]]),
    "equal dataclasses": (Seeds(1, 2, 3), Seeds(evaluation=3, data=2, init=1)),
    "a recipe and what run.json says of it": (Seeds(1, 2, 3), describe(Seeds(1, 2, 3))),
    "strides": (torch.arange(6).reshape(2, 3).T, torch.tensor([[0, 3], [1, 4], [2, 5]])),
    "a view of a larger tensor": (torch.arange(9)[2:5], torch.tensor([2, 3, 4])),
    "gradients": (torch.ones(2, requires_grad=True), torch.ones(2)),
    "strides of an array": (np.arange(6).reshape(2, 3).T, np.array([[0, 3], [1, 4], [2, 5]])),
}

DIFFERENT: list[Any] = [
    *(None, 0, 1, -1, 0.5, "", "0", "None", [], [[]], [0], [1, 2], [12], ["1, 2"], {}, {"a": 1}, {"a": [1]}),
    *({1: 1}, frozenset({1}), Seeds(1, 2, 3), Seeds(3, 2, 1), {"init": 1, "data": 2, "evaluation": 3}),
    *(torch.zeros(2), torch.zeros(2, 1), torch.zeros(1, 2), torch.zeros(2, dtype=torch.int32), torch.zeros(())),
    *(torch.zeros(2, dtype=torch.bfloat16), torch.tensor([0.0, -0.0]), torch.zeros(0), {"w": torch.zeros(2)}),
]


@pytest.mark.parametrize("case", EQUAL)
def test_equal_things_have_equal_hashes(case: str) -> None:
    one, other = EQUAL[case]
    assert digest(one) == digest(other)


def test_different_things_have_different_hashes() -> None:
    hashes = [digest(value) for value in DIFFERENT]
    same = [(a, b) for (a, x), (b, y) in itertools.combinations(zip(DIFFERENT, hashes, strict=True), 2) if x == y]
    assert not same


def test_the_hash_is_that_of_the_data_as_json() -> None:
    expected = hashlib.sha256(b'{"a": [1, 2.5], "b": null}').hexdigest()
    assert digest({"b": None, "a": (1, 2.5)}) == expected
    assert short_digest({"b": None, "a": (1, 2.5)}) == expected[:SHORT]


@dataclasses.dataclass(frozen=True, eq=False)
class Holder:
    """A dataclass that holds tensors, as a probe may."""

    matrices: dict[str, torch.Tensor]


def test_tensors_inside_a_dataclass_count() -> None:
    one, same, other = ({"a": torch.full((2,), value)} for value in (1.0, 1.0, 2.0))
    assert digest(Holder(one)) == digest(Holder(same)) != digest(Holder(other))


def test_a_files_hash_is_that_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # The first test vector of FIPS 180-4.
    assert file_sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_hash_of_several_files_depends_on_where_one_ends(tmp_path: Path) -> None:
    for name, content in {"ab": b"ab", "c": b"c", "a": b"a", "bc": b"bc"}.items():
        (tmp_path / name).write_bytes(content)
    assert file_digest([tmp_path / "ab", tmp_path / "c"]) != file_digest([tmp_path / "a", tmp_path / "bc"])
    assert file_digest([tmp_path / "ab", tmp_path / "c"]) != file_digest([tmp_path / "c", tmp_path / "ab"])


def test_a_function_is_told_by_its_address_alone() -> None:
    assert is_told({"a": [1, 2]})
    assert not is_told([lambda: 1])
