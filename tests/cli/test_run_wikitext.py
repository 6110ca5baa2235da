"""The whole command on a text of a few lines: tables, report, a rerun; and what it refuses."""

import random
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints import run_folder
from stagewise.cli.app import app
from stagewise.measurement.probe_batch import usable
from stagewise.papers.tasks import WikiText
from stagewise.papers.wikitext.text_section import RANDOM, TEXT, _text_section
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.page import report
from stagewise.table import select

pytestmark = pytest.mark.usefixtures("unchecked")

FIELDS = {"task.vocab_size": 262, "task.length": 12, "plan.save": [3, 4, 5]}
SIZES = [each for name, value in FIELDS.items() for each in ("--set", f"{name}={value}")]
SIZES += ["--steps", "6", "--layers", "1", "--quiet"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path, generator = tmp_path_factory.mktemp("text"), random.Random(0)
    for name in ("train", "valid", "test"):
        lines = [" ".join(generator.choices(["alpha", "beta", "the", "of"], k=9)) for _ in range(60)]
        (path / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf8")
    return str(path)


@pytest.fixture(scope="module")
def folder(text: str, few_sequences: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a short run lies, without its report: drawing takes seconds."""
    path = tmp_path_factory.mktemp("runs") / "wikitext"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
        result = CliRunner().invoke(
            app, ["run", "wikitext", "--set", f"task.data={text}", "--folder", str(path), *SIZES]
        )
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == f"report: {path / 'report.html'}"
    return path


def test_the_section_says_what_the_model_knows_of_the_text(folder: Path) -> None:
    repeated = pd.read_parquet(folder / run_folder.REPEATED)
    measured = Measured(run_folder.read_run(folder), run_folder.read_table(folder), repeated=repeated)
    blocks = _text_section(measured)
    said = " ".join(block for block in blocks if isinstance(block, str))
    assert said.startswith("<p>30% of the training windows repeat an excerpt, ")
    assert "<p>Closest to the unigram model" in said
    assert "At step 6 the loss on held-out text is" in said
    for batch in (TEXT, RANDOM):
        assert f"<p>On {batch}: " in said
    plain = measured._replace(run={"recipe": {"task": {"repeating": 0.0}}})
    assert _text_section(plain)[0] == blocks[1]
    assert [block.name for block in blocks if isinstance(block, Plot)] == ["n-grams", "text-heads"]


@pytest.mark.slow
def test_the_report_has_everything_on_one_page(folder: Path) -> None:
    page = report(folder).read_text(encoding="utf8")
    for section in ("text", "stages", "heads", "maps", "context", "ablation", "lineage", "entropy", "settings"):
        assert f'<section id="{section}">' in page


def test_both_batches_are_measured_at_every_checkpoint(folder: Path) -> None:
    table = run_folder.read_table(folder)
    repeated = pd.read_parquet(folder / run_folder.REPEATED)
    assert table["step"].unique().tolist() == repeated["step"].unique().tolist() == [0, 3, 4, 5, 6]
    assert set(select(repeated, "AttentionTo", "along")["relation"]) == {"previous token", "induction"}
    assert set(select(table, "AttentionTo", "along")["relation"]) == {
        "previous token",
        "duplicate token",
        "induction",
    }


def test_the_gap_is_the_loss_less_the_law(folder: Path) -> None:
    table = run_folder.read_table(folder)
    loss = select(table, "Loss", "cross_entropy").set_index("step")["value"]
    law = select(table, "LossAgainstReferences", "cross_entropy", reference="bigram").set_index("step")["value"]
    gap = select(table, "LossAgainstReferences", "gap", reference="bigram").set_index("step")["value"]
    pd.testing.assert_series_equal(loss - law, gap, atol=1e-5)


def test_a_rerun_trains_and_measures_nothing_again(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
    made = {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}
    made |= {path: path.stat().st_mtime_ns for path in (folder / "tables" / "parts").rglob("step-*.parquet")}
    assert len(made) == 3 * 5
    again = ["run", "wikitext", "--set", f"task.data={text}", "--folder", str(folder), *SIZES]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in made} == made


def test_windows_of_the_text_batch_that_lack_a_relation_stay(text: str) -> None:
    batch = usable(WikiText(data=text, tokenizer="bpe", vocab_size=262, length=4).probe_batch(96, seed=0))
    assert len(batch) == 96
    assert 0 < int(batch.starts("induction").sum()) < 96


def test_a_folder_without_the_text_is_named_in_a_line(tmp_path: Path) -> None:
    nowhere = f"task.data={tmp_path}"
    result = CliRunner().invoke(app, ["run", "wikitext", "--set", nowhere, "--folder", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert "train.txt" in result.output
    assert "Traceback" not in result.output
