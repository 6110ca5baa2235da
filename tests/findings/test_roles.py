"""Heads of several runs find their counterparts, whatever their indices are."""

import numpy as np
import pandas as pd
import pytest

from stagewise.findings._roles import head_roles, paired_roles, with_roles

STEPS = np.unique(np.geomspace(1, 1000, 20).astype(int))


def run_of(name: str, order: list[int], seed: int) -> pd.DataFrame:
    """A run of one layer whose head at place i does what role order[i] does: it attends k back from step 10^k on."""
    generator = np.random.default_rng(seed)
    frames = [
        pd.DataFrame({"step": STEPS, "relation": f"{k} back", "head": place, "value": value})
        for place, role in enumerate(order)
        for k in (1, 2, 3)
        for value in [0.9 * (role == k) * (3 * 10 ** (k - 1) < STEPS) + 0.03 * generator.standard_normal(len(STEPS))]
    ]
    return pd.concat(frames).assign(run=name, probe="AttentionTo", quantity="mass", layer=0)


ORDERS = ([1, 2, 3], [3, 1, 2], [2, 1, 3], [1, 3, 2])


def table_of(orders: tuple[list[int], ...] = ORDERS) -> pd.DataFrame:
    return pd.concat([run_of(f"seed {i}", order, i) for i, order in enumerate(orders)], ignore_index=True)


def test_heads_that_do_the_same_have_the_same_role() -> None:
    roles = head_roles(table_of())
    does = {(f"seed {i}", place): role for i, order in enumerate(ORDERS) for place, role in enumerate(order)}
    planted = [does[run, head] for run, head in zip(roles["run"], roles["head"], strict=True)]
    assert sorted(map(tuple, roles.assign(does=planted).groupby("role")["does"].unique())) == [(1,), (2,), (3,)]
    assert roles["distance"].max() < 0.3


def test_roles_stand_in_place_of_indices() -> None:
    table = table_of()
    roles = head_roles(table)
    renamed = pd.concat([with_roles(rows, roles[roles["run"] == name]) for name, rows in table.groupby("run")])
    last = renamed[(renamed["step"] == 1000) & (renamed["value"] > 0.5)]
    assert (last.groupby("relation")["head"].nunique() == 1).all()
    assert last["head"].nunique() == 3


def test_runs_of_other_heads_are_refused() -> None:
    with pytest.raises(ValueError, match="the same heads in every run, got seed 0: 3, seed 1: 2"):
        head_roles(table_of(([1, 2, 3], [1, 2])))


def test_a_table_without_heads_has_no_roles() -> None:
    rows = pd.DataFrame({"run": ["a"], "step": [0], "probe": ["Loss"], "quantity": ["excess"], "value": [1.0]})
    assert head_roles(rows).empty


def test_heads_of_another_run_have_the_numbers_of_those_that_do_the_same() -> None:
    first, second = run_of("first", [1, 2, 3], 0), run_of("second", [3, 4, 1, 2], 1)
    roles = paired_roles(pd.concat([first, second], ignore_index=True))
    of = {run: rows.set_index("head")["role"].to_dict() for run, rows in roles.groupby("run")}
    assert of == {"first": {0: 0, 1: 1, 2: 2}, "second": {0: 2, 1: 3, 2: 0, 3: 1}}
    alone = roles.query("run == 'second' and head == 1")["distance"]
    assert alone.isna().all()
    assert roles["distance"].dropna().max() < 0.3


def test_a_layer_that_one_run_lacks_and_a_head_without_another_have_no_distance() -> None:
    first = run_of("first", [1], 0)
    second = pd.concat([run_of("second", [1], 1), run_of("second", [2, 3], 2).assign(layer=1)])
    roles = paired_roles(pd.concat([first, second], ignore_index=True))
    assert roles[["run", "layer", "head", "role"]].to_numpy().tolist() == [
        ["first", 0, 0, 0],
        ["second", 0, 0, 0],
        ["second", 1, 0, 0],
        ["second", 1, 1, 1],
    ]
    assert roles["distance"].isna().all()


def test_pairs_are_of_two_runs() -> None:
    with pytest.raises(ValueError, match="paired between two runs, the table has 4: seed 0"):
        paired_roles(table_of())
