"""Faults that the weights show: found in one reading, each named once, with what else is wrong beside it."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from stagewise.checkpoints._weight_faults import weight_faults
from stagewise.checkpoints._weight_files import Contents
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Audit, Kind
from stagewise.checkpoints.names import Coordinates
from stagewise.checkpoints.series import find
from stagewise.checkpoints.sources import Entry, Source
from stagewise.models import HELD_KEYS
from tests.checkpoints.walks import Series, series


def found_in(checkpoints: Series) -> Audit:
    return audit(find([(10 * k, one) for k, one in enumerate(checkpoints)]))


def kinds(found: Audit) -> set[tuple[Kind, tuple[int, ...]]]:
    return {(one.kind, one.steps) for one in found.findings}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", ["drift", "walk", "noise"])
def test_a_series_that_was_not_touched_has_none(kind: str) -> None:
    assert found_in(series(kind, n=20)).clean


def test_each_checkpoint_is_read_once_and_none_is_kept() -> None:
    checkpoints = series("walk", n=30)
    reads: list[int] = []
    held: list[dict[str, torch.Tensor]] = []

    def load(step: int) -> Callable[[], Contents]:
        def once() -> Contents:
            reads.append(step)
            held[:] = [checkpoints[step]]
            return Contents(held[0])

        return once

    entries = tuple(Entry(f"c{step}", Coordinates(step), load(step), lambda: None) for step in range(30))
    assert not [*weight_faults(Source("mine", entries), entries, set())]
    assert reads == [*range(30)]


def test_keys_that_a_clamp_holds_from_a_step_on_are_none() -> None:
    checkpoints = series("walk", n=20)
    for one in checkpoints[12:]:
        one[f"blocks.0.{HELD_KEYS}"] = torch.ones(2, 3, 3, dtype=torch.bool).tril()
    assert found_in(checkpoints).clean


def test_several_faults_are_found_side_by_side() -> None:
    checkpoints = series("walk", n=30)
    checkpoints[10]["w1"] = -checkpoints[10]["w1"]
    checkpoints[15]["w2"] = checkpoints[14]["w2"]
    checkpoints[22] = checkpoints[21]
    assert kinds(found_in(checkpoints)) == {
        (Kind.OUTLYING_WEIGHTS, (100,)),
        (Kind.WEIGHTS_OF_ANOTHER_STEP, (150,)),
        (Kind.IDENTICAL_WEIGHTS, (210, 220)),
    }


def test_a_mask_of_infinities_that_never_changes_is_no_weight() -> None:
    checkpoints = series("walk")
    for one in checkpoints:
        one["mask"] = torch.full((8, 8), -torch.inf).triu(1)
    assert found_in(checkpoints).clean
    checkpoints[4]["mask"] = torch.full((8, 8), torch.nan)
    assert kinds(found_in(checkpoints)) >= {(Kind.NON_FINITE_WEIGHTS, (40,))}


def test_weights_that_are_nan_throughout_are_named() -> None:
    checkpoints = series("walk", n=4)
    for one in checkpoints:
        one["w0"] = torch.full((3, 3), torch.nan)
    assert kinds(found_in(checkpoints)) == {(Kind.NON_FINITE_WEIGHTS, (10 * k,)) for k in range(4)}


def test_branches_have_paths_of_their_own() -> None:
    paths = {"a": series("walk", seed=1), "b": series("walk", seed=2)}
    paths["b"][7]["w0"] = 3 * paths["b"][7]["w0"]
    entries = tuple(
        Entry(f"{branch}-{step}", Coordinates(step, branch=branch), functools.partial(Contents, one), lambda: None)
        for branch, path in paths.items()
        for step, one in enumerate(path)
    )
    (found,) = weight_faults(Source("mine", entries), entries, set())
    assert (found.branch, found.steps) == ("b", (7,))


@pytest.mark.parametrize("key", ["step", "global_step", "iter_num"])
def test_a_step_that_a_file_holds_itself_is_compared_with_its_name(key: str, tmp_path: Path) -> None:
    for step, one in enumerate(series("walk", n=6)):
        torch.save({"model": one, key: 10 * step if step != 4 else 30}, tmp_path / f"model_{10 * step}.pt")
    (found,) = audit(find(tmp_path)).findings
    assert (found.kind, found.steps, found.other_step) == (Kind.OTHER_STEP_RECORDED, (40,), 30)
    assert found.message == "model_40.pt: its name says step 40, its file 30"


def test_of_the_counts_in_a_file_of_litgpt_that_of_updates_is_the_step(tmp_path: Path) -> None:
    for step, one in enumerate(series("walk", n=6), 1):
        torch.save({"model": one, "iter_num": 40 * step, "step_count": 10 * step}, tmp_path / f"step-{10 * step}.pth")
    assert not [one for one in audit(find(tmp_path)).findings if one.kind == Kind.OTHER_STEP_RECORDED]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float16, torch.bfloat16, torch.float64])
def test_series_of_any_type_are_clean(dtype: torch.dtype) -> None:
    checkpoints = [{name: weight.to(dtype) for name, weight in one.items()} for one in series("walk")]
    found = found_in(checkpoints)
    assert found.clean, str(found)


@pytest.mark.one_of(5)
@pytest.mark.parametrize("equal", [12, 15, 19, 20, 21])
def test_copies_are_found_where_most_checkpoints_are_one(equal: int) -> None:
    checkpoints = series("walk", n=21)
    for one in checkpoints[:equal]:
        one |= checkpoints[0]
    found = weight_faults(Source("mine", ()), entries_of(checkpoints), set())
    assert [(one.kind, one.steps) for one in found] == [(Kind.IDENTICAL_WEIGHTS, (*range(0, 10 * equal, 10),))]


def test_copies_among_many_hide_no_other_fault() -> None:
    checkpoints = series("walk", n=40)
    for one in checkpoints[:22]:
        one |= checkpoints[0]
    checkpoints[30]["w1"] = -checkpoints[30]["w1"]
    found = [(one.kind, one.steps) for one in weight_faults(Source("mine", ()), entries_of(checkpoints), set())]
    assert found == [(Kind.IDENTICAL_WEIGHTS, (*range(0, 220, 10),)), (Kind.OUTLYING_WEIGHTS, (300,))]


def entries_of(checkpoints: Series) -> list[Entry]:
    """Checkpoints whose files are not the same, whatever their weights are."""
    return [
        Entry(f"c{k}", Coordinates(10 * k), functools.partial(Contents, one), lambda: None)
        for k, one in enumerate(checkpoints)
    ]
