"""Heads' groups over checkpoints: labels by share, groups covered by heads that stay, and their order."""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.papers.incremental import _owners as owners
from stagewise.papers.incremental._owners import coverage, figure_owners, labels_of, owner_rows, recipe_of
from stagewise.recipe import Recipe


def test_a_head_has_the_group_of_at_least_half_of_its_attention() -> None:
    shares = {0: [[0.4, 0.3, 0.3], [0.1, 0.1, 0.8]], 5: [[0.5, 0.3, 0.2], [0.3, 0.6, 0.1]]}
    rows = [
        (step, 0, head, f"I({group + 1})", value)
        for step, heads in shares.items()
        for head, groups in enumerate(heads)
        for group, value in enumerate(groups)
    ]
    steps, labels = labels_of(pd.DataFrame(rows, columns=["step", "layer", "head", "relation", "value"]))
    assert steps.tolist() == [0, 5]
    assert labels.tolist() == [[-1, 2], [0, 1]]


def test_a_group_is_covered_from_the_first_head_on_that_keeps_it() -> None:
    labels = np.array([[-1, 0], [1, 0], [0, 0], [0, 2], [2, 1], [2, 1]])
    assert coverage(labels, 4) == [0, 4, 4, None]


def test_the_order_of_coverage_is_compared_with_importance_where_all_groups_are_covered() -> None:
    steps, none = np.array([0, 10, 20, 30]), np.full((4, 1), -1)
    first = np.array([[0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 1, 2]])
    at_once = np.tile([2, 1, 0], (4, 1))
    rows = {row["quantity"]: row for row in owner_rows([(steps, first), (steps, at_once)])}
    assert rows["step from which I(3) has a head"]["ours"] == "10"
    assert rows["Spearman, order of coverage with that of importance"]["remark"] == "1 of 2 seeds"
    rows = {row["quantity"]: row for row in owner_rows([(steps, first), (steps, none)])}
    spearman = rows["Spearman, order of coverage with that of importance"]
    assert (spearman["ours"], spearman["remark"]) == ("1", "1 of 2 seeds")
    assert rows["groups that some head has"]["ours"] == "1.5"
    assert rows["times a head goes on to another group"]["ours"] == "0"
    assert rows["step from which I(2) has a head"]["remark"] == "1 of 2 seeds"


def test_a_head_goes_on_to_another_group_by_way_of_none_too() -> None:
    (row,) = [
        row
        for row in owner_rows([(np.arange(5), np.array([[0], [-1], [1], [1], [0]]))])
        if "goes on" in row["quantity"]
    ]
    assert row["ours"] == "2"


@pytest.mark.usefixtures("unchecked")
def test_a_run_too_short_to_cover_any_group_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(seed: int, setting: str) -> Recipe:
        made = recipe_of(seed, setting)
        plan = dataclasses.replace(made.plan, steps=4, batch_size=4, save=frozenset(range(5)))
        return dataclasses.replace(made, plan=plan)

    monkeypatch.setattr(owners, "recipe_of", short)
    monkeypatch.setattr(owners, "SEQUENCES", 8)
    numbers = figure_owners(tmp_path, seeds=(0, 1), progress=False).numbers.set_index("quantity")
    assert numbers.loc["Spearman, order of coverage with that of importance", "ours"] == "never"
    assert numbers.loc["groups that some head has", "ours"] == "0"
