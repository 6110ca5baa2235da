"""Other searches on the curves of a record: a clear jump is told between its checkpoints; what is absent is said."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evidence.records import rivals

NAMES = list(rivals.SEARCHES)


@pytest.fixture
def jump(tmp_path: Path) -> Path:
    """Return a log in which an accuracy jumps after step 500, and its loss does."""
    steps, generator = np.arange(0, 1000, 4), np.random.default_rng(0)
    high = np.where(steps > 500, 1.0, 0.0)
    columns = {"accuracy": 0.1 + 0.8 * high, "loss": 3 - 2 * high}
    noisy = {name: values + 0.02 * generator.standard_normal(len(steps)) for name, values in columns.items()}
    path = tmp_path / "log.csv"
    pd.DataFrame({"step": steps, **noisy}).to_csv(path, index=False)
    return path


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_search_that_is_installed_tells_a_jump_once_with_its_direction(name: str, jump: Path) -> None:
    if name in rivals.absent():
        pytest.skip(f"{rivals.SEARCHES[name].package} is not installed")
    answer = rivals.answers_of(jump)[name]
    assert answer is not None
    assert answer.transitions == 1
    assert {(one.names[0], one.direction) for one in answer.changes} == {("accuracy", "rises"), ("loss", "falls")}
    assert all(one.lo <= 510 and one.hi >= 500 for one in answer.changes)


def test_searches_without_their_package_are_named_and_give_no_answer(
    jump: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name != "scipy" else object())
    assert set(rivals.absent()) == {*NAMES, rivals.LINTER} - {"a line and a logistic, Schwarz's criterion"}
    assert list(rivals.answers_of(jump)) == ["a line and a logistic, Schwarz's criterion"]


def test_a_record_that_is_not_read_has_no_curves_to_search(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("name\nsomebody\n", encoding="utf8")
    assert rivals.answers_of(tmp_path / "log.csv") == {}
