"""Folders of checkpoints: which files and folders in them are of the series."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.multiprocessing.spawn import start_processes

from stagewise import models as model
from stagewise.checkpoints._folders import in_folder
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find, open_series
from tests.checkpoints.test_sources import CONFIG, native, put


@pytest.mark.each_value
@pytest.mark.parametrize("ending", ["safetensors", "pt", "pth"])
@pytest.mark.parametrize("wrapper", [None, "model", "state_dict"])
def test_a_folder_of_weight_files_is_a_series(ending: str, wrapper: str | None, tmp_path: Path) -> None:
    for step in (0, 30, 200):
        state = model.weights(native(step))
        path = tmp_path / f"model_{step}.{ending}"
        if ending == "safetensors":
            save_file(state, path)
        else:
            torch.save(state if wrapper is None else {wrapper: state, "step": step}, path)
    series = open_series(tmp_path, architecture=CONFIG)
    assert series.steps == (0, 30, 200)
    assert all(torch.equal(series.weights(30)[name], weight) for name, weight in model.weights(native(30)).items())
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert open_series(tmp_path).architecture == series.architecture


def test_a_folder_a_step_may_have_a_file_of_any_name_and_the_config_beside_the_folders(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for step in (0, 30):
        put(tmp_path / f"step_{step}", {})
        torch.save(model.weights(native(step)), tmp_path / f"step_{step}" / "net.pt")
        torch.save({"state": {}}, tmp_path / f"step_{step}" / "optimizer.pt")
    series = open_series(tmp_path)
    assert series.steps == (0, 30)
    assert torch.equal(series.weights(30)["embed.W_E"], model.weights(native(30))["embed.W_E"])


def test_an_optimisers_state_beside_the_weights_is_no_checkpoint(tmp_path: Path) -> None:
    for step in (0, 30):
        torch.save(model.weights(native(step)), tmp_path / f"model_{step}.pt")
        for name in ("optim", "optimizer", "lr_scheduler", "rng"):
            torch.save({"state": {}}, tmp_path / f"{name}_{step}.pt")
    assert open_series(tmp_path, architecture=CONFIG).steps == (0, 30)


def test_copies_beside_the_checkpoints_are_none_of_the_series(tmp_path: Path) -> None:
    for name in ("epoch=0-step=20", "epoch=1-step=40", "last-v1", "best_40"):
        torch.save({"state_dict": model.weights(native(0))}, tmp_path / f"{name}.ckpt")
    source = find(tmp_path)
    assert [entry.at.step for entry in source.entries] == [20, 40]
    assert source.ignored == ("best_40.ckpt", "last-v1.ckpt")


@pytest.mark.parametrize("names", [["best_20", "best_40"], ["step=20-loss=0.5", "step=40-loss=0.25"]])
def test_names_of_another_kind_count_where_there_are_no_others(names: list[str], tmp_path: Path) -> None:
    for name in names:
        torch.save(model.weights(native(0)), tmp_path / f"{name}.pt")
    assert open_series(tmp_path, architecture=CONFIG).steps == (20, 40)


@pytest.mark.hooked_only("a native model in a module has other names")
def test_folders_that_accelerate_numbers_by_its_saves_are_told_and_a_second_model_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    project = accelerate.utils.ProjectConfiguration(project_dir=str(tmp_path), automatic_checkpoint_naming=True)
    accelerator = accelerate.Accelerator(cpu=True, project_config=project)
    trained, beside = accelerator.prepare(native(0), torch.nn.Linear(2, 2))
    for _ in range(3):
        accelerator.save_state()
    series = open_series(tmp_path / "checkpoints", architecture=CONFIG)
    told = capsys.readouterr().err
    assert "checkpoint_1 -> step 1, read from `checkpoint_1`, which counts accelerate's saves, not updates" in told
    with pytest.warns(UserWarning, match=r"left aside beside the weights: model_1\.safetensors"):
        weights = series.weights(1)
    assert weights["unembed.W_U"].equal(trained.state_dict()["unembed.W_U"])
    assert beside is not None


def save_a_part(rank: int, folder: str) -> None:
    """Save half of a weight, as each process of a sharded training does."""
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}.store", rank=rank, world_size=2)
    weight = distribute_tensor(torch.arange(12.0).reshape(4, 3), init_device_mesh("cpu", (2,)), [Shard(0)])
    save({"w": weight}, storage_writer=HuggingFaceStorageWriter(path=folder, save_distributed=True))
    torch.distributed.destroy_process_group()


def test_parts_of_several_processes_are_not_taken_for_the_whole_until_they_are_joined(tmp_path: Path) -> None:
    name, why = "torch.distributed.checkpoint._consolidate_hf_safetensors", "torch joins parts from version 2.8 on"
    consolidate_safetensors_files = pytest.importorskip(name, reason=why).consolidate_safetensors_files
    parts, joined = tmp_path / "parts" / "step-1", tmp_path / "joined" / "step-1"
    for folder in (parts, joined):
        folder.mkdir(parents=True)
    start_processes(save_a_part, (str(parts),), nprocs=2, start_method="fork")
    with pytest.raises(ValueError, match=r"holds w, which another file of .* holds too: .* `consolidate_safetensors"):
        open_series(parts.parent, architecture=CONFIG).weights(1)
    consolidate_safetensors_files(str(parts), str(joined), {"w": 1})
    whole = open_series(joined.parent, architecture=CONFIG).weights(1)
    assert whole["w"].equal(torch.arange(12.0).reshape(4, 3))


def test_a_folder_of_orbax_s_manager_is_called_by_its_tool(tmp_path: Path) -> None:
    orbax = pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")
    with orbax.CheckpointManager(tmp_path.resolve()) as manager:
        for step in (10, 20):
            manager.save(step, args=orbax.args.StandardSave({"w": np.ones((4, 4))}))
        manager.wait_until_finished()
    with pytest.raises(FileNotFoundError, match="holds weights of orbax: restore it"):
        in_folder(tmp_path)


@pytest.mark.parametrize("ending", ["-last", "-final", "_best", ".last"])
@pytest.mark.parametrize("twin", [True, False])
def test_a_name_that_ends_as_the_last_or_the_best_one_counts_by_its_step(
    ending: str, twin: bool, tmp_path: Path
) -> None:
    for name in ("model_step10", "model_step20", f"model_step30{ending}", *(["model_step30"] if twin else [])):
        torch.save(model.weights(native(len(name))), tmp_path / f"{name}.pt")
    source = in_folder(tmp_path)
    assert [entry.at.step for entry in source.entries] == [10, 20, 30]
    assert source.ignored == ((f"model_step30{ending}.pt",) if twin else ())
    assert audit(source, weights=False, architecture=CONFIG).clean


@pytest.mark.parametrize("name", ["last-v1.ckpt", "tmp-step40.pt", "step40-ema.pt", "best.pt", "final_2.pt"])
def test_copies_without_a_step_and_other_weights_of_one_are_none_of_the_series(name: str, tmp_path: Path) -> None:
    for each in ("step10.pt", "step20.pt", name):
        torch.save(model.weights(native(len(each))), tmp_path / each)
    assert [entry.at.step for entry in in_folder(tmp_path).entries] == [10, 20]


@pytest.mark.parametrize(
    ("marker", "text"),
    [("latest_checkpointed_iteration.txt", "30\n"), ("latest", "global_step30"), ("last_checkpoint", "model_30.pth")],
)
@pytest.mark.parametrize("last", [20, 30])
def test_a_marker_that_names_a_later_step_is_told_and_no_checkpoint(
    marker: str, text: str, last: int, tmp_path: Path
) -> None:
    for step in (0, 10, last):
        torch.save(model.weights(native(step)), tmp_path / f"model_{step}.pt")
    (tmp_path / marker).write_text(text)
    findings = audit(find(tmp_path), weights=False, architecture=CONFIG).findings
    told = [one.message for one in findings]
    assert told == ([] if last == 30 else [f"step 30 is missing: {marker} tells of it"])


SCHEDULES = {
    "doubling": [0, *(2**k for k in range(10))],
    "paired": [step + more for step in (16, 32, 64, 128) for more in (0, 1)],
    "even": [*range(0, 1100, 100)],
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_misses_nothing(name: str, tmp_path: Path) -> None:
    for step in SCHEDULES[name]:
        torch.save(model.weights(native(step)), tmp_path / f"step_{step}.pt")
    assert audit(find(tmp_path), weights=False, architecture=CONFIG).clean


def test_a_gap_is_one_line_with_both_ends(tmp_path: Path) -> None:
    for step in {*range(100, 2100, 100)} - {500, 600, 700, 1500}:
        torch.save(model.weights(native(step)), tmp_path / f"step_{step}.pt")
    findings = audit(find(tmp_path), weights=False, architecture=CONFIG).findings
    assert [one.message for one in findings] == ["3 steps from 500 to 700 are missing", "step 1500 is missing"]


@pytest.mark.parametrize("recorded", [400, 300, None])
def test_a_final_model_above_the_checkpoints_is_the_last_step_where_the_trainer_says_a_later_one(
    recorded: int | None, clean: Path, tmp_path: Path
) -> None:
    first, last = sorted(clean.iterdir())[:2]
    for step in (100, 200, 300):
        shutil.copytree(first, tmp_path / f"checkpoint-{step}", ignore=shutil.ignore_patterns("trainer_state.json"))
    shutil.copy(last / "model.safetensors", tmp_path)
    if recorded is not None:
        (tmp_path / "trainer_state.json").write_text(json.dumps({"global_step": recorded, "log_history": []}))
    series = open_series(tmp_path)
    later = recorded == 400
    assert series.steps == ((100, 200, 300, 400) if later else (100, 200, 300))
    assert series.source is not None
    expected = (
        "step 400, which trainer_state.json beside it says" if later else "left out: no number in it counts updates"
    )
    assert series.source.names == (f"model.safetensors -> {expected}",)
    if later:
        whole = open_series(last.parent, steps=[int(last.name.removeprefix("checkpoint-"))])
        (step,) = whole.steps
        assert all(torch.equal(series.weights(400)[name], held) for name, held in whole.weights(step).items())
