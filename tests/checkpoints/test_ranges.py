"""The first rows of weights are read by ranges of a file's bytes, and no more of it than these."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from stagewise.checkpoints import _ranges
from stagewise.checkpoints._ranges import Fetch, first_rows, part_without_mlps, without_mlps

WEIGHTS = {
    "a.large": torch.arange(40.0 * 30).view(40, 30),
    "b.cube": torch.arange(20.0 * 4 * 5).view(20, 4, 5).to(torch.bfloat16),
    "c.bias": torch.arange(7.0),
    "d.scalar": torch.tensor(3.0),
    "e.none": torch.zeros(0, 4),
}


def counting(content: bytes) -> tuple[Fetch, Counter[str]]:
    read = Counter[str]()

    def fetch(start: int, stop: int) -> bytes:
        read["bytes"] += len(content[start:stop])
        return content[start:stop]

    return fetch, read


def fetched(content: bytes) -> tuple[dict[str, torch.Tensor], int]:
    fetch, read = counting(content)
    return dict(first_rows(fetch)), read["bytes"]


@pytest.mark.parametrize(("header", "near"), [(2**17, 2**18), (64, 0)])
def test_the_first_rows_are_those_of_the_weights(header: int, near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ENTRIES": 90, "HEADER": header, "NEAR": near}.items():
        monkeypatch.setattr(_ranges, name, value)
    content = save(WEIGHTS, metadata={"format": "pt"})
    rows, read = fetched(content)
    assert {name: row.shape for name, row in rows.items()} == {
        "a.large": (3, 30), "b.cube": (5, 4, 5), "c.bias": (7,), "d.scalar": (), "e.none": (0, 4)
    }  # fmt: skip
    for name, weight in WEIGHTS.items():
        assert rows[name].dtype == weight.dtype
        assert torch.equal(rows[name], weight[: len(rows[name])] if weight.ndim else weight)
    if near == 0:
        assert read < len(content) / 2


def test_of_mlps_no_byte_is_read_and_all_of_the_other_weights_is() -> None:
    weights = {"h.0.attn.W": torch.ones(300, 300), "h.0.mlp.W": torch.ones(900, 300), "ln.w": torch.ones(300)}
    fetch, read = counting(save(weights))
    found = without_mlps(fetch)
    assert {name: weight.shape for name, weight in found.items()} == {
        name: each.shape for name, each in weights.items()
    }
    assert not found["h.0.mlp.W"].any()
    assert all(torch.equal(found[name], weights[name]) for name in ("h.0.attn.W", "ln.w"))
    size = 4 * (300 * 300 + 300)
    assert size < read["bytes"] < size + _ranges.HEADER + _ranges.NEAR
    assert part_without_mlps(fetch) == pytest.approx(size / (size + 4 * 900 * 300))


@pytest.mark.parametrize("content", [b"", b"no file of weights at all", save(WEIGHTS)[:300]])
def test_what_is_no_such_file_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="it is no file of safetensors, or damaged"):
        fetched(content)
