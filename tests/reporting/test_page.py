"""The report: one file, whole, honest about what was not measured."""

import base64
import functools
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints.run_folder import METRICS, RUN, TABLE
from stagewise.detection.stages import find_stages
from stagewise.measurement.rows import bootstrap_weights, rows
from stagewise.plot.maps import patterns
from stagewise.probe import Reading
from stagewise.recipe import describe
from stagewise.reporting.measured import Measured, read_measured
from stagewise.reporting.page import made_sections, report
from stagewise.reporting.prose import interval, run_in_words
from stagewise.reporting.sections import LAST, SECTIONS
from stagewise.reporting.viewer import viewer
from stagewise.table import Quantity, declare, tidy
from stagewise.tasks import MarkovChain

STEPS = range(0, 620, 20)
TASK = MarkovChain(spans=(1, 1), length=3)
RUN_NAME = "</script><b>run & co"
OWN = "Logit<Lens>"
"""A probe of one's own, which has no section; its quantity is written with what HTML and formulas take for theirs."""

FURTHER = {
    "Copying": ("batch", "accuracy"),
    "LossByPosition": ("batch position", "cross_entropy"),
    "OVCopying": ("layer head", "copying"),
    "EffectiveSupport": ("batch layer head", "keys"),
    OWN: ("batch layer", "early & $late$"),
}
"""Probes that are read out as random numbers."""

SIZES = {"batch": 8, "layer": 1, "head": 2, "position": 4}


def kl(step: int) -> torch.Tensor:
    """KL to A*_1 and A*_1:2 in two stages: to a plateau around step 150, from it at about 200."""
    first, second = (1 / (1 + np.exp(-(step - middle) / 12)) for middle in (50, 260))
    values = [3 - 2 * first + second, 3 - 1.9 * first - second]
    return torch.tensor(values) + 1e-3 * torch.randn(8, 2, generator=torch.Generator().manual_seed(step))


NESTED = {"A*_1": 1, "A*_1:2": 2}


def further(step: int) -> dict[str, list[Reading]]:
    generator = torch.Generator().manual_seed(step)
    sizes = {probe: [SIZES[axis] for axis in axes.split()] for probe, (axes, _) in FURTHER.items()}
    return {
        probe: [Reading(axes, torch.rand(sizes[probe], generator=generator), quantity, _labels(axes))]
        for probe, (axes, quantity) in FURTHER.items()
    }


def _labels(axes: str) -> dict[str, range]:
    return {"position": range(4)} if "position" in axes else {}


def readings(step: int) -> dict[str, list[Reading]]:
    second = 1 / (1 + np.exp(-(step - 260) / 12))
    mass = torch.tensor([[[0.9, 0.1], [0.9 - 0.8 * second, 0.1 + 0.8 * second]]]).expand(8, 1, 2, 2)
    relation, feature = {"relation": ["I(1)", "I(2)"]}, {"feature": ["A*_1", "A*_2"]}
    ablation = {"kind": ["zero"], "control": ["head", "random head"]}
    pattern = torch.full((1, 2, 4, 4), step / 600).tril()
    return {
        "KLToReference": [
            Reading("batch reference", kl(step), "kl", {"reference": ["A*_1", "A*_1:2"]}),
            Reading(
                "batch reference context",
                kl(step)[:, :1, None],
                "kl",
                {"reference": ["trained c=1"], "context": [1]},
            ),
        ],
        "Loss": [Reading("batch", kl(step)[:, 1], "excess")],
        "Accuracy": [Reading("batch", mass[:, 0, 1, 1], "accuracy")],
        "AttentionTo": [Reading("batch layer head relation", mass, name, relation) for name in ("mass", "along")],
        "HeadSpecialisation": [
            Reading("batch layer head relation", mass, "share", relation),
            Reading("batch", mass[:, 0, 0, 0], "competition"),
            Reading("batch", mass[:, 0, 1, 1], "coverage"),
        ],
        "RestrictedContextKL": [Reading("batch context", mass[:, 0, 1], "kl", {"context": [1, 2]})],
        "HeadAblation": [Reading("batch layer head kind control", mass[:, :, :, None], "kl", ablation)],
        "AttentionEntropy": [Reading("batch layer head", mass[..., 0], "entropy")],
        "ValueAlignment": [Reading("layer head feature", mass[0], name, feature) for name in ("cosine", "projection")],
        "MeanPattern": [Reading("layer head query key", pattern, "attention", {"query": range(4), "key": range(4)})],
        "PatternClusters": [Reading("layer head", (mass[0, ..., 1] > 0.5).float(), "cluster")],
    }


@functools.cache
def table() -> pd.DataFrame:
    weights = bootstrap_weights(8, 20)
    frames = [
        rows(reading, weights).assign(run=RUN_NAME, step=step, probe=probe)
        for step in STEPS
        for probe, found in {**readings(step), **further(step)}.items()
        for reading in found
    ]
    frames = [
        frame.assign(nested=[NESTED.get(name, 0) for name in frame["reference"]]) if "reference" in frame else frame
        for frame in frames
    ]
    profile = pd.DataFrame({"feature": ["offset 0", "I(1)"], "cluster": [0.0, 0.0], "value": [0.1, 0.2]})
    centroid = profile.assign(run=RUN_NAME, step=600, probe="PatternClusters", quantity="centroid")
    measured = tidy([*frames, centroid])
    declare(measured, {OWN: {"early & $late$": Quantity("loss of <early> exits", "nats", (0, None), "down")}})
    return measured


def save(folder: Path, measured: pd.DataFrame, recipe: dict[str, Any] | None = None) -> Path:
    (folder / TABLE).parent.mkdir(parents=True)
    measured.to_parquet(folder / TABLE)
    recipe = {"task": {"type": "MyTask", "name": "<i>&"}} if recipe is None else recipe
    (folder / RUN).write_text(json.dumps({"recipe": recipe, "versions": {"torch": "2"}}))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save(tmp_path_factory.mktemp("run") / "whole", table(), {"task": describe(TASK)})
    pd.DataFrame({"step": range(600), "loss": 1.0}).to_parquet(folder / METRICS)
    report(folder)
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf8")


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
    return re.findall(r'<section id="([^"]+)">', page)


def test_a_full_table_gives_every_section(page: str) -> None:
    of_others = {"audit", "text", "onsets"}
    own = ["probe-1-logit-lens"]
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
    figures = re.findall(r'<figure class="plot">.*?</figure>', page, re.DOTALL)
    assert len(figures) > 8
    for figure in figures:
        assert "<figcaption>" in figure
        assert "data:text/csv" in figure
        for name in re.findall(r'data-svg="([^"]+)"', figure):
            assert f'id="{name}"' in figure
            drawing = folder / "figures" / f"{name.removeprefix('figure-')}.svg"
            assert drawing.read_text(encoding="utf8").startswith("<svg")


def test_text_from_the_run_is_escaped(page: str) -> None:
    assert "<h1>Markov chain: &lt;/script&gt;&lt;b&gt;run &amp; co" in page
    assert "<b>run" not in page
    assert "<h2>Logit&lt;Lens&gt;</h2>" in page
    assert "<Lens>" not in page


def test_the_stages_are_told_in_words_and_in_a_table(page: str) -> None:
    stages = find_stages(table())
    assert len(stages) == 2
    assert "2 stages were found" in page
    for said in [*stages.words().splitlines(), *stages.table["summary"], *stages.turning_points["reason"]]:
        assert html.escape(said) in page


def test_the_same_run_gives_the_same_bytes(page: str, folder: Path) -> None:
    drawing = (folder / "figures" / "stages.svg").read_bytes()
    report(folder)
    assert (folder / "report.html").read_text(encoding="utf8") == page
    assert (folder / "figures" / "stages.svg").read_bytes() == drawing


def test_the_viewer_holds_every_map_to_the_nearest_of_256_values() -> None:
    measured = table()
    text = re.findall(r'<script type="application/json" id="viewer-data">(.*?)</script>', viewer(measured, None))
    data = json.loads(text[0])
    packed = np.frombuffer(base64.b64decode(data["values"]), dtype=np.uint8)
    maps = packed.reshape(len(data["steps"]), 2, 4, 4) / 255
    assert data["steps"] == list(STEPS)
    assert np.abs(maps[7] - patterns(measured, STEPS[7])).max() <= 0.5 / 255


def test_sections_without_rows_are_left_out_and_named(tmp_path: Path) -> None:
    measured = table()
    folder = save(tmp_path / "run", measured[measured["probe"] == "AttentionEntropy"])
    text = report(folder).read_text(encoding="utf8")
    assert sections_of(text) == ["entropy", "settings"]
    missing = text.split("Not measured in this run: ")[1].split("</p>")[0]
    assert missing.startswith("The stages (KLToReference, Loss); Attention maps (MeanPattern); How much context")
    # This task is not known to have relations or references, and nobody trained it here.
    for title_of_other in ("What each head attends to", "Why these boundaries", "What emerged", "Training loss"):
        assert title_of_other not in missing
    assert "name = &lt;i&gt;&amp;" in text
    assert "CircuitsVis" not in text


def test_a_reference_alone_is_shown_without_claims_of_stages(tmp_path: Path) -> None:
    measured = table()
    folder = save(tmp_path / "run", measured[measured["reference"] == "A*_1"])
    text = report(folder).read_text(encoding="utf8")
    assert sections_of(text) == ["stages", "settings"]
    assert "stages were found" not in text


def test_a_loss_alone_is_a_score_whose_onset_begins_a_stage(tmp_path: Path) -> None:
    measured = table()
    folder = save(tmp_path / "run", measured[measured["probe"] == "Loss"])
    text = report(folder).read_text(encoding="utf8")
    assert sections_of(text) == ["stages", "onsets", "settings"]
    assert "excess loss falls" in text


def test_no_separate_stages_is_said_with_the_reasons(tmp_path: Path) -> None:
    measured = table()
    only = measured[measured["reference"].isin(NESTED)].assign(value=1.0, lo=1.0, hi=1.0, resamples=None)
    text = report(save(tmp_path / "run", only)).read_text(encoding="utf8")
    assert "<strong>No separate stages were found.</strong>" in text
    for reason in find_stages(only).turning_points["reason"]:
        assert html.escape(reason) in text


def test_a_folder_without_a_table_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / RUN).write_text('{"recipe": {}}')
    with pytest.raises(FileNotFoundError, match=r"measure the run first, with `stagewise measure"):
        report(tmp_path)


def test_relations_are_outlined_where_the_task_is_known(page: str, tmp_path: Path) -> None:
    measured = table()
    folder = save(tmp_path / "run", measured[measured["probe"] == "MeanPattern"])
    assert "Outlined: where each relation lies" in page
    assert not read_measured(folder).relations


def test_a_section_is_missing_only_where_the_task_has_what_it_shows() -> None:
    entropy = table().loc[lambda rows: rows["probe"] == "AttentionEntropy"]
    bare = Measured({"recipe": {"plan": {}}}, None, entropy, None, {}, 0)
    missing = {section.identifier for section in (*SECTIONS, *LAST) if section.applies(bare)} - {"entropy", "settings"}
    assert {"stages", "maps", "context", "ablation", "clusters", "training"} <= missing
    assert not {"heads", "emergence", "evidence", "text", "audit"} & missing
    known = bare._replace(relations={"I(1)": np.eye(4, dtype=bool)}, references=("A*_1", "A*_1:2"))
    further = {section.identifier for section in SECTIONS if section.applies(known)} - missing - {"entropy"}
    assert further == {"heads", "emergence", "evidence"}


def test_one_profile_does_not_hide_what_was_not_measured(tmp_path: Path) -> None:
    rows = table().loc[lambda rows: rows["probe"] == "LossByPosition"]
    text = report(save(tmp_path / "run", rows)).read_text(encoding="utf8")
    assert sections_of(text) == ["profiles", "settings"]
    assert "Not measured in this run: The stages (KLToReference, Loss)" in text


def test_what_a_section_lacks_the_rows_for_is_drawn_by_itself() -> None:
    rows = table().loc[lambda rows: rows["probe"].isin(["Accuracy", "Loss"])]
    made = made_sections(Measured({}, None, rows, None, {}, 0))
    assert [section.title for section in made] == ["The stages", "Accuracy", "Settings, versions, seeds"]


def test_the_run_is_described_whatever_its_record_holds() -> None:
    measured = table()
    words = run_in_words(
        {"recipe": {"plan": {"steps": 9, "batch_size": 4, "optimiser": "sgd", "learning_rate": 0.1}}},
        measured,
    )
    assert words.startswith("It was trained for 9 steps of 4 sequences with SGD, learning rate 0.1")
    plan = {"steps": 9, "batch_size": 4, "optimiser": "adamw", "learning_rate": 0.1, "warmup": 3, "cooldown": 2}
    warmed = run_in_words({"recipe": {"plan": plan}}, measured)
    assert "learning rate 0.1, warm-up over 3 steps, cool-down over 2 steps, weight decay 0." in warmed
    assert run_in_words({}, measured).startswith("31 checkpoints, from step 0 to step 600")
    assert interval(5, 5, 5) == "5"
