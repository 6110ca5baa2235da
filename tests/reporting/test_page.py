"""The report: one file, whole, honest about what was not measured."""

import html
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stagewise import answer, plot
from stagewise.checkpoints.run_folder import METRICS, RUN, TABLE
from stagewise.entry_points import added
from stagewise.findings.stages import Stages, find_stages
from stagewise.recipe import describe
from stagewise.reporting import section
from stagewise.reporting._measured import read_measured, write_batch
from stagewise.reporting.page import report
from stagewise.reporting.sections import LAST, SECTIONS
from stagewise.saved_findings import STAGES
from stagewise.tasks import MarkovChain
from stagewise.words import CAVEAT
from stagewise.words import stages as words
from tests.fixtures.packed import rows_in
from tests.fixtures.runs import AtOnce, draw_some
from tests.reporting.conftest import OWN

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = MarkovChain(spans=(1, 1), length=3)


def save(folder: Path, measured: pd.DataFrame, recipe: dict[str, Any] | None = None) -> Path:
    (folder / TABLE).parent.mkdir(parents=True)
    measured.to_parquet(folder / TABLE)
    recipe = {"task": {"type": "MyTask", "name": "<i>&"}} if recipe is None else recipe
    (folder / RUN).write_text(json.dumps({"recipe": recipe, "versions": {"torch": "2"}}))
    return folder


@pytest.fixture(scope="module", params=["some drawings", pytest.param("all drawings", marks=pytest.mark.slow)])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, table: pd.DataFrame) -> Path:
    folder = save(tmp_path_factory.mktemp("run") / "whole", table, {"task": describe(TASK)})
    write_batch(folder, TASK.probe_batch(4, seed=0))
    pd.DataFrame({"step": range(600), "loss": 1.0}).to_parquet(folder / METRICS)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "some drawings":
            draw_some(patch)
        report(folder)
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf8")


SECTION = r'<(section|details)(?: class="section")? id="([^"]+)">(.*?)</\1>\n'


class Elements(HTMLParser):
    """Collects what the tests ask about."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def values(self, attribute: str) -> list[str]:
        return [str(attributes[attribute]) for _, attributes in self.tags if attribute in attributes]


def sections_of(page: str) -> list[str]:
    return [name for _, name, _ in re.findall(SECTION, page, re.DOTALL)]


def test_a_full_table_gives_every_section(page: str) -> None:
    of_others = {"audit", "interventions", "behaviour"}
    probes = ["attention-entropy", "value-alignment", "copying", "loss-by-position", "ov-copying"]
    probes += ["effective-support", "logit-lens"]
    own = [f"probe-{number}-{name}" for number, name in enumerate(probes, start=1)]
    first, last = ([section.identifier for section in sections] for sections in (SECTIONS, LAST))
    assert sections_of(page) == [*(name for name in first if name not in of_others), *own, *last]
    assert "Not measured" not in page


def test_the_report_is_one_small_file_that_fetches_nothing(page: str) -> None:
    assert len(page.encode()) < 8_000_000
    elements = Elements(page)
    links = elements.values("src") + elements.values("href") + elements.values("xlink:href")
    assert [link for link in links if not link.startswith(("#", "data:", "figures/"))] == []
    assert "link" not in {tag for tag, _ in elements.tags}
    assert "@import" not in page


def test_ids_are_unique_and_every_reference_to_one_is_answered(page: str) -> None:
    elements = Elements(page)
    ids = elements.values("id")
    assert len(ids) == len(set(ids))
    inner = [link[1:] for name in ("href", "xlink:href") for link in elements.values(name) if link.startswith("#")]
    inner += re.findall(r"url\(#([^)]+)\)", page)
    assert inner
    assert set(inner) <= set(ids)


def test_every_figure_has_a_caption_its_rows_and_its_drawings(page: str, folder: Path) -> None:
    figures = re.findall(r'<figure class="plot" .*?</figure>', page, re.DOTALL)
    assert len(figures) > 8
    for figure in figures:
        assert "<figcaption>" in figure
        # Maps are no rows of a CSV.
        steps = [text.partition("\n")[0].count("step") for text in rows_in(figure)]
        assert steps == [1] or re.search(r"\d+ maps: in tables/measurements.parquet", figure)
        for name in re.findall(r'data-svg="([^"]+)"', figure):
            assert f'id="{name}"' in figure
            drawing = folder / "figures" / f"{name.removeprefix('figure-')}.svg"
            assert drawing.read_text(encoding="utf8").startswith("<svg")


def test_text_from_the_run_is_escaped(page: str) -> None:
    assert "<h1>Markov chain: &lt;/script&gt;&lt;b&gt;run &amp; co" in page
    assert "<b>run" not in page
    assert "<h2>Logit&lt;Lens&gt;</h2>" in page
    assert "<Lens>" not in page


def test_the_stages_are_told_in_words_and_in_a_table(page: str, stages: Stages) -> None:
    assert len(stages) == 2
    assert "One transition, at step" in page
    happened = words.summaries(stages)
    for said in [
        *answer(stages),
        *happened,
        *words.turning_points(stages.turning_points, stages.context),
    ]:
        assert html.escape(said) in page


@pytest.mark.slow
def test_the_same_run_gives_the_same_bytes(folder: Path) -> None:
    page = report(folder).read_text(encoding="utf8")
    drawing = (folder / "figures" / "stages.svg").read_bytes()
    report(folder)
    assert (folder / "report.html").read_text(encoding="utf8") == page
    assert (folder / "figures" / "stages.svg").read_bytes() == drawing


@pytest.mark.slow
def test_other_processes_find_the_same_stages_and_draw_the_same_page(folder: Path, tmp_path: Path) -> None:
    page = report(folder).read_text(encoding="utf8")
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / STAGES).unlink()
    again = report(tmp_path / "run", executor=AtOnce())
    assert again.read_text(encoding="utf8") == page
    drawings = [
        {path.name: path.read_bytes() for path in (one / "figures").iterdir()} for one in (folder, again.parent)
    ]
    assert drawings[0] == drawings[1]


def test_a_report_without_workers_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="give at least one worker, got 0"):
        report(folder, workers=0)


def test_sections_without_rows_are_left_out_and_named(tmp_path: Path, table: pd.DataFrame) -> None:
    folder = save(tmp_path / "run", table[table["probe"] == "AttentionEntropy"])
    text = report(folder).read_text(encoding="utf8")
    assert sections_of(text) == ["probe-1-attention-entropy", "settings"]
    missing = text.split("Not measured in this run: ")[1].split("</p>")[0]
    assert missing.startswith("The stages (KLToReference, Loss, Accuracy); Attention maps (MeanPattern); How much")
    # This task is not known to have relations or references, and nobody trained it here.
    for title_of_other in ("What each head attends to", "Why these boundaries", "Training loss"):
        assert title_of_other not in missing
    assert "name = &lt;i&gt;&amp;" in text
    assert 'id="circuitsvis-library"' not in text


def test_a_reference_alone_is_shown_without_claims_of_stages(tmp_path: Path, table: pd.DataFrame) -> None:
    folder = save(tmp_path / "run", table[table["reference"] == "A*_1"])
    text = report(folder).read_text(encoding="utf8")
    assert sections_of(text) == ["stages", "settings"]
    assert "stages were found" not in text


def test_a_loss_alone_is_a_score_whose_onset_begins_a_stage(tmp_path: Path, table: pd.DataFrame) -> None:
    folder = save(tmp_path / "run", table[table["probe"] == "Loss"])
    text = report(folder).read_text(encoding="utf8")
    assert sections_of(text) == ["stages", "onsets", "settings"]
    assert "excess loss falls" in text


def test_no_separate_stages_is_said_with_the_reasons(tmp_path: Path, table: pd.DataFrame) -> None:
    only = table[table["reference"].isin(["A*_1", "A*_1:2"])].assign(value=1.0, lo=1.0, hi=1.0, resamples=None)
    text = report(save(tmp_path / "run", only)).read_text(encoding="utf8")
    assert "No transition was found" in text
    stages = find_stages(only)
    for reason in words.turning_points(stages.turning_points, stages.context):
        assert html.escape(reason) in text


def test_a_folder_without_a_table_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text('{"recipe": {}}')
    with pytest.raises(FileNotFoundError, match=r"measure the run first, with `stagewise measure"):
        report(tmp_path)


def test_a_folder_that_a_measurement_resumes_from_says_what_reports_it(tmp_path: Path) -> None:
    (tmp_path / "3348e212d1aed678").mkdir()
    (tmp_path / "3348e212d1aed678" / "settings.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"`analyse\(\.\.\., folder=\.\.\.\)` writes what a report reads"):
        report(tmp_path)


def test_relations_are_outlined_where_the_batch_is_known(page: str, tmp_path: Path, table: pd.DataFrame) -> None:
    folder = save(tmp_path / "run", table[table["probe"] == "MeanPattern"])
    assert "Outlined: where each relation lies" in page
    assert not read_measured(folder).relations


def test_sections_of_ones_own_and_of_installed_packages_show_their_probes(
    tmp_path: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "further-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: further\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[stagewise.sections]\nlosses = further_sections:LOSSES\n")
    lines = ["from stagewise import plot", "from stagewise.reporting import section"]
    lines += ['LOSSES = section("Theirs & ours", "Look <here>.", ["Loss"], plot.loss_curve)']
    (tmp_path / "further_sections.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("stagewise.reporting.sections.added", added.__wrapped__)
    mine = section("Mine", "", [OWN], lambda rows, stages: plot.quantity(rows, OWN, "early & $late$", stages))
    rows = table[table["probe"].isin(["Loss", OWN])]
    page = report(save(tmp_path / "run", rows), sections=[mine]).read_text(encoding="utf8")
    assert sections_of(page) == ["stages", "onsets", "own-theirs-ours", "own-mine", "settings"]
    assert "Look &lt;here&gt;." in page


def test_one_profile_does_not_hide_what_was_not_measured(tmp_path: Path, table: pd.DataFrame) -> None:
    rows = table[table["probe"] == "LossByPosition"]
    text = report(save(tmp_path / "run", rows)).read_text(encoding="utf8")
    assert sections_of(text) == ["probe-1-loss-by-position", "settings"]
    assert "Not measured in this run: The stages (KLToReference, Loss, Accuracy)" in text


@pytest.mark.usefixtures("undrawn")
def test_every_section_on_a_foreign_batch_says_so_but_not_what_holds_on_any(foreign: Path) -> None:
    page = report(foreign).read_text(encoding="utf8")
    assert '<p class="foreign">The probe batch is foreign to this model' in page
    parts = {name: body for _, name, body in re.findall(SECTION, page, re.DOTALL)}
    assert {name for name, body in parts.items() if CAVEAT not in body} == {"settings"}
    assert {"stages", "onsets"} < parts.keys()


def test_on_an_axis_of_tokens_sentences_tables_and_figures_have_tokens_and_the_same_findings(
    page: str, tmp_path: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = lambda figure, name: f"<svg>{[ax.get_xlabel() for ax in figure.axes]}</svg>"  # noqa: E731
    monkeypatch.setattr("stagewise.reporting._figure.svg", drawn)
    folder = save(tmp_path / "run", table)
    tokens = report(folder, axis="tokens", tokens_per_step=2_097_152).read_text(encoding="utf8")
    assert "tokens (log scale; linear near 0)" in tokens
    assert "step (log scale" not in tokens
    read = re.sub(r"<(script|style|svg).*?</\1>|<[^>]*>", " ", tokens, flags=re.DOTALL)
    assert re.findall(r"[^.]*\bsteps?\b", read.partition("Settings, versions")[0]) == []
    for cell in ('data-column="from tokens"', "1.26B"):
        assert (cell in page, cell in tokens) == (False, True)
    boundary = re.compile(r"At (?:step )?(\S+) (?:\[\S+ \S+\] )?(?:tokens )?the model leaves A\*_1")
    assert float(boundary.findall(tokens)[0].rstrip("M")) == pytest.approx(
        2.097152 * float(boundary.findall(page)[0]), 0.01
    )
    names = json.loads(re.search(r'id="cursor-data">(.*?)</script>', tokens)[1])["names"]  # type: ignore[index]
    assert (names[0], names[-1]) == ("0 tokens", "1.26B tokens")
