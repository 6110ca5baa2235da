"""Files of curves have a folder, and so stages and a report; a jump of the learning rate is a cause, no onset."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.openers import is_log
from stagewise.checkpoints.run_folder import TABLE, read_record
from stagewise.reporting._logged import _file_name, logged_folder, logged_folders
from stagewise.reporting.page import report
from stagewise.saved_findings import load_stages

STEPS = np.arange(0, 6000, 100)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An accuracy that rises at 1500, and a loss that falls where the learning rate drops."""
    generator = np.random.default_rng(0)
    dropped = STEPS >= 4000
    accuracy = 0.05 + 0.9 / (1 + np.exp(-(STEPS - 1500) / 100)) + 0.01 * generator.standard_normal(len(STEPS))
    loss = 2 - 0.5 * dropped + 0.01 * generator.standard_normal(len(STEPS))
    columns = {"step": STEPS, "accuracy": accuracy, "loss": loss, "learning_rate": np.where(dropped, 1e-4, 1e-3)}
    path = tmp_path / "mine.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_file_has_stages_and_a_report(log: Path, tmp_path: Path) -> None:
    [folder] = logged_folders(log, tmp_path / "out")
    stages = load_stages(folder)
    assert stages is not None
    onsets = stages.onsets.set_index("quantity")
    assert onsets.loc["accuracy", "verdict"] == "onset"
    assert list(onsets.loc["loss", ["verdict", "cause"]]) == ["coincides", "the learning rate's drop to 0.0001"]
    assert "learning_rate" not in onsets.index
    assert read_record(folder)["causes"] == {"the learning rate's drop to 0.0001": 3950}
    page = report(folder).read_text(encoding="utf8")
    assert "3 curves, logged from step 0 to step 5900" in page
    assert "accuracy rises" in page
    assert not any(words in page for words in ("Not measured", "is progress", "over the batch"))


def test_a_folder_of_another_file_is_not_written_over(log: Path, tmp_path: Path) -> None:
    [folder] = logged_folders(log, tmp_path / "out")
    assert logged_folders(log, folder) == [folder] == [tmp_path / "out"]
    other = tmp_path / "other.csv"
    other.write_text(log.read_text())
    with pytest.raises(ValueError, match=r"holds measurements of .*mine.csv, not of .*other.csv"):
        logged_folders(other, folder)


def test_each_run_of_a_file_has_a_folder(log: Path, tmp_path: Path) -> None:
    one = pd.read_csv(log)
    file = tmp_path / "seeds.csv"
    pd.concat([one.assign(run="small"), one.assign(run="large", learning_rate=1e-3)]).to_csv(file, index=False)
    folders = logged_folders(file, tmp_path / "out")
    assert folders == [tmp_path / "out" / "runs" / "small", tmp_path / "out" / "runs" / "large"]
    assert [len(read_record(folder)["causes"]) for folder in folders] == [1, 0]
    found = [load_stages(folder) for folder in folders]
    assert [stages.onsets["onset"].sum() for stages in found if stages is not None] == [1, 2]
    with pytest.raises(ValueError, match=r"seeds.csv holds several runs \(small, large\): `stagewise report "):
        logged_folder(file)


def test_the_folder_of_a_run_lies_in_that_of_its_file_whatever_its_name_is(log: Path, tmp_path: Path) -> None:
    names = ["..", ".", "lr/1", "lr:1", "report.html", "tables", "x" * 300, "../../up", "ü b"]
    file = tmp_path / "seeds.csv"
    pd.concat([pd.read_csv(log).iloc[:5].assign(run=name) for name in names]).to_csv(file, index=False)
    folders = logged_folders(file, tmp_path / "out")
    assert len(set(folders)) == len(names)
    assert all((folder / TABLE).exists() and folder.parent == tmp_path / "out" / "runs" for folder in folders)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"runs"}


def test_files_of_one_name_have_folders_of_their_own(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    again = tmp_path / "again" / log.name
    again.parent.mkdir()
    again.write_text(log.read_text())
    assert len({logged_folder(path) for path in (log, again)}) == 2


@pytest.mark.parametrize("name", ["my run (final).csv", "log.v2.csv", "mAP@50.csv"])
def test_the_folder_of_results_is_named_after_the_file(
    name: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    [folder] = logged_folders(log.rename(tmp_path / name))
    assert folder.parent.name == "runs"
    assert folder.name.startswith(f"curves-{Path(name).stem}-")


def test_the_folder_of_a_file_that_all_runs_have_is_named_after_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "my-run" / "checkpoint-300" / "trainer_state.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps({"log_history": [{"step": step, "loss": 3 - step / 100} for step in range(9)]}))
    assert logged_folder(state).name.startswith("curves-my-run-")


def test_only_files_of_columns_are_logs(log: Path, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    assert [is_log(path) for path in (log, tmp_path, tmp_path / "model.safetensors", "missing.csv")] == [
        *(True, False, False, False)
    ]


def test_a_run_whose_name_is_none_for_a_folder_has_a_hash_besides() -> None:
    assert [_file_name(run) for run in ("seed=1", "lr-1", "lr/1")] == ["seed=1", "lr-1", "lr-1-c3c1dd"]
