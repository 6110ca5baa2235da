"""The audit: each planted fault is found and nothing else; a clean series has none."""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Audit, Kind
from stagewise.checkpoints.series import find

pytestmark = pytest.mark.usefixtures("unchecked")

STEPS = (0, 1, 2, 4, 8, 16, 24, 32, 40, 48)
WEIGHTS = "model.safetensors"
Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of a small GPT-NeoX that really trains, as transformers' Trainer would write them."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    folder = tmp_path_factory.mktemp("clean")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=12, max_position_embeddings=16, **sizes))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            model.save_pretrained(folder / f"checkpoint-{step}")
            state = {"global_step": step, "log_history": []}
            (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
        tokens = torch.randint(12, (8, 8)).repeat(1, 2)
        model(tokens, labels=tokens).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return folder


def rewrite(folder: Path, step: int | str, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = folder / f"checkpoint-{step}" / WEIGHTS
    state = load_file(path)
    change(state)
    save_file(state, path)


def scaled(state: dict[str, torch.Tensor]) -> None:
    state["gpt_neox.layers.0.mlp.dense_4h_to_h.weight"] *= 7


def poisoned(state: dict[str, torch.Tensor]) -> None:
    state["embed_out.weight"][3, 5] = torch.nan


def reshaped(state: dict[str, torch.Tensor]) -> None:
    state["embed_out.weight"] = state["embed_out.weight"][:6].clone()


def halved(state: dict[str, torch.Tensor]) -> None:
    state.update({name: weight.half() for name, weight in state.items()})


def reconfigured(folder: Path) -> None:
    path = folder / "checkpoint-16" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rope_theta": 5.0, "rotary_pct": 0.5}))


def renamed_record(folder: Path) -> None:
    (folder / "checkpoint-8" / "trainer_state.json").write_text(json.dumps({"global_step": 9}))


def cut_off(folder: Path) -> None:
    path = folder / "checkpoint-24" / WEIGHTS
    path.write_bytes(path.read_bytes()[:500])


def repeated(folder: Path) -> None:
    shutil.copytree(folder / "checkpoint-8", folder / "checkpoint-008")
    rewrite(folder, "008", scaled)


def copied(folder: Path) -> None:
    shutil.copy(folder / "checkpoint-8" / WEIGHTS, folder / "checkpoint-16" / WEIGHTS)


def exchanged(folder: Path) -> None:
    first, second, aside = (folder / name / WEIGHTS for name in ("checkpoint-24", "checkpoint-32", "."))
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def nearly_copied(folder: Path) -> None:
    state = load_file(folder / "checkpoint-16" / WEIGHTS)
    save_file({name: weight * (1 + 1e-7) for name, weight in state.items()}, folder / "checkpoint-24" / WEIGHTS)


def from_another_step(folder: Path) -> None:
    layer = {n: w for n, w in load_file(folder / "checkpoint-40" / WEIGHTS).items() if ".layers.0." in n}
    rewrite(folder, 24, lambda state: state.update(layer))


def of_another_run(folder: Path) -> None:
    def shuffled(weight: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))
        return weight.reshape(-1)[order].reshape(weight.shape)

    for step in STEPS[5:]:
        rewrite(folder, step, lambda state: state.update({name: shuffled(w) for name, w in state.items()}))


FAULTS: dict[str, tuple[Change, tuple[int, ...]]] = {
    "missing step": (lambda folder: shutil.rmtree(folder / "checkpoint-32"), (32,)),
    "repeated step": (
        repeated,
        (8,),
    ),
    "other step recorded": (renamed_record, (8,)),
    "identical weights": (
        copied,
        (8, 16),
    ),
    "no weights": (lambda folder: (folder / "checkpoint-4" / WEIGHTS).unlink(), (4,)),
    "damaged": (cut_off, (24,)),
    "non-finite weights": (lambda folder: rewrite(folder, 40, poisoned), (40,)),
    "outlying weights": (lambda folder: rewrite(folder, 32, scaled), (32,)),
    "exchanged steps": (exchanged, (24, 32)),
    "nearly identical weights": (nearly_copied, (24,)),
    "weights of another step": (from_another_step, (24,)),
    "other run": (of_another_run, (16,)),
    "other shapes": (lambda folder: rewrite(folder, 2, reshaped), (2,)),
    "other types": (lambda folder: rewrite(folder, 24, halved), (24,)),
    "other config": (reconfigured, (16,)),
}


def audited(folder: Path, weights: bool = True) -> Audit:
    return audit(find(folder), weights=weights)


def test_a_clean_series_has_no_faults(clean: Path) -> None:
    found = audited(clean)
    assert found.clean, str(found)
    assert (found.checkpoints, found.weights) == (len(STEPS), True)
    assert "nothing is wrong" in str(found)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else(kind: str, clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    change, steps = FAULTS[kind]
    change(folder)
    found = audited(folder)
    kinds = [finding.kind for finding in found.findings]
    # A repeated step is an outlier beside its twin, and a tensor cut in half has another norm too.
    also = {"repeated step": {"outlying weights"}, "other shapes": {"outlying weights"}}.get(kind, set())
    assert kind in kinds
    assert set(kinds) <= {kind} | also, str(found)
    assert next(finding for finding in found.findings if finding.kind == kind).steps == steps


def test_steps_out_of_order_are_found_in_a_list() -> None:
    states = [(step, {"w": torch.full((2, 2), 1.0 + step / 100)}) for step in (0, 10, 30, 20, 40)]
    (finding,) = audit(find(states)).findings
    assert (finding.kind, finding.steps) == ("out of order", (20,))


def test_every_kind_of_fault_is_planted_somewhere() -> None:
    elsewhere = {"out of order", "not only weights", "change of rate", "outlying function"}
    assert set(Kind) == {*FAULTS, *elsewhere}


def test_a_run_folder_misses_what_its_plan_promised(small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "copy"))
    assert audited(folder).clean
    (folder / "checkpoints" / "step-00000002.safetensors").unlink()
    (finding,) = audited(folder).findings
    assert (finding.kind, finding.steps) == ("missing step", (2,))


def test_the_hubs_hashes_find_identical_weights_without_downloading_any(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    files = {f"step{step}": saved("GPT2", seed) for seed, step in enumerate((0, 100, 200, 300))}
    files["step200"][WEIGHTS] = files["step100"][WEIGHTS]
    del files["step300"][WEIGHTS]
    files["step0"]["config.json"] = saved("GPT2", 0, n_head=2)["config.json"]
    hub = local_hub({"main": {}, **files})
    found = audit(find("owner/model", hub={"cache": tmp_path, "endpoint": hub.endpoint}), weights=False)
    assert {(finding.kind, finding.steps) for finding in found.findings} == {
        ("identical weights", (100, 200)),
        ("no weights", (300,)),
        ("other config", (0,)),
    }
    assert found.ignored == ("main",)
    assert not any(WEIGHTS in asked for asked in hub.asked)


def test_a_shard_that_the_hub_lacks_is_found_without_downloading_any(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    shards = {f"model-0000{k}-of-00003.safetensors": bytes([k]) for k in (1, 2, 3)}
    files = {
        f"step{step}": {
            "config.json": saved("GPT2", 0)["config.json"],
            "model.safetensors.index.json": b"{}",
            **{name: content + bytes([step]) for name, content in shards.items()},
        }
        for step in (0, 10, 20)
    }
    del files["step10"]["model-00002-of-00003.safetensors"]
    hub = local_hub(files)
    found = audit(find("owner/model", hub={"cache": tmp_path, "endpoint": hub.endpoint}), weights=False)
    assert [(finding.kind, finding.steps) for finding in found.findings] == [("no weights", (10,))]
    assert "has no model-00002-of-00003.safetensors, a shard of its weights" in found.findings[0].message


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


@pytest.mark.skipif(not models.has_hooked_transformer(), reason="its state dict holds no such buffers")
@pytest.mark.parametrize("position", ["standard", "rotary"])
def test_buffers_of_a_hooked_transformers_own_state_dict_are_no_weights(position: str, tmp_path: Path) -> None:
    extra = {"positional_embedding_type": position} | ({"rotary_dim": 4} if position == "rotary" else {})
    sizes = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu", **extra}
    for step in (0, 10, 20, 30):
        torch.save(models.build(Architecture(sizes), seed=step).state_dict(), tmp_path / f"model_{step}.pt")
    state = torch.load(tmp_path / "model_0.pt")
    assert state["blocks.0.attn.IGNORE"].isneginf()
    assert audited(tmp_path).clean


def test_the_audit_is_a_table_and_json(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    shutil.rmtree(folder / "checkpoint-32")
    found = audited(folder)
    assert found.table.to_dict("records") == [{"kind": "missing step", "steps": "32", "message": "step 32 is missing"}]
    assert json.loads(found.to_json())["findings"][0]["steps"] == [32]
    assert "<td>step 32 is missing</td>" in found._repr_html_()


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
            {"w": torch.randn(3, 3), "x": Runs()} if step == 2 else {"w": torch.ones(3)}, tmp_path / f"m{step}.pt"
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


def test_the_last_checkpoint_of_a_run_that_was_trained_beyond_it_is_missed(small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "copy"))
    last = max((folder / "checkpoints").glob("step-*"))
    last.unlink()
    (found,) = audited(folder).findings
    assert (found.kind, found.steps) == (Kind.MISSING_STEP, (int(last.stem.removeprefix("step-")),))
    assert "the run was trained beyond it" in found.message


def test_the_last_checkpoints_that_trainer_planned_are_missed(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    for step in STEPS:
        record = {"global_step": step, "max_steps": 64, "save_steps": 8}
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(record))
    (found,) = audited(folder).findings  # of a schedule that also saves others only the last one is known
    assert (found.kind, found.steps) == (Kind.MISSING_STEP, (64,))
    for step in (1, 2, 4):
        shutil.rmtree(folder / f"checkpoint-{step}")
    assert [one.steps for one in audited(folder).findings] == [(56,), (64,)]
