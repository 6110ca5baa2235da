"""Delays: by how many steps a transition comes later, from curves made by hand."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise.findings._roles import paired_roles
from stagewise.findings.delays import Comparison, compare_stages, find_delays
from stagewise.findings.stages import Stages, find_stages
from stagewise.words._delays import names


def shared(compared: Comparison) -> pd.DataFrame:
    """The events of both runs."""
    return compared.events.dropna(subset="later")


def test_delays_over_seeds_have_students_interval_and_count_what_never_came() -> None:
    values = {0: [10.0, 20.0], 1: [30.0], 2: [np.inf]}  # two heads of one role in the first seed
    rows = pd.DataFrame([{"seed": seed, "value": value} for seed, each in values.items() for value in each])
    (line,) = find_delays(rows.assign(transition="the loss falls", without="a head")).to_dict("records")
    half = 12.706 * np.std([15, 30], ddof=1) / np.sqrt(2)
    assert (line["seeds"], line["never"], line["mean"]) == (3, 1, 22.5)
    assert (line["lo"], line["hi"]) == pytest.approx((22.5 - half, 22.5 + half), rel=1e-4)


StepUp = Callable[..., pd.DataFrame]


def run(step_up: StepUp, name: str, times: dict[str, float], heads: tuple[int, int]) -> pd.DataFrame:
    """A run of two heads, each of which attends to one relation from a step on; at 5000, never."""
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0}
    rows = [
        step_up(at, by=0.7 if head == place and at < 3000 else 0.0, relation=relation, head=place, **of)
        for head, (relation, at) in zip(heads, times.items(), strict=True)
        for place in (0, 1)
    ]
    return pd.concat(rows, ignore_index=True).assign(run=name)


@pytest.fixture(scope="module")
def runs(step_up: StepUp) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The second run's heads have each other's indices; one relation comes 300 steps later, one not at all."""
    return (
        run(step_up, "first", {"previous token": 130, "induction": 500}, (0, 1)),
        run(step_up, "second", {"previous token": 430, "induction": 5000}, (1, 0)),
    )


@pytest.fixture(scope="module")
def stages(runs: tuple[pd.DataFrame, pd.DataFrame]) -> tuple[Stages, Stages]:
    return find_stages(runs[0]), find_stages(runs[1])


def test_an_event_of_both_runs_is_later_by_the_planted_steps(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    found = compare_stages(*stages, paired_roles(pd.concat(runs, ignore_index=True)))
    [row] = shared(found).to_dict("records")
    assert "L0H0 (in second L0H1) attends" in names(found)[row["event"]]
    assert "previous token" in names(found)[row["event"]]
    assert row["later_lo"] <= 300 <= row["later_hi"]
    assert row["later_lo"] > 0
    alone = found.events[found.events["later"].isna()]
    assert alone["other"].isna().all()
    assert {dict(found.catalogue[event].labels)["relation"] for event in alone["event"]} == {"induction"}
    [last] = str(found).splitlines()[1:]
    assert last.endswith(f": at step {alone['step'].item():.0f} in first, no such {alone['kind'].item()} in second")
    assert f"{row['later']:.0f} [{row['later_lo']:.0f}, {row['later_hi']:.0f}] steps later" in str(found)


@pytest.mark.slow
def test_of_a_run_of_too_few_checkpoints_it_is_not_said_that_something_did_not_come(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    few = runs[1][runs[1]["step"].isin(sorted(runs[1]["step"].unique())[::12])]
    first, second = stages[0], find_stages(few)
    found = compare_stages(first, second, paired_roles(pd.concat([runs[0], few], ignore_index=True)))
    sentence, *events = str(found).splitlines()
    assert sentence.startswith("in second no stages can be found: with ")
    assert len(events) == 2
    assert all(event.endswith(" in first, not known in second") for event in events)
    other = few.assign(run="other")
    neither = compare_stages(second, find_stages(other), paired_roles(pd.concat([few, other])))
    assert [line.partition(":")[0] for line in str(neither).splitlines()] == [
        "in second no stages can be found",
        "in other no stages can be found",
    ]


def test_heads_have_their_names_in_both_runs_and_pairs_that_are_not_sure_are_said_to_be(step_up: StepUp) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0, "relation": "induction"}
    both = [
        pd.concat([step_up(at, by=0.7, head=head, **of) for head, at in enumerate(times)]).assign(run=name)
        for name, times in (("first", (130, 600)), ("second", (130, 600, 1200)))
    ]
    roles = paired_roles(pd.concat(both))
    first, second = map(find_stages, both)
    found = compare_stages(first, second, roles)
    heads = [names(found)[event].partition(" attends")[0] for event in found.events["event"]]
    assert heads == ["L0H0", "L0H1", "L0H2 of second"]
    moved = roles.assign(distance=[float("nan"), float("nan"), 0.9, 0.1, float("nan")])
    found = compare_stages(first, second, moved)
    first_event, second_event = (names(found)[event] for event in found.events["event"][:2])
    assert first_event.startswith("L0H0 (in second perhaps L0H0) attends")
    assert second_event.startswith("L0H1 attends")


def test_the_other_order_turns_the_signs(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    first, second = stages
    there = shared(compare_stages(first, second, paired_roles(pd.concat(runs)))).iloc[0]
    back = shared(compare_stages(second, first, paired_roles(pd.concat(runs[::-1])))).iloc[0]
    assert (back["later"], back["later_lo"], back["later_hi"]) == (
        -there["later"],
        -there["later_hi"],
        -there["later_lo"],
    )


def test_a_run_against_itself_differs_in_nothing(
    runs: tuple[pd.DataFrame, pd.DataFrame], stages: tuple[Stages, Stages]
) -> None:
    again, first = runs[0].assign(run="again"), stages[0]
    found = compare_stages(first, find_stages(again), paired_roles(pd.concat([runs[0], again])))
    assert shared(found)["later"].tolist() == [0.0] * len(found.events)
    assert str(found).count("which is earlier cannot be told: 0 [") == len(found.events)
    with pytest.raises(ValueError, match="runs of different names"):
        compare_stages(first, first, found.roles)


@pytest.mark.slow
def test_of_several_rises_those_nearest_to_each_other_correspond(step_up: StepUp) -> None:
    of = {"probe": "AttentionTo", "quantity": "mass", "layer": 0, "head": 0, "relation": "induction"}
    late = step_up(600, by=0.4, **of)
    both = late.assign(value=late["value"] + step_up(40, by=0.4, **of)["value"])
    runs = [both.assign(run="two rises"), late.assign(run="one rise")]
    first, second = map(find_stages, runs)
    found = compare_stages(first, second, paired_roles(pd.concat(runs)))
    assert [names(found)[event].endswith("(number 2)") for event in found.events["event"]] == [False, True]
    assert found.events["later"].isna().tolist() == [True, False]
    assert shared(found)["later_lo"].item() <= 0 <= shared(found)["later_hi"].item()
