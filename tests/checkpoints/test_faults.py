"""What goes wrong with a source, on the command line: a line that says what to do, status 2, nothing half done."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stagewise.checkpoints import hub as hubs
from stagewise.checkpoints.run_folder import TABLE
from stagewise.cli.app import app
from stagewise.probes import Loss

pytestmark = pytest.mark.usefixtures("unchecked")

WEIGHTS = "model.safetensors"
STEPS = (0, 10, 20)
Saved = Callable[..., dict[str, bytes]]


@pytest.fixture
def hub(local_hub: Callable[..., Any], saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hub that the command line asks, with a cache of its own; one probe is measured, to be quick."""
    served = local_hub({f"step{step}": saved("GPT2", seed) for seed, step in enumerate(STEPS)})
    here = partial(hubs.Hub, endpoint=served.endpoint, cache=tmp_path / "cache")
    monkeypatch.setattr("stagewise.checkpoints.hub.Hub", here)
    monkeypatch.setattr("stagewise.probes.default_probes.default_probes", lambda *_: [Loss()])
    return served


def run(verb: str, source: object, tmp_path: Path) -> tuple[int, str]:
    options = [] if verb == "audit" else ["--out", str(tmp_path / "out"), "--quiet"]
    result = CliRunner().invoke(app, [verb, str(source), *options])
    return result.exit_code, result.output


def refused(verb: str, source: object, tmp_path: Path) -> str:
    """Run a command that must fail: return its one line, having seen that no table or report was left."""
    code, printed = run(verb, source, tmp_path)
    (line,) = [line for line in printed.splitlines() if line.startswith("stagewise: ")]
    assert code == 2
    whole = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "parts" not in path.parts]
    assert not whole
    return line


@pytest.mark.each_value
@pytest.mark.parametrize("verb", ["audit", "measure", "report"])
@pytest.mark.parametrize(("fault", "reason"), [("error", "500 Internal Server Error"), ("hang", "timed out")])
def test_a_hub_that_does_not_answer(
    verb: str, fault: str, reason: str, hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.faults["refs"] = fault
    if fault == "hang":  # only here: a busy machine may take longer for an answer that does come
        monkeypatch.setattr(hubs, "ANSWER_SECONDS", 0.5)
    line = refused(verb, "owner/model", tmp_path)
    assert f"could not list the revisions of owner/model: {reason}" in line.replace("Server error '", "")
    assert "Is there a network" in line


def test_a_download_that_fails_names_file_and_revision_and_the_next_call_goes_on(hub: Any, tmp_path: Path) -> None:
    hub.faults[f"GET step10/{WEIGHTS}"] = "error"
    line = refused("measure", "owner/model", tmp_path)
    assert f"could not download {WEIGHTS} of revision 'step10' of owner/model" in line
    assert "a second call resumes from there" in line
    hub.faults.clear()
    hub.asked.clear()
    assert run("measure", "owner/model", tmp_path)[0] == 0
    assert (tmp_path / "out" / TABLE).exists()
    assert hub.asked[f"GET step0/{WEIGHTS}"] == 0


@pytest.mark.parametrize("fault", ["truncated", pytest.param("garbage", marks=pytest.mark.slow)])
def test_a_download_that_is_not_whole_is_not_kept(
    fault: str, hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the attempts of huggingface_hub
    hub.faults[f"GET step20/{WEIGHTS}"] = fault
    line = refused("measure", "owner/model", tmp_path)
    assert "revision 'step20' of owner/model" in line
    hub.faults.clear()
    assert run("measure", "owner/model", tmp_path)[0] == 0


def test_other_bytes_than_the_hub_promises_are_noticed(hub: Any, tmp_path: Path) -> None:
    promised = hub.files["step10"][WEIGHTS]
    assert run("measure", "owner/model", tmp_path)[0] == 0
    (kept,) = [path for path in (tmp_path / "cache").rglob(WEIGHTS) if path.read_bytes() == promised]
    kept.resolve().write_bytes(promised[:-4] + b"\0\0\0\0")  # still a valid file of the same size
    shutil.rmtree(tmp_path / "out")
    assert f"is incomplete or damaged ({WEIGHTS} does not have the hash that the hub lists)" in refused(
        "measure", "owner/model", tmp_path
    )


def test_a_config_that_is_no_json_names_its_revision(hub: Any, tmp_path: Path) -> None:
    hub.files["step0"]["config.json"] = b"{half"
    assert "config.json of revision 'step0' of owner/model is not valid JSON" in refused(
        "measure", "owner/model", tmp_path
    )


def test_a_repository_or_a_revision_that_does_not_exist(hub: Any, tmp_path: Path) -> None:
    line = refused("measure", "owner/other", tmp_path)
    assert "the hub has no such repository, or it is private or gated: log in" in line
    hub.files["main"] = hub.files.pop("step0")
    for name in ("step10", "step20"):
        hub.files.pop(name)
    assert "no revision of owner/model is named like a checkpoint; there are main" in refused(
        "measure", "owner/model", tmp_path
    )


def test_shapes_that_differ_name_the_step_and_what_to_do(hub: Any, saved: Saved, tmp_path: Path) -> None:
    hub.files["step10"][WEIGHTS] = saved("GPTNeoX", 1)[WEIGHTS]
    line = refused("measure", "owner/model", tmp_path)
    assert "step 10 of 'owner/model': the weights do not fit the model" in line
    assert "`stagewise audit` lists what differs" in line


@pytest.mark.parametrize("verb", ["measure", "report"])
def test_an_encoder_whose_config_says_no_more_than_its_type(verb: str, hub: Any, tmp_path: Path) -> None:
    for files in hub.files.values():
        files["config.json"] = json.dumps({"model_type": "bert"}).encode()
    assert "stagewise reads causal language models; this is bert" in refused(verb, "owner/model", tmp_path)
