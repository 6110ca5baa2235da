"""A behaviour in a table: which heads carry it, of which kind, in which order; and nothing where it never came."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.behaviour import find_behaviour, probability_before
from stagewise.probes import AttentionTo, BehaviourCurve, BehaviourHeads
from stagewise.table import declare, tidy

STEPS = np.arange(0, 1000, 50)


def rises(at: float, size: float) -> np.ndarray:
    return size / (1 + np.exp(-(STEPS - at) / 20))


Head = tuple[float, float, float, Mapping[str, float]]
"""Effect, direct effect and ablation at the end, and attention by relation."""

HEADS: dict[int, Head] = {
    0: (2.0, 1.9, 2.0, {"END to IO": 0.8}),
    1: (-1.0, -1.0, -1.0, {"END to IO": 0.7}),
    2: (1.0, 0.1, 1.0, {"END to S2": 0.9}),
    3: (1.0, 0.0, 1.0, {"S2 to S1 or duplicate token": 0.9, "previous token": 0.4}),
    4: (1.0, 0.0, 1.0, {"induction": 0.6}),
    5: (1.0, 0.9, 1.0, {}),
    6: (0.0, 0.0, 0.0, {"END to IO": 0.9}),
    7: (1.0, 0.0, 0.0, {"END to S2": 0.9}),
    8: (0.1, 0.1, 0.1, {"END to IO": 0.9}),
    9: (1.0, 0.9, 1.0, {"END to IO": 0.4, "END to S2": 0.5}),
}


def table(difference: np.ndarray, heads: Mapping[int, Head] = HEADS) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []

    def add(probe: str, quantity: str, values: np.ndarray, **labels: Any) -> None:
        for step, value in zip(STEPS, values, strict=True):
            rows.append({"run": "r", "step": step, "probe": probe, "quantity": quantity, **labels, "value": value,
                         "lo": value - 0.05, "hi": value + 0.05, "n": 9})  # fmt: skip

    add("BehaviourCurve", "difference", difference)
    for head, (effect, direct, ablated, relations) in heads.items():
        place = {"layer": 0, "head": head}
        add("BehaviourHeads", "effect", rises(400, effect), **place)
        add("BehaviourHeads", "direct", rises(400, direct), **place)
        for kind in ("mean", "zero"):
            add("BehaviourHeads", "ablated", rises(400, ablated), **place, kind=kind)
        for relation in ("END to IO", "END to S2", "S2 to S1 or duplicate token", "previous token", "induction"):
            add(
                "AttentionTo", "along", rises(300 + 10 * head, relations.get(relation, 0.1)), **place, relation=relation
            )
    made = tidy([pd.DataFrame(rows)])
    for probe in (BehaviourCurve, BehaviourHeads, AttentionTo):
        declare(made, {probe.__name__: dict(probe.quantities)})
    return made


def onsets(names: Mapping[tuple[str, str, int | None, str | None], float]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"probe": probe, "quantity": quantity, "layer": None if head is None else 0, "head": head,
             "relation": relation, "onset": True, "before": 0.0, "after": 1.0, "t50": at, "t50_lo": at - 20,
             "t50_hi": at + 20}
            for (probe, quantity, head, relation), at in names.items()
        ]
    )  # fmt: skip


def test_heads_have_the_kinds_that_their_rules_say_and_others_none() -> None:
    found = find_behaviour(table(rises(400, 3.0)))
    assert found is not None
    assert found.came
    assert dict(zip(found.heads["head"], found.heads["kind"], strict=True)) == {
        0: "name mover", 1: "negative mover", 2: "S-inhibition", 3: "duplicate token", 4: "induction", 5: "",
        9: "copy suppression",
    }  # fmt: skip


def test_without_attention_or_one_of_the_ablations_heads_carry_it_and_have_no_kind() -> None:
    rows = table(rises(400, 3.0))
    rows = rows[(rows["probe"] != "AttentionTo") & (rows["kind"] != "zero")].drop(columns="relation")
    found = find_behaviour(rows)
    assert found is not None
    assert found.heads["head"].tolist() == [0, 1, 2, 3, 4, 5, 9]
    assert set(found.heads["kind"]) == {""}


def test_a_direct_effect_that_is_not_sure_is_no_indirect_one() -> None:
    rows = table(rises(400, 3.0), {2: (1.0, 1.2, 1.0, {"END to S2": 0.9})})
    of_direct = rows["quantity"] == "direct"
    rows.loc[of_direct, "lo"], rows.loc[of_direct, "hi"] = -1.0, 3.0
    found = find_behaviour(rows)
    assert found is not None
    assert found.heads["kind"].tolist() == [""]


def test_parts_are_in_the_order_in_which_their_attention_came() -> None:
    times = {("BehaviourCurve", "difference", None, None): 400.0, ("AttentionTo", "along", 0, "END to IO"): 500.0,
             ("AttentionTo", "along", 2, "END to S2"): 200.0, ("BehaviourHeads", "effect", 2, None): 450.0}  # fmt: skip
    found = find_behaviour(table(rises(400, 3.0), {head: HEADS[head] for head in (0, 2)}), onsets(times))
    assert found is not None
    assert found.heads["head"].tolist() == [2, 0]
    assert found.heads[["formed", "t50"]].iloc[0].tolist() == [200, 450]
    assert found.heads["before"].tolist() == pytest.approx([1, 0], abs=0.01)
    del times["AttentionTo", "along", 0, "END to IO"]
    times["BehaviourHeads", "effect", 0, None] = 150.0
    earlier = find_behaviour(table(rises(400, 3.0), {head: HEADS[head] for head in (0, 2)}), onsets(times))
    assert earlier is not None
    assert earlier.heads["head"].tolist() == [0, 2]


def test_a_head_whose_effect_comes_as_anothers_goes_took_over_from_it() -> None:
    goes, late = 2 * (rises(200, 1.0) - rises(600, 1.0)), 2 * rises(600, 1.0)
    curves = {0: goes, 1: late, 2: rises(150, 2.0), 3: rises(850, 2.0), 4: goes}
    rows = table(rises(150, 3.0), {head: (2.0, 1.9, 2.0, {"END to IO": 0.8}) for head in curves})
    for head, curve in curves.items():
        for quantity in ("effect", "ablated"):
            mine = (rows["head"] == head) & (rows["quantity"] == quantity)
            values = np.tile(curve if (head, quantity) != (4, "ablated") else 0 * curve, mine.sum() // len(STEPS))
            rows.loc[mine, ["value", "lo", "hi"]] = values[:, None] + [0, -0.05, 0.05]
    found = find_behaviour(rows)
    assert found is not None
    # The third came with the behaviour, the fourth when the first was gone; no ablation shows an effect of the last.
    assert dict(zip(found.heads["head"], found.heads["after"], strict=True)) == {1: "L0H0", 2: "", 3: ""}


def test_without_the_behaviour_no_head_carries_it() -> None:
    found = find_behaviour(table(np.zeros(len(STEPS))))
    assert found is not None
    assert not found.came
    assert found.heads.empty


def test_a_dip_is_below_chance_beyond_its_error() -> None:
    dipped = rises(600, 4.0) - np.where((STEPS > 200) & (STEPS < 500), 1.0, 0.0)
    found = find_behaviour(table(dipped, {}))
    assert found is not None
    assert found.dip is not None
    assert found.dip[:2] == (250, 450)
    assert found.since == STEPS[np.flatnonzero(dipped <= 0.05)[-1] + 1]
    shallow = find_behaviour(table(rises(600, 4.0) - 0.05, {}))
    assert shallow is not None
    assert shallow.dip is None


def test_a_table_without_a_behaviour_has_none() -> None:
    rows = table(np.zeros(len(STEPS)))
    assert find_behaviour(pd.DataFrame(rows[rows["probe"] == "AttentionTo"])) is None


def test_equal_times_are_even_and_unknown_ones_unknown() -> None:
    assert probability_before((100.0, 90.0, 111.0), (100.0, 90.0, 111.0)) == pytest.approx(0.5)
    assert np.isnan(probability_before((100.0, 90.0, float("inf")), (1.0, 1.0, 1.0)))
