"""Findings are data: with every sentence changed, what is found, saved, aligned and compared is the same."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import stagewise.words
from stagewise.findings._roles import paired_roles
from stagewise.findings.delays import Comparison, compare_stages
from stagewise.findings.lineage import find_lineage
from stagewise.findings.replicates import Replicates, find_replicates
from stagewise.findings.stages import find_stages
from stagewise.saved_findings import save_lineage, save_replicates, save_stages
from tests.fixtures.profiles import profile_rows

MODULES = [
    importlib.import_module(f"stagewise.words.{one.name}") for one in pkgutil.iter_modules(stagewise.words.__path__)
]
SENTENCE = {"str", "list[str]", str, list[str]}
"""What a function returns that makes a sentence, or several."""


@pytest.fixture
def seeds(both: pd.DataFrame) -> pd.DataFrame:
    both = both.astype({"layer": "Int64", "head": "Int64"})
    later = both.assign(step=2 * both["step"], run="later")
    return pd.concat([both.assign(run="first"), later], ignore_index=True)


def other_words(patch: pytest.MonkeyPatch) -> int:
    """Let every function of the words say something else; return how many there are."""
    changed = 0
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__annotations__.get("return") in SENTENCE:
                several = function.__annotations__["return"] in ("list[str]", list[str])
                patch.setattr(module, name, nonsense(several))
                changed += 1
    return changed


def nonsense(several: bool) -> Callable[..., Any]:
    return lambda *_, **__: ["same same"] * 99 if several else "same same"


def saved(both: pd.DataFrame, folder: Path) -> list[bytes]:
    """Return the bytes of what is saved of one table and of heads with planned offsets."""
    lineage = find_lineage(profile_rows([[None, None, None]] * 6 + [[3, None, None]] * 9))
    files = save_stages(find_stages(both, causes={"the drop": 500}), folder), save_lineage(lineage, folder)
    return [path.read_bytes() for path in files]


def aligned(seeds: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """Return what two runs are aligned by, and its bytes."""
    replicates = find_replicates(seeds)
    first, second = (find_stages(rows) for _, rows in seeds.groupby("run", sort=False))
    compared = compare_stages(first, second, paired_roles(seeds))
    return {"saved": save_replicates(replicates, folder).read_bytes(), "replicates": replicates, "compared": compared}


def test_with_another_vocabulary_the_same_is_saved(both: pd.DataFrame, tmp_path: Path) -> None:
    one = saved(both, tmp_path / "one")
    with pytest.MonkeyPatch.context() as patch:
        assert other_words(patch) > 20
        assert saved(both, tmp_path / "other") == one


@pytest.mark.slow
def test_with_another_vocabulary_nothing_but_words_is_another(seeds: pd.DataFrame, tmp_path: Path) -> None:
    one = aligned(seeds, tmp_path / "one")
    with pytest.MonkeyPatch.context() as patch:
        assert other_words(patch) > 20
        other = aligned(seeds, tmp_path / "other")
        assert "same same" in str(other["compared"])
    assert one["saved"] == other["saved"]
    for name in ("replicates", "compared"):
        mine, theirs = one[name], other[name]
        assert isinstance(mine, Replicates | Comparison)
        pd.testing.assert_frame_equal(mine.events, theirs.events)
        assert mine.catalogue == theirs.catalogue
        assert len(mine.catalogue) > 2
