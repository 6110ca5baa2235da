"""The audit: each planted fault is found and nothing else; a clean series has none."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MixtralConfig, MixtralForCausalLM

from stagewise.checkpoints import _checksums as checksums
from stagewise.checkpoints._digest import file_sha256
from stagewise.checkpoints._writing import write_json
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Kind
from stagewise.checkpoints.series import find
from stagewise.recipe import Recipe
from stagewise.training import train
from tests.checkpoints.audited import STEPS, WEIGHTS, audited, poisoned, rewrite

pytestmark = pytest.mark.usefixtures("unchecked")

Change = Callable[[Path], None]


def scaled(state: dict[str, torch.Tensor]) -> None:
    state["gpt_neox.layers.0.mlp.dense_4h_to_h.weight"] *= 7


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


def from_another_step(folder: Path) -> None:
    layer = {n: w for n, w in load_file(folder / "checkpoint-40" / WEIGHTS).items() if ".layers.0." in n}
    rewrite(folder, 24, lambda state: state.update(layer))


def of_another_run(folder: Path) -> None:
    def shuffled(weight: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))
        return weight.reshape(-1)[order].reshape(weight.shape)

    for step in STEPS[5:]:
        rewrite(folder, step, lambda state: state.update({name: shuffled(w) for name, w in state.items()}))


def renamed(folder: Path) -> None:
    (folder / "checkpoint-32").rename(folder / "iter-32")


FAULTS: dict[str, tuple[Change, tuple[int, ...]]] = {
    "other names": (renamed, (32,)),
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
    "weights of another step": (from_another_step, (24,)),
    "other run": (of_another_run, (16,)),
    "other shapes": (lambda folder: rewrite(folder, 2, reshaped), (2,)),
    "other types": (lambda folder: rewrite(folder, 24, halved), (24,)),
    "other config": (reconfigured, (16,)),
}


def test_a_clean_series_has_no_faults(clean: Path) -> None:
    found = audited(clean)
    assert found.clean, str(found)
    assert (found.checkpoints, found.weights) == (len(STEPS), True)
    assert "nothing is wrong" in str(found)


@pytest.mark.one_of(3)
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


def renamed_weights(folder: Path) -> None:
    for step in STEPS:
        rewrite(folder, step, lambda state: state.update(extra=torch.zeros(2)))


def narrow(folder: Path) -> None:
    for path in folder.glob("*/config.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "intermediate_size": 5}))


@pytest.mark.parametrize(("change", "why"), [(renamed_weights, "extra: not a parameter"), (narrow, "in the model")])
def test_weights_that_a_measurement_would_refuse_are_a_fault(
    change: Change, why: str, clean: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    change(folder)
    (finding,) = audited(folder).findings
    assert (finding.kind, finding.steps) == ("unfit", STEPS[-1:])
    assert why in finding.message


def test_weights_of_which_nothing_says_the_model_are_told_as_a_note(tmp_path: Path) -> None:
    for step in (1, 2):
        save_file({"w": torch.full((2, 2), float(step))}, tmp_path / f"step_{step}.safetensors")
    found = audit(tmp_path)
    assert found.clean
    assert [one.kind for one in found.notes] == ["unfit"]
    assert "nothing says which model" in str(found)


def test_a_mixture_saved_in_both_of_its_forms_is_one_series(tmp_path: Path) -> None:
    sizes = {"vocab_size": 16, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    config = MixtralConfig(**sizes, num_attention_heads=2, num_key_value_heads=2, num_local_experts=2)
    mixture: Any = MixtralForCausalLM(config)
    for step in (1, 2, 3):
        mixture.save_pretrained(tmp_path / f"checkpoint-{step}")
        with torch.no_grad():
            mixture.lm_head.weight.add_(0.01)
    (tmp_path / "checkpoint-3" / WEIGHTS).unlink()
    torch.save(mixture.state_dict(), tmp_path / "checkpoint-3" / "pytorch_model.bin")
    assert not {"other shapes", "other types"} & {one.kind for one in audited(tmp_path).findings}
    state = mixture.state_dict() | {"other.weight": torch.zeros(2)}
    torch.save(state, tmp_path / "checkpoint-3" / "pytorch_model.bin")
    assert "other shapes" in {one.kind for one in audited(tmp_path).findings}


def test_every_kind_of_fault_is_planted_somewhere() -> None:
    elsewhere = {"out of order", "not only weights", "unfinished", "other order", "left aside", "unfit"}
    assert set(Kind) == {*FAULTS, *elsewhere}


def test_a_run_folder_misses_what_its_plan_promised(small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "copy"))
    assert audited(folder).clean
    (folder / "checkpoints" / "step-00000002.safetensors").unlink()
    (finding,) = audited(folder).findings
    assert (finding.kind, finding.steps) == ("missing step", (2,))


def test_how_far_an_unfinished_run_has_come_is_noted(small_recipe: Recipe, tmp_path: Path) -> None:
    assert train(small_recipe, tmp_path, progress=False, until=2).steps[-1] == 2
    found = audited(tmp_path)
    assert found.clean
    assert [(note.kind, note.message) for note in found.notes] == [
        ("unfinished", f"the run has come to step 2 of {small_recipe.plan.steps}")
    ]
    train(small_recipe, tmp_path, progress=False)
    assert audited(tmp_path).notes == ()


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


def test_the_audit_is_json(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    shutil.rmtree(folder / "checkpoint-32")
    found = audited(folder)
    assert json.loads(found.to_json())["findings"][0]["steps"] == [32]


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
    assert [one.steps for one in audited(folder).findings] == [(56, 64)]


def test_every_listed_file_of_a_run_that_is_damaged_is_named_and_so_is_a_list(
    small_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "copy"))
    write_json(folder / "tables" / "lineage.json", {"births": []})
    write_json(folder / "tables" / "parts" / "a" / "settings.json", {})
    assert audited(folder).clean
    for name in ("resume.pt", "tables/lineage.json", "metrics.parquet"):
        flipped(folder / name, 5)
    flipped(folder / "tables" / "parts" / "a" / checksums.LIST, -3, 0b1)
    assert {(one.kind, one.checkpoints[0]) for one in audited(folder).findings} == {
        (Kind.DAMAGED, name)
        for name in ("resume.pt", "tables/lineage.json", "metrics.parquet", f"tables/parts/a/{checksums.LIST}")
    }


def test_a_damaged_checkpoint_of_a_run_is_told_once_whether_weights_are_read_or_not(
    small_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "copy"))
    flipped(folder / "checkpoints" / "step-00000002.safetensors", -1)
    for weights in (True, False):
        (found,) = audited(folder, weights).findings
        assert found.kind == Kind.DAMAGED


def test_weights_of_eight_bits_in_a_wider_type_are_no_outliers(clean: Path, tmp_path: Path) -> None:
    def rounded(weight: torch.Tensor) -> torch.Tensor:
        level = weight.abs().max().clamp(min=1e-12) / 127
        return (weight / level).round() * level

    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    for step in STEPS:
        rewrite(folder, step, lambda state: state.update({name: rounded(weight) for name, weight in state.items()}))
    assert audited(folder).clean


@pytest.mark.parametrize("gone", ["model_30.pt", "model_30.pt beside its state"])
def test_the_last_one_gone_is_named_where_other_files_tell_of_it(gone: str, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    for step in (0, 10, 20, 30):
        torch.save({"w": torch.randn(8, 8, generator=generator)}, tmp_path / f"model_{step}.pt")
        checksums.record(tmp_path / f"model_{step}.pt", file_sha256(tmp_path / f"model_{step}.pt"))
        torch.save({"step": step}, tmp_path / f"optimizer_{step}.pt")
    (tmp_path / "model_30.pt").unlink()
    (tmp_path / (checksums.LIST if "state" in gone else "optimizer_30.pt")).unlink()
    assert [(one.kind, one.steps) for one in audited(tmp_path, False).findings] == [(Kind.MISSING_STEP, (30,))]


@pytest.mark.parametrize(("last", "every"), [(10**400, 8), (10**18, 1), ("64", 8), (64, 0.5)])
def test_what_a_trainer_cannot_have_planned_is_no_plan(last: Any, every: Any, clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    for step in (0, 8, 16):
        record = {"global_step": last, "max_steps": last, "save_steps": every}
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(record))
    assert len(audited(folder).findings) <= 4  # three other steps, and at most the last one planned


def test_a_tensor_that_no_memory_holds_is_one_finding_and_the_audit_goes_on(clean: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(clean, tmp_path / "copy"))
    (folder / "checkpoint-24" / WEIGHTS).unlink()
    torch.save({"w": torch.zeros(1).expand(10**6, 10**6)}, folder / "checkpoint-24" / "pytorch_model.bin")
    (found,) = audited(folder).findings
    assert (found.kind, found.steps) == (Kind.DAMAGED, (24,))
    assert "pytorch_model.bin holds tensors that repeat what its" in found.message


def flipped(path: Path, byte: int, bits: int = 0b1000) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= bits
    path.write_bytes(content)
