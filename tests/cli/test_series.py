"""`stagewise series suites`: what is known, as lines and as data."""

import json

from typer.testing import CliRunner

from stagewise.checkpoints.suites import suites
from stagewise.cli.app import app


def test_the_command_lists_them() -> None:
    result = CliRunner().invoke(app, ["series", "suites"])
    assert "HuggingFaceTB/SmolLM3-3B-checkpoints" in result.output
    assert "2,359,296 tokens a step; stage1 and stage2 and stage3 are one count" in result.output
    assert len(json.loads(CliRunner().invoke(app, ["series", "suites", "--json"]).output)) == len(suites())
