"""Golden outputs are those that are committed, under the version that they were written with."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app
from stagewise.models import has_hooked_transformer
from tests.golden.goldens import GOLDENS, changes, differences, read_output, record_of, recorded

README = Path(__file__).parents[2] / "README.md"

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize("name", GOLDENS["findings"].outputs)
def test_golden_findings_are_those_committed(name: str) -> None:
    assert changes("findings", name, GOLDENS["findings"].outputs[name]()) == []


@pytest.mark.skipif(not has_hooked_transformer(), reason="the sums of other models round otherwise")
def test_golden_readings_are_those_committed() -> None:
    assert changes("readings", "readings", GOLDENS["readings"].outputs["readings"]()) == []


def test_there_are_twelve_golden_tables() -> None:
    assert len(GOLDENS["findings"].outputs) == 12


@pytest.mark.parametrize("kind", GOLDENS)
def test_changed_outputs_have_another_version(kind: str) -> None:
    """`make golden` writes both: a changed digest under the same number was written by hand."""
    assert recorded(kind) == record_of(kind)


def test_the_readme_shows_the_lines_of_the_demo() -> None:
    first, *stages = read_output("demo")["stages 0"]["words"]
    shown = README.read_text(encoding="utf8").partition("\nTwo transitions were found")[2].partition("```")[0]
    begin, *others = ("Two transitions were found" + shown).strip().splitlines()
    assert begin.endswith(" ...")
    assert first.startswith(begin.removesuffix(" ..."))
    assert stages == others
    assert "step 165 [135, 210]" in first


@pytest.mark.slow
def test_the_demo_prints_its_lines(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", "markov", "--quiet", "--folder", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[:-1] == read_output("demo")["stages 0"]["words"]


def test_numbers_differ_beyond_rounding_and_all_else_at_all() -> None:
    saved = {"steps": [1, 2], "p": 0.5, "verdict": "onset"}
    assert list(differences(saved, saved | {"p": 0.5 + 1e-9})) == []
    assert list(differences(saved, {"steps": [1, 3], "p": 0.6, "verdict": "none"})) == [
        "p: 0.5 -> 0.6",
        "steps[1]: 2 -> 3",
        "verdict: onset -> none",
    ]
