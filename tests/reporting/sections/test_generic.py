"""The sections of probes without one of their own: captions from what a probe declares, a figure a quantity."""

import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from stagewise import probes
from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import INTERVENTIONS, write
from stagewise.probes import Loss
from stagewise.recipe import Recipe
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.page import report
from stagewise.reporting.sections import SECTIONS
from stagewise.reporting.sections.generic import _probe_section, caption, generic_sections
from stagewise.table import Quantity, declare

STEPS = [0, 10, 100, 300]


def measured(quantities: dict[str, Quantity] | None = None, **columns: object) -> Measured:
    rows = pd.DataFrame({"run": "run", "step": STEPS, "probe": "MyProbe", "quantity": "score", "value": 0.5, **columns})
    if quantities:
        declare(rows, {"MyProbe": quantities})
    return Measured({}, rows)


def test_a_probe_of_ones_own_has_a_section_with_its_label_and_unit() -> None:
    run = measured({"score": Quantity("loss of <early> exits", "nats", (0, None), "down")}, lo=0.4, hi=0.6)
    (section,) = generic_sections(run, [])
    assert (section.title, section.identifier) == ("My probe", "probe-1-my-probe")
    (drawn,) = section.blocks(run)
    assert isinstance(drawn, Plot)
    assert drawn.caption == (
        "Loss of &lt;early&gt; exits, in nats, at least 0. Down is progress: look for a fall, and for what else "
        "happens at that time. Ribbons: 95 % intervals over the probe batch."
    )
    assert len(drawn.rows) == len(STEPS)


def test_what_other_sections_show_is_not_shown_again() -> None:
    run = measured()
    assert generic_sections(run, ["MyProbe"]) == generic_sections(run, ["MyProbe.score"]) == []
    assert len(generic_sections(run, ["MyProbe.other"])) == 1


def test_without_a_declaration_a_quantity_has_its_name() -> None:
    (drawn,) = _probe_section(measured(quantity="my_score"), "MyProbe", ["my_score"])
    assert isinstance(drawn, Plot)
    assert drawn.caption == "My score."


def test_a_quantity_that_is_never_finite_is_said_in_a_sentence() -> None:
    (said,) = _probe_section(measured(value=np.nan), "MyProbe", ["score"])
    assert said == "<p>Score is not finite at any checkpoint.</p>"


def test_a_caption_says_which_lines_are_drawn() -> None:
    rows = pd.DataFrame({"step": 0, "relation": [f"relation {i}" for i in range(100)], "value": 0.5})
    said = caption(rows, Quantity("mass", range=(0, 1), progress="up"))
    assert said.startswith("Mass, from 0 to 1; by relation. Up is progress: look for a rise")
    assert "Coloured: the 8 of 100 lines that moved most, the others grey (of these 60; all are in the table)" in said


CATALOGUE = {name for name, value in vars(probes).items() if isinstance(value, type)}
SHOWN = {name.partition(".")[0] for section in SECTIONS for name in section.needs}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", sorted(CATALOGUE - SHOWN))
def test_every_probe_without_a_section_is_drawn_with_its_declared_label(name: str) -> None:
    probe = getattr(probes, name)
    for quantity, what in probe.quantities.items():
        rows = measured(quantity=quantity, layer=[0] * 4, head=[0, 1, 0, 1]).table.assign(probe=name)
        (drawn,) = _probe_section(Measured({}, rows), name, [quantity])
        assert isinstance(drawn, Plot)
        assert drawn.caption.lower().startswith(what.label[0].lower())
        panel = drawn.panels[""]
        assert isinstance(panel, Figure)
        (ax,) = panel.axes
        assert ax.get_ylabel().replace("\n", " ") == what.axis


pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


@pytest.fixture(scope="module")
def measured_of_further(
    few_sequences: None, small_folder: Path, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = Path(shutil.copytree(small_folder, tmp_path_factory.mktemp("measured") / "run"))
    measure_run(small_recipe, run, probes=[Loss()], progress=False)
    return run


@pytest.fixture
def folder(measured_of_further: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured_of_further, tmp_path / "run"))


def test_a_report_shows_the_interventions_of_its_run(folder: Path) -> None:
    assert "What a stage needs" not in report(folder).read_text(encoding="utf8")
    row = {"layer": 0, "head": 1, "kind": "out", "step": 2, "control": "", "transition": "the loss falls", "run": "run"}
    rows = pd.DataFrame(
        [{**row, "probe": "Intervention", "quantity": "delay", "value": math.inf, "lo": 4.0, "hi": math.inf}]
    )
    write(folder / INTERVENTIONS, lambda partial: rows.to_parquet(partial, index=False))
    page = report(folder).read_text(encoding="utf8")
    assert "What a stage needs" in page
    assert "no more, or more than 4 steps later" in page
