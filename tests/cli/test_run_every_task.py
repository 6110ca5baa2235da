"""`stagewise run TASK` ends in a report with every kind of finding, for each task and for one's own."""

import json
import math
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise import own_code
from stagewise.checkpoints.run_folder import read_run, read_table
from stagewise.cli._names import TASKS
from stagewise.cli._recipes import recipe_in
from stagewise.cli.app import app
from stagewise.probe import example_view
from stagewise.reporting import _figure as figure

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")

OWN = Path(__file__).parents[2] / "examples" / "own_task_and_probe.py"

TINY: dict[str, list[str]] = {
    "markov": ["task.d_vocab=4", "task.spans=[1,1]", "task.length=4", "task.n_sequences=40"],
    "recall": ["task.n_pairs=3", "task.n_tokens=12"],
    "ioi": ["task.n_names=6"],
    "sparse-regression": ["task.n_positions=6", "task.d=3"],
    "markov-regression": ["task.dim=3", "task.n_lags=7"],
    "sequence-classes": ["task.length=7"],
    "wikitext": ["task.length=8", "task.vocab_size=262"],
    "repeated-tokens": ["task.d_vocab=16", "task.length=8"],
    "text": ["task.length=8"],
    "tokens": ["task.length=8"],
}
"""Sizes of each task that train in seconds."""

KINDS = {
    "AttentionTo": "What each head attends to",
    "RestrictedContextKL": "How much context is used",
    "HeadAblation": "Which heads are needed",
    "PatternClusters": "Where the kinds of attention come from",
}
"""The four kinds that every task gets, and the titles of their sections."""

PAGES = ("sparse-regression",)
"""A task without tokens: the slow suite has the pages of the others."""


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def sizes(task: str, letters: str, tokenizer: str) -> list[str]:
    files = json.dumps([f"{letters}/valid.txt"])
    foreign = {
        "wikitext": [f"task.data={letters}"],
        "text": [f"task.tokenizer={tokenizer}", f"task.files={files}"],
        "tokens": [f"task.file={letters}/tokens.npy"],
    }
    settings = ["plan.batch_size=8", "plan.save=[2]", *TINY[task], *foreign.get(task, [])]
    small = ["--steps", "4", "--heads", "2", "--layers", "1", "--quiet", "--no-restricted"]
    return [*small, *(part for each in settings for part in ("--set", each))]


def test_every_task_of_the_command_line_is_run() -> None:
    assert set(TASKS) == set(TINY)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("task", sorted(set(TINY) - {"wikitext", *PAGES}))
def test_a_run_measures_every_kind(
    task: str, letters: str, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
    call("run", task, "--folder", str(tmp_path / "run"), *sizes(task, letters, tokenizer))
    assert set(read_table(tmp_path / "run")["probe"]) >= KINDS.keys()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("task", PAGES)
def test_a_run_ends_in_a_report_with_every_kind(task: str, letters: str, tokenizer: str, tmp_path: Path) -> None:
    ends_in_a_report(task, letters, tokenizer, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(set(TINY) - {"wikitext"}))
def test_a_run_ends_in_a_report_whose_figures_are_drawn(
    task: str, letters: str, tokenizer: str, tmp_path: Path
) -> None:
    ends_in_a_report(task, letters, tokenizer, tmp_path)


def ends_in_a_report(task: str, letters: str, tokenizer: str, tmp_path: Path) -> None:
    printed = call("run", task, "--folder", str(tmp_path / "run"), *sizes(task, letters, tokenizer))
    assert printed.splitlines()[-1] == f"report: {tmp_path / 'run' / 'report.html'}"
    assert set(read_table(tmp_path / "run")["probe"]) >= KINDS.keys()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf8")
    for title in KINDS.values():
        assert f">{title}</h2>" in page


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_run_on_text_ends_in_a_report_with_every_kind(letters: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    task = [each for field in ("length=8", "vocab_size=262", f"data={letters}") for each in ("--set", f"task.{field}")]
    call("run", "wikitext", "--folder", str(folder), *task, "--steps", "4", "--layers", "1", "--quiet")
    page = (folder / "report.html").read_text(encoding="utf8")
    assert all(f">{title}</h2>" in page for title in [*KINDS.values(), "What it learned of the text"])


@pytest.mark.usefixtures("no_workers")
def test_restricted_context_models_are_an_option_of_every_task_of_tokens(
    letters: str, tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
    options = [each for each in sizes("recall", letters, tokenizer) if each != "--no-restricted"]
    call("run", "recall", "--folder", str(tmp_path / "run"), *options, "--restricted")
    references = read_table(tmp_path / "run")["reference"].dropna().unique().tolist()
    assert [name for name in references if name.startswith("trained")] == [f"trained c={c}" for c in (1, 2, 4)]


@pytest.fixture(scope="module")
def own(few_sequences: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with nothing but mine.py, in which it was run, and what was printed. Its own figure is drawn."""
    place = tmp_path_factory.mktemp("own")
    shutil.copy(OWN, place / "mine.py")
    sizes = ["--steps", "40", "--heads", "2", "--set", "plan.batch_size=16", "--set", "plan.save=[5,10,20,30]"]
    drawn = figure.svg
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "svg", lambda each, name: drawn(each, name) if "answer-margin" in name else "<svg></svg>")
        printed = call_in(place, "run", "mine:ModularAddition", "--probe", "mine:AnswerMargin", *sizes, "--quiet")
    return place, printed


def call_in(place: Path, *arguments: str) -> str:
    """Run a command in a folder of one's own modules, and forget them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "path", [*sys.path])
        patch.setattr(own_code, "_NAMED", {})
        printed = call(*arguments)
    for path in place.glob("*.py"):
        del sys.modules[path.stem]
    return printed


def test_a_task_and_a_probe_of_ones_own_get_everything(own: tuple[Path, str]) -> None:
    place, printed = own
    folder = place / "runs" / "mine-ModularAddition"
    assert printed.startswith(("No transition was found. ", "One transition was found. "))
    assert printed.splitlines()[-1] == "report: runs/mine-ModularAddition/report.html"
    table = read_table(folder)
    assert set(table["probe"]) >= {*KINDS, "AnswerMargin", "HeadSpecialisation", "KLToReference"}
    margin = table[table["probe"] == "AnswerMargin"].set_index("step")["value"]
    loss = table[table["probe"] == "Loss"].query("quantity == 'cross_entropy'").set_index("step")["value"]
    assert (margin >= -loss).all()  # the best other token has a probability of 1 at most
    page = (folder / "report.html").read_text(encoding="utf8")
    assert all(f">{title}</h2>" in page for title in [*KINDS.values(), "Answer margin", "What began when"])
    drawn = (folder / "figures" / "answer-margin-1-margin.svg").read_text(encoding="utf8")
    assert "margin of the answer, nats" in drawn


def test_the_margin_of_an_answer_is_its_lead_over_the_best_other_token() -> None:
    probe = runpy.run_path(str(OWN))["AnswerMargin"]()
    view = example_view(probs=[[0.2, 0.7, 0.1], [0.25, 0.25, 0.5]], targets=[0, 2])
    (reading,) = probe.read(view)
    assert reading.values.tolist() == pytest.approx([(math.log(0.2 / 0.7) + math.log(0.5 / 0.25)) / 2])


def test_its_run_is_measured_anew_where_the_command_names_its_task(own: tuple[Path, str], tmp_path: Path) -> None:
    place, _ = own
    folder = shutil.copytree(place / "runs" / "mine-ModularAddition", tmp_path / "copy")
    assert read_run(folder)["recipe"]["task"]["type"] == "mine:ModularAddition"
    call_in(place, "measure", str(folder), "--task", "mine:ModularAddition", "--only", "Loss", "--quiet")
    assert set(read_table(folder)["probe"]) == {"Loss"}


def test_elsewhere_it_says_what_to_pass(own: tuple[Path, str], tmp_path: Path) -> None:
    folder = own[0] / "runs" / "mine-ModularAddition"
    with pytest.raises(
        ValueError, match=r"made with ModularAddition of the module mine, which is not imported here"
    ) as it:
        recipe_in(folder)
    assert "--task mine:ModularAddition on the command line" in str(it.value)
    shutil.copy(OWN, tmp_path / "moved.py")
    call_in(tmp_path, "measure", str(folder), "--task", "moved:ModularAddition", "--only", "Loss", "--quiet")


@pytest.mark.slow
def test_runs_of_several_seeds_are_measured_on_the_task_that_is_named(own: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copy(OWN, tmp_path / "moved.py")
    for name in ("a", "b"):
        folder = own[0] / "runs" / "mine-ModularAddition"
        shutil.copytree(folder, tmp_path / name, ignore=shutil.ignore_patterns("tables"))
    few = ["--only", "KLToReference", "--only", "Loss", "--quiet"]
    printed = call_in(tmp_path, "report", "a", "b", "--task", "moved:ModularAddition", *few)
    assert "over 2 seeds:" in printed
    assert set(read_table(tmp_path / "b")["probe"]) == {"KLToReference", "Loss"}
