"""The audit of files as they may be: in shards, in half precision, damaged, hostile, or none."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.findings import Kind
from tests.checkpoints.audited import STEPS, WEIGHTS, audited, poisoned, rewrite

pytestmark = pytest.mark.usefixtures("unchecked")


def test_shards_are_audited_one_by_one(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    for step in STEPS:
        state = load_file(folder / f"checkpoint-{step}" / WEIGHTS)
        halves = [dict(list(state.items())[k::2]) for k in (0, 1)]
        names = [f"model-0000{k}-of-00002.safetensors" for k in (1, 2)]
        for name, half in zip(names, halves, strict=True):
            save_file(half, folder / f"checkpoint-{step}" / name)
        index = {"weight_map": {key: name for name, half in zip(names, halves, strict=True) for key in half}}
        (folder / f"checkpoint-{step}" / "model.safetensors.index.json").write_text(json.dumps(index))
        (folder / f"checkpoint-{step}" / WEIGHTS).unlink()
    assert audited(folder).clean
    (folder / "checkpoint-8" / "model.safetensors.index.json").write_text("{")
    (folder / "checkpoint-16" / "model-00002-of-00002.safetensors").unlink()
    second = folder / "checkpoint-24" / "model-00002-of-00002.safetensors"
    state = load_file(second)
    next(iter(state.values())).view(-1)[0] = torch.inf
    save_file(state, second)
    assert {(finding.kind, finding.steps) for finding in audited(folder).findings} == {
        ("damaged", (8,)),
        ("no weights", (16,)),
        ("non-finite weights", (24,)),
    }


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_clean_throughout(dtype: torch.dtype, clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    for step in STEPS:
        rewrite(folder, step, lambda state: state.update({name: weight.to(dtype) for name, weight in state.items()}))
    assert audited(folder).clean


def test_a_config_that_one_checkpoint_lacks_is_found(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    (folder / "checkpoint-8" / "config.json").unlink()
    (finding,) = audited(folder).findings
    assert (finding.kind, finding.steps) == ("other config", (8,))


def test_a_damaged_config_says_nothing_of_the_weights(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    (folder / "checkpoint-40" / "config.json").write_text("[]")
    rewrite(folder, 40, poisoned)
    config, weights = audited(folder).findings
    assert (config.kind, weights.kind, weights.weights) == (
        Kind.DAMAGED,
        Kind.NON_FINITE_WEIGHTS,
        ("embed_out.weight",),
    )


@pytest.mark.hooked_only("the state dict of a native bridge holds no such buffers")
@pytest.mark.parametrize("position", ["standard", "rotary"])
def test_buffers_of_a_hooked_transformers_own_state_dict_are_no_weights(position: str, tmp_path: Path) -> None:
    extra = {"positional_embedding_type": position} | ({"rotary_dim": 4} if position == "rotary" else {})
    sizes = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu", **extra}
    for step in (0, 10, 20, 30):
        torch.save(models.build(Architecture(sizes), seed=step).state_dict(), tmp_path / f"model_{step}.pt")
    state = torch.load(tmp_path / "model_0.pt")
    assert state["blocks.0.attn.IGNORE"].isneginf()
    assert audited(tmp_path).clean


@pytest.mark.each_value
@pytest.mark.parametrize("text", ["[]", "3", '"text"', "{", "", "null"])
@pytest.mark.parametrize("name", ["config.json", "trainer_state.json"])
def test_a_record_of_the_wrong_type_is_listed_and_the_audit_goes_on(
    text: str, name: str, clean: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    (folder / "checkpoint-8" / name).write_text(text)
    rewrite(folder, 40, poisoned)
    found = audited(folder)
    assert {(one.kind, one.steps) for one in found.findings} == {(Kind.DAMAGED, (8,)), (Kind.NON_FINITE_WEIGHTS, (40,))}
    assert name in found.findings[0].message


def test_a_link_that_loops_is_listed_and_the_audit_goes_on(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    shutil.rmtree(folder / "checkpoint-16")
    (folder / "checkpoint-16").symlink_to(folder / "checkpoint-16")
    (folder / "checkpoint-24" / WEIGHTS).unlink()
    (folder / "checkpoint-24" / WEIGHTS).symlink_to(folder / "checkpoint-24" / WEIGHTS)
    assert {one.steps for one in audited(folder).findings} == {(16,), (24,)}


def test_a_step_that_no_table_can_hold_is_told_as_no_checkpoint(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    shutil.copytree(folder / "checkpoint-8", folder / "checkpoint-100000000000000000000")
    found = audited(folder)
    assert found.clean
    assert "not taken for checkpoints: checkpoint-100000000000000000000" in str(found)


def test_a_hostile_file_is_named_and_the_audit_goes_on(tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    for step in range(5):
        torch.save(
            {"w": torch.randn(3, 3), "x": Runs()} if step == 2 else {"w": torch.full((3,), float(step))},
            tmp_path / f"m{step}.pt",
        )
    (found,) = audited(tmp_path).findings
    assert (found.kind, found.steps) == (Kind.NOT_ONLY_WEIGHTS, (2,))
    assert "is hostile" in found.message
    assert "weights_only" not in found.message
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_file_that_is_cut_or_changed_anywhere_is_named_and_the_audit_goes_on(ending: str, tmp_path: Path) -> None:
    draws = random.Random(0)
    state = {f"blocks.{k}.W": torch.randn(40, 40) for k in range(4)}
    for step in range(60):
        path = tmp_path / f"m{step}.{ending}"
        save_file(state, path) if ending == "safetensors" else torch.save(state, path)
    for step in range(1, 60):
        path = tmp_path / f"m{step}.{ending}"
        content = bytearray(path.read_bytes())
        if step % 2 or ending == "safetensors":  # which has no checksum
            del content[draws.randrange(len(content)) :]
        else:
            content[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
        path.write_bytes(content)
    found = audited(tmp_path)
    harmless = {step for step in range(2, 60, 2) if ending == "pt" and same(state, tmp_path / f"m{step}.pt")}
    damaged = {one.steps[0] for one in found.findings if one.kind in (Kind.DAMAGED, Kind.NOT_ONLY_WEIGHTS)}
    assert damaged | harmless == {*range(1, 60)}


def same(state: dict[str, torch.Tensor], path: Path) -> bool:
    """Whether the bytes that were changed were padding: the weights are read as they were."""
    try:
        loaded = torch.load(path, weights_only=True)
    except Exception:
        return False
    return loaded.keys() == state.keys() and all(torch.equal(loaded[name], weight) for name, weight in state.items())
