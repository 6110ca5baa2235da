"""A place a step: repositories, folders and files that are listed, or named with braces."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._one_each import expanded
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find, open_series

CONFIG = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}


def saved_at(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(models.weights(models.build(Architecture(CONFIG), seed)), path)
    return path


def test_braces_are_expanded_as_a_shell_does() -> None:
    assert expanded("a-{1,2}-{x,y}") == ["a-1-x", "a-1-y", "a-2-x", "a-2-y"]
    assert expanded("runs/{seed}") == ["runs/{seed}"]


def test_listed_files_are_a_series_in_the_order_of_their_steps(tmp_path: Path) -> None:
    files = [saved_at(tmp_path / name / f"model_{step}.pt", step) for name, step in (("b", 20), ("a", 0), ("c", 100))]
    series = open_series(files, architecture=CONFIG)
    assert series.steps == (0, 20, 100)
    expected = models.weights(models.build(Architecture(CONFIG), 100))
    assert all(torch.equal(weight, expected[name]) for name, weight in series.weights(100).items())


def test_listed_folders_are_a_series(saved: Callable[..., dict[str, bytes]], tmp_path: Path) -> None:
    for step in (5, 10):
        (tmp_path / f"bert-seed_3-step_{step}k").mkdir()
        for name, content in saved("GPT2", step).items():
            (tmp_path / f"bert-seed_3-step_{step}k" / name).write_bytes(content)
    series = open_series(str(tmp_path / "bert-seed_3-step_{5,10}k"))
    assert (series.steps, series.seed) == ((5000, 10_000), 3)


def test_a_repository_a_step_is_a_series(
    local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]], tmp_path: Path
) -> None:
    hub = local_hub({"main": saved("GPT2", 0)})
    options = {"cache": tmp_path, "endpoint": hub.endpoint}
    series = open_series(["owner/model"], parse=lambda name: 7, hub=options)
    assert (series.steps, series.architecture.n_layers) == ((7,), 2)
    assert series.source is not None
    assert [entry.commit() for entry in series.source.entries] == [hub.commit("main")]
    assert audit(find(["owner/model"], parse=lambda name: 7, hub=options)).checkpoints == 1


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["no-such-thing"], FileNotFoundError, r"no-such-thing is not there: a list names folders, files, or repos"),
        (
            ["owner/name"],
            ValueError,
            r"the name owner/name has no step \(no number in it counts updates\): give it, as",
        ),
    ],
)
def test_what_is_not_there_or_has_no_step_is_named(names: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_series(names)
