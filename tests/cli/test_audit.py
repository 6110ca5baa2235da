"""`stagewise audit`: its status, and what it asks for."""

import json
from pathlib import Path

from typer.testing import CliRunner

from stagewise.cli.app import app


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_an_audit_ends_with_status_1_where_something_is_wrong(checkpoints: Path) -> None:
    code, printed = call("audit", str(checkpoints))
    assert (code, "nothing is wrong" in printed) == (0, True)
    (checkpoints / "checkpoint-20" / "model.safetensors").write_bytes(b"")
    code, printed = call("audit", str(checkpoints), "--json")
    assert code == 1
    assert [found["kind"] for found in json.loads(printed)["findings"]] == ["damaged"]
    assert call("audit", str(checkpoints), "--no-weights")[0] == 0


def test_a_deep_audit_runs_the_models_and_asks_what_they_are(checkpoints: Path) -> None:
    code, printed = call("audit", str(checkpoints), "--deep")
    assert (code, "nothing is wrong" in printed) == (0, True)
    for config in checkpoints.glob("*/config.json"):
        config.unlink()
    assert call("audit", str(checkpoints))[0] == 0
    code, printed = call("audit", str(checkpoints), "--deep")
    assert (code, "architecture" in printed) == (2, True)
