"""Exports hold the table's scores, and its transitions at their steps, as each tool itself reads them."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.logged_curves import read_log
from stagewise.checkpoints.run_folder import TABLE, write
from stagewise.cli.app import app
from stagewise.findings.stages import Stages
from stagewise.reporting._export import WRITERS, export
from stagewise.saved_findings import save_stages
from stagewise.table import select

HEAD = "AttentionTo/mass/L1H1/induction"


@pytest.fixture
def folder(both: pd.DataFrame, stages_of_both: Stages, tmp_path: Path) -> Path:
    write(tmp_path / TABLE, both.to_parquet)
    save_stages(stages_of_both, tmp_path)
    return tmp_path


@pytest.fixture
def induction(both: pd.DataFrame) -> pd.DataFrame:
    return select(both, "AttentionTo", "mass", layer=1, head=1, relation="induction")


def test_tensorboard_reads_the_scores_and_the_transitions(
    folder: Path, induction: pd.DataFrame, stages_of_both: Stages
) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    out = export(folder, "tensorboard")
    assert out == folder / "exports" / "tensorboard"
    curve = read_log(out).query("quantity == @HEAD")
    assert curve["step"].tolist() == induction["step"].tolist()
    assert curve["value"].tolist() == pytest.approx(induction["value"].tolist(), rel=1e-6)  # float32
    events = reader.EventAccumulator(str(out)).Reload()
    texts = events.Tensors("transitions/text_summary")
    starts = stages_of_both.table["start"].tolist()[1:]
    assert [each.step for each in texts] == starts
    assert [each.tensor_proto.string_val[0].decode() for each in texts] == stages_of_both.answer[1 : len(starts) + 1]
    stage = {each.step: each.value for each in events.Scalars("stage")}
    assert [stage[step] for step in starts] == [*range(2, len(starts) + 2)]
    assert stage[0] == 1


def test_an_array_has_the_axes_of_its_quantity(folder: Path, induction: pd.DataFrame, stages_of_both: Stages) -> None:
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset(export(folder, "xarray") / "scores.nc", engine="scipy") as data:
        curve = data["AttentionTo.mass"].sel(layer=1, head=1, relation="induction").to_series().dropna()
        assert curve.index.tolist() == induction["step"].tolist()
        assert curve.tolist() == induction["value"].tolist()
        assert data["transition.start"].values.tolist() == stages_of_both.table["start"].tolist()[1:]
        assert data.attrs["answer"] == " ".join(stages_of_both.answer)


def test_wandb_gets_a_run_that_stays_here(
    folder: Path, stages_of_both: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(folder / "settings"))
    out = export(folder, "wandb", folder / "out")
    (run,) = (out / "wandb").glob("offline-run-*/*.wandb")
    assert HEAD.encode() in run.read_bytes()
    (table,) = (out / "wandb").rglob("*.table.json")
    assert stages_of_both.answer[1] in pd.read_json(table, typ="series")["data"][0]


def test_tables_are_those_of_the_run_without_arrays(folder: Path, both: pd.DataFrame) -> None:
    out = export(folder, "parquet")
    scores, transitions = (pd.read_parquet(out / f"{name}.parquet") for name in ("scores", "transitions"))
    assert scores["value"].tolist() == both["value"].tolist()
    assert transitions["words"].str.len().min() > 0


@pytest.mark.parametrize(
    ("tool", "package"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb"), ("xarray", "xarray")]
)
def test_a_missing_package_is_named(tool: str, package: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"an export to {tool} needs .*'stagewise\[{tool}\]'"):
        export(folder, tool)


def test_other_tools_and_used_folders_are_refused(folder: Path) -> None:
    result = CliRunner().invoke(app, ["series", "export", str(folder), "--to", "excel"])
    assert f"expected one of {', '.join(WRITERS)}" in str(result.exception) + result.output
    with pytest.raises(FileExistsError, match="holds files already: delete it"):
        export(folder, "parquet", folder)


def test_nothing_is_written_through_a_link_that_leaves_the_folder(folder: Path, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder / "exports").symlink_to(elsewhere)
    with pytest.raises(ValueError, match="leads out of"):
        export(folder, "parquet")
    assert not [*elsewhere.iterdir()]
