"""A repository of the hub: huggingface_hub itself, against a server on this machine."""

import hashlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stagewise.checkpoints import hub as hubs
from stagewise.checkpoints.hub import Hub

WEIGHTS = "model.safetensors"
CONTENT = b"not really weights"


@pytest.fixture
def served(local_hub: Callable[..., Any]) -> Any:
    return local_hub({"main": {"notes.txt": b"notes"}, "step10": {WEIGHTS: CONTENT, "config.json": b"{}"}})


@pytest.fixture
def hub(served: Any, tmp_path: Path) -> Hub:
    return Hub("owner/model", tmp_path, endpoint=served.endpoint)


def test_branches_and_tags_are_revisions_with_their_commits(hub: Hub, served: Any) -> None:
    assert hub.revisions() == {name: served.commit(name) for name in ("main", "step10")}


def test_files_and_their_hashes_are_known_without_a_download(hub: Hub, served: Any) -> None:
    files = hub.files("step10")
    assert files.keys() == {WEIGHTS, "config.json"}
    assert files[WEIGHTS] == (hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    assert not any(asked.startswith(f"GET step10/{WEIGHTS}") for asked in served.asked)


def test_a_file_is_downloaded_once(hub: Hub, served: Any) -> None:
    assert hub.fetch("step10", WEIGHTS).read_bytes() == CONTENT
    assert hub.fetch("step10", WEIGHTS).read_bytes() == CONTENT
    assert served.asked[f"GET step10/{WEIGHTS}"] == 1


def test_a_revision_that_is_not_there_is_named(hub: Hub) -> None:
    with pytest.raises(FileNotFoundError, match="list the files of revision 'step9' of owner/model: the repository"):
        hub.files("step9")


def test_a_silent_hub_is_not_waited_for(hub: Hub, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "ANSWER_SECONDS", 0.3)
    served.faults["refs"] = "hang"
    with pytest.raises(ConnectionError, match=r"could not list the revisions of owner/model: .*timed out"):
        hub.revisions()


def test_a_hub_that_does_not_answer_is_a_clear_error(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=r"could not list the revisions of owner/model: .*Is there a network"):
            Hub("owner/model", tmp_path, endpoint=endpoint).revisions()
