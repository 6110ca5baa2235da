"""Sequences of one's own as the probe batch: in memory, from a file, and on the command line."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import stagewise
from stagewise.analysis import measured
from stagewise.checkpoints.run_folder import TABLE, read_record
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.cli.app import app
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import usable
from stagewise.probes import AttentionTo, Loss
from stagewise.task import Batch
from stagewise.tasks.tokens import Tokens, own_task

GENERATOR = torch.Generator().manual_seed(0)


def two_back(tokens: Tensor) -> Tensor:
    position = torch.arange(tokens.shape[1])
    return (position[:, None] == position + 2)[None]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    torch.save(torch.randint(4, (12, 5), generator=GENERATOR), tmp_path / "mine.pt")
    return tmp_path / "mine.pt"


def test_a_sample_takes_sequences_of_the_file_once_each(file: Path) -> None:
    rows = {tuple(row) for row in torch.load(file).tolist()}
    batch = Tokens(str(file)).sample(99, seed=0)
    assert {
        (*seen, last)
        for seen, last in zip(map(tuple, batch.tokens.tolist()), batch.targets[:, -1].tolist(), strict=True)
    } <= rows
    assert batch.scored.all()
    assert list(Tokens(str(file), relations=("offset 2", "self")).sample(2, seed=0).relations) == ["offset 2", "self"]


def test_relations_are_names_and_functions_of_a_file(file: Path, small_run: CheckpointSeries, tmp_path: Path) -> None:
    body = "    return (tokens[:, :, None] == tokens[:, None]).tril(-1)\n"
    (tmp_path / "my_relations.py").write_text(f"def same(tokens):\n{body}")
    task = own_task(small_run, file, ["duplicate token", f"{tmp_path}/my_relations.py:same"])
    assert task is not None
    batch = task.sample(3, seed=0)
    assert list(batch.relations) == ["duplicate token", "my_relations:same"]
    assert torch.equal(batch.relations["duplicate token"], batch.relations["my_relations:same"])


def test_relations_of_ones_own_are_functions_of_a_module(file: Path) -> None:
    task = Tokens(str(file), relations=(f"{__name__}:two_back",))
    (mask,) = task.sample(3, seed=0).relations.values()
    assert mask[0].nonzero().tolist() == [[2, 0], [3, 1]]


def test_what_labels_leave_out_is_not_scored(tmp_path: Path) -> None:
    labels = torch.tensor([[-100, -100, 3], [-100, -100, -100], [-100, 2, 3]])
    torch.save({"input_ids": torch.tensor([[1, 2, 3]] * 3), "labels": labels}, tmp_path / "t.pt")
    batch = Tokens(str(tmp_path / "t.pt")).sample(9, seed=0)
    assert sorted(batch.scored.tolist()) == [[False, True], [True, True]]


@pytest.mark.usefixtures("undrawn")
def test_tokens_are_measured_from_the_command_line(
    small_folder: Path, small_run: CheckpointSeries, file: Path, tmp_path: Path
) -> None:
    arguments = [
        "measure",
        small_folder,
        "--tokens",
        file,
        "--relation",
        "offset 2",
        "--out",
        tmp_path / "out",
        "--quiet",
    ]
    result = CliRunner().invoke(app, [*map(str, arguments), "--only", "Loss", "--only", "AttentionTo"])
    assert result.exit_code == 0, result.output
    assert "measured on 12 of 12 sequences" in result.stderr
    table = pd.read_parquet(tmp_path / "out" / TABLE)
    task = own_task(small_run, file, ["offset 2"])
    assert task is not None
    assert read_record(tmp_path / "out")["recipe"]["task"]["type"] == "Tokens"
    expected = measure(small_run, [Loss(), AttentionTo()], usable(task.probe_batch(64, 0)), progress=False)
    pd.testing.assert_series_equal(table["value"], expected["value"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_as_many_sequences_are_measured_as_are_asked_for(
    small_folder: Path, small_run: CheckpointSeries, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, quick = ["--out", str(tmp_path / "out")], ["--only", "Loss", "--quiet"]
    for command, number in (("measure", 3), ("report", 5)):
        asked = [command, str(small_folder), "--tokens", str(file), "--sequences", str(number), *out, *quick]
        result = CliRunner().invoke(app, asked)
        assert result.exit_code == 0, result.output
        assert f"measured on {number} of 12 sequences\n" in result.stderr
        assert set(pd.read_parquet(tmp_path / "out" / TABLE)["n"]) == {number}
    measured(
        small_run, tmp_path / "python", task=own_task(small_run, file), sequences=7, probes=[Loss()], progress=False
    )
    assert "measured on 7 of 12 sequences" in capsys.readouterr().err
    with pytest.raises(ValueError, match="the batch has 2 sequences: give either a batch or a number of sequences"):
        measured(small_run, tmp_path / "both", batch=Tokens(str(file)).sample(2, 0), sequences=7)


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_was_measured_is_measured_anew_on_more_sequences(small_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(small_folder, tmp_path / "run")
    for asked in ([], ["--sequences", "9"]):
        result = CliRunner().invoke(app, ["report", str(run), *asked, "--only", "Loss", "--quiet"])
        assert result.exit_code == 0, result.output
    assert set(pd.read_parquet(run / TABLE)["n"]) == {9}


def test_rows_that_the_models_are_too_short_for_are_said_to_be_cut(
    small_run: CheckpointSeries, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(torch.zeros(2, 9, dtype=torch.int64), tmp_path / "t.pt")
    own_task(small_run, tmp_path / "t.pt")
    assert capsys.readouterr().err == f"{tmp_path / 't.pt'}: rows of up to 9 tokens are cut to the first 6\n"


def test_a_batch_of_ones_own_is_recorded_as_one(
    small_run: CheckpointSeries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
    batch = Batch.from_tokens(torch.randint(4, (6, 4), generator=GENERATOR), {"two back": two_back})
    analysis = stagewise.analyse(small_run, tmp_path, batch=batch, probes=[Loss(), AttentionTo()], progress=False)
    assert analysis.table["relation"].dropna().unique().tolist() == ["two back"]
    task = {"type": "a batch of one's own", "sequences": 6, "positions": 3}
    assert read_record(tmp_path)["recipe"]["task"] == task


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tokens": "a", "text": "b"}, "either tokens or a text, not both"),
        ({"relations": ["self"]}, "the relation self was given without tokens"),
        ({"tokenizer": "t"}, "the tokenizer t was given without a text"),
        ({"tokens": "nowhere.npy"}, "there is no file of tokens nowhere.npy"),
        ({"tokens": torch.zeros(2, 4)}, r"tokens are a file here, got Tensor: .* batch=Batch.from_tokens\(tokens\)"),
    ],
)
def test_what_does_not_go_together_is_refused(
    asked: dict[str, object], message: str, small_run: CheckpointSeries
) -> None:
    with pytest.raises((ValueError, FileNotFoundError, TypeError), match=message):
        own_task(small_run, **asked)  # type: ignore[arg-type]


def test_tokens_that_the_models_do_not_have_are_refused_before_anything_is_read(
    small_run: CheckpointSeries, tmp_path: Path
) -> None:
    torch.save(torch.full((3, 4), 17), tmp_path / "t.pt")
    with pytest.raises(ValueError, match="holds token 17, and the models of small has 4 tokens"):
        own_task(small_run, tmp_path / "t.pt")
