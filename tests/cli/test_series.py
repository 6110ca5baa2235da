"""`stagewise series relations`, lines on the heads of a run, and `suites`, what is known, as lines and as data."""

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.suites import suites
from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def test_heads_that_nothing_explains_are_counted(small_folder: Path) -> None:
    result = CliRunner().invoke(app, ["series", "relations", str(small_folder), "--step", "0"])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith("2 heads: ")


def test_a_proposal_is_a_line_with_two_examples(small_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"layer": 0, "head": 1, "relation": "offset 3", "known": False, "explained": 0.8, "chance": 0.1}
    row |= {"error": 0.01, "queries": 0.5, "examples": [(1, 3, 0), (3, 3, 0)]}
    monkeypatch.setattr("stagewise.measurement.relation_search.propose_relations", lambda *_, **__: pd.DataFrame([row]))
    first, last = CliRunner().invoke(app, ["series", "relations", str(small_folder)]).output.splitlines()
    assert first.startswith('L0H1 "offset 3": 0.80 of the attention (chance 0.10, error 0.010) of 50% of the queries; ')
    assert first.count("sequence ") == 2
    assert last == "1 heads: 0 attend to a relation of the batch, 1 to one proposed here, 0 to none that was found"


def test_a_step_that_is_not_there_is_refused(small_folder: Path) -> None:
    result = CliRunner().invoke(app, ["series", "relations", str(small_folder), "--step", "3"])
    assert result.exit_code == 2
    assert "has no step 3" in " ".join(result.output.split())


def test_the_command_lists_them() -> None:
    result = CliRunner().invoke(app, ["series", "suites"])
    assert "HuggingFaceTB/SmolLM3-3B-checkpoints" in result.output
    assert "2,359,296 tokens a step; stage1 and stage2 and stage3 are one count" in result.output
    assert len(json.loads(CliRunner().invoke(app, ["series", "suites", "--json"]).output)) == len(suites())
