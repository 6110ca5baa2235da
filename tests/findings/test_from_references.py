"""Stages in KL to nested references: planted ones are found, nulls have none, thresholds are those of the criteria."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.criteria import StageCriteria, TurnVerdict
from stagewise.findings._from_references import nested_references
from stagewise.findings.stages import Stages, find_stages
from stagewise.words.stages import turning_points
from tests.fixtures.runs import AtOnce

pytestmark = pytest.mark.usefixtures("unchecked")

STEPS = np.unique(np.concatenate([[0, 1, 2, 4, 8], np.arange(15, 901, 15)]))
NAMES = ("A*_1", "A*_1:2", "A*_1:3")

COVERED = 0.8
"""Lower bound on how often a 95 % interval holds the truth: 30 draws of a 95 % event fall below it once in 10,000."""


def drop(at: float, width: float = 0.1) -> np.ndarray:
    """A transition from 0 to 1 at a step, `width` e-folds wide."""
    return np.asarray(1 / (1 + np.exp(-(np.log(STEPS + 1) - np.log(at + 1)) / width)))


def table(curves: dict[str, np.ndarray], run: str = "run") -> pd.DataFrame:
    frames = [pd.DataFrame({"step": STEPS, "reference": name, "value": values}) for name, values in curves.items()]
    return pd.concat(frames).assign(run=run, probe="KLToReference", quantity="kl")


def three_stages(noise: float = 0.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Curves that fall at 40, 200 and 450; minima of A*_1 half-way to 200, of A*_1:2 half-way to 450 (in log steps)."""
    first, second, third = drop(40), drop(200), drop(450)
    generator = np.random.default_rng(seed)
    curves = (
        2.6 - 1.8 * first + 1.0 * second + 0.3 * third,
        2.7 - 1.7 * first - 0.7 * second + 0.4 * third,
        2.7 - 1.7 * first - 0.7 * second - 0.25 * third,
    )
    return {name: c + noise * generator.standard_normal(len(STEPS)) for name, c in zip(NAMES, curves, strict=True)}


@pytest.fixture(scope="module")
def planted() -> Stages:
    """The stages in planted curves, found once. Not to be changed."""
    return find_stages(table(three_stages(noise=0.005)))


def test_three_planted_plateaus_are_three_stages_in_order(planted: Stages) -> None:
    assert planted.table["stage"].tolist() == [1, 2, 3]
    assert planted.turning_points["verdict"].tolist()[:2] == [TurnVerdict.PLATEAU] * 2
    first, second = planted.turning_points["step"].iloc[:2]
    assert 40 < first < 200 < second < 450
    assert planted.table["end"].tolist() == [first, second, 900]


@pytest.mark.slow
def test_the_interval_of_a_boundary_holds_the_true_turning_point() -> None:
    truth = {name: STEPS[curve.argmin()] for name, curve in three_stages().items()}
    points = pd.concat([find_stages(table(three_stages(0.01, seed))).turning_points for seed in range(20)])
    for name in NAMES[:2]:
        found = points[points["reference"] == name]
        assert ((found["lo"] <= truth[name]) & (truth[name] <= found["hi"])).mean() >= COVERED


def test_the_times_within_a_stage_are_those_of_its_transition() -> None:
    third = find_stages(table(three_stages())).table.iloc[2]
    assert third["t10"] < third["t50"] < third["t90"]
    assert third["t50"] == pytest.approx(450, rel=0.05)


@pytest.mark.one_of(5)
@pytest.mark.each_value
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_a_smooth_power_law_has_no_separate_stages(seed: int, noise: float) -> None:
    generator = np.random.default_rng(seed)
    law = 2.7 * (1 + STEPS / 10) ** -0.5
    curves = {name: law + noise * generator.standard_normal(len(STEPS)) for name in NAMES}
    assert len(find_stages(table(curves))) == 1


@pytest.mark.one_of(5)
@pytest.mark.each_value
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_noise_around_a_constant_has_no_separate_stages(seed: int, noise: float) -> None:
    generator = np.random.default_rng(seed)
    curves = {name: 2.0 + noise * generator.standard_normal(len(STEPS)) for name in NAMES}
    assert len(find_stages(table(curves))) == 1


@pytest.mark.slow
def test_a_random_walk_downwards_has_no_separate_stages_more_often_than_not() -> None:
    generator = np.random.default_rng(0)
    lengths = []
    for _ in range(10):
        walk = 3 - np.abs(0.02 * generator.standard_normal((3, len(STEPS)))).cumsum(1)
        lengths.append(len(find_stages(table(dict(zip(NAMES, walk, strict=True))))))
    assert lengths == [1] * 10


def test_references_passed_on_the_way_without_a_plateau_end_no_stage() -> None:
    everything = drop(150)
    curves = {
        "A*_1": 2.6 - 2.5 * everything + 4.0 * np.clip(everything - 0.5, 0, None),
        "A*_1:2": 2.6 - 2.5 * everything + 4.0 * np.clip(everything - 0.7, 0, None),
        "A*_1:3": 2.6 - 2.5 * everything,
    }
    stages = find_stages(table(curves))
    assert len(stages) == 1
    assert stages.turning_points["verdict"].tolist()[:2] == [TurnVerdict.PASSED] * 2
    assert "neither came close nor paused" in str(stages)


def test_a_curve_without_a_turning_point_ends_no_stage() -> None:
    curves = three_stages(noise=0.005)
    curves["A*_1:2"] = curves["A*_1:3"] + 0.2
    stages = find_stages(table(curves))
    points = stages.turning_points.set_index("reference")
    assert points["boundary"].tolist() == [True, False, False]
    assert points.loc["A*_1:2", "verdict"] == TurnVerdict.NO_RISE
    assert "has no turning point" in turning_points(stages.turning_points, stages.context)[1]


def test_resamples_of_the_batch_widen_the_interval() -> None:
    curves = three_stages()
    alone = find_stages(table(curves)).turning_points.iloc[0]
    shaken = table(curves)
    tilt = np.random.default_rng(0).standard_normal((100, 1)) * np.linspace(-0.5, 0.5, len(STEPS))
    shaken["resamples"] = [values + row for values, row in zip(shaken["value"], np.tile(tilt.T, (3, 1)), strict=True)]
    wider = find_stages(shaken).turning_points.iloc[0]
    assert wider["hi"] - wider["lo"] > alone["hi"] - alone["lo"]


def test_other_processes_find_the_same_turning_points() -> None:
    curves = table({**three_stages(noise=0.005), "near": drop(60), "still": 0.0 * STEPS})
    here, elsewhere = (find_stages(curves, NAMES, executor=pool).turning_points for pool in (None, AtOnce()))
    pd.testing.assert_frame_equal(here, elsewhere)


def test_an_unknown_reference_is_named() -> None:
    with pytest.raises(ValueError, match=r"no KL to \['A\*_9'\]; it has A\*_1"):
        find_stages(table(three_stages()), references=["A*_1", "A*_9"])


def test_three_checkpoints_are_too_few() -> None:
    few = table(three_stages())
    with pytest.raises(ValueError, match="at least 4 checkpoints, the table has 3"):
        find_stages(few[few["step"] < 4])


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("stricter", "verdict"),
    [
        ({"approach": 1.0}, TurnVerdict.NOT_APPROACHED),
        ({"depth": 1.0}, TurnVerdict.NO_RISE),
        ({"significance": 1e-4}, TurnVerdict.NOISE),
        ({"slowdown": 0.0, "close": 0.0}, TurnVerdict.PASSED),
        ({"slowdown": 0.0, "close": 1.0}, TurnVerdict.CLOSE),
    ],
)
def test_a_threshold_that_is_moved_decides_otherwise(stricter: dict[str, Any], verdict: TurnVerdict) -> None:
    criteria = dataclasses.replace(StageCriteria(), **stricter)
    stages = find_stages(table(three_stages(noise=0.005)), criteria=criteria)
    assert stages.turning_points["verdict"].tolist()[:2] == [verdict] * 2
    assert len(stages) == (3 if verdict == TurnVerdict.CLOSE else 1)


def test_boundaries_are_the_points_whose_verdict_ends_a_stage(planted: Stages) -> None:
    points = planted.turning_points
    ends = [TurnVerdict(verdict).ends_stage for verdict in points["verdict"]]
    assert points["boundary"].tolist() == ends == points["ends_stage"].notna().tolist() == [True, True, False]


def test_another_curve_corroborates_a_boundary_nearby_and_no_other() -> None:
    curves = three_stages(noise=0.005)
    near, far = curves["A*_1"] + 0.1, 2.6 - 1.8 * drop(10) + 1.0 * drop(30)
    stages = find_stages(table({**curves, "near": near, "far": far}), references=NAMES)
    points = stages.turning_points.set_index("reference")
    assert (points["verdict"]["near"], points["ends_stage"]["near"]) == (TurnVerdict.CORROBORATES, 1)
    assert points.loc["far", "verdict"] == TurnVerdict.ELSEWHERE
    wide = find_stages(table({**curves, "near": near, "far": far}), NAMES, StageCriteria(nearby=100.0))
    assert wide.turning_points.set_index("reference").loc["far", "verdict"] == TurnVerdict.CORROBORATES


def test_nested_references_come_in_their_order_whatever_they_are_called() -> None:
    measured = table(dict(zip(("b", "c", "a"), three_stages().values(), strict=True)))
    measured["nested"] = measured["reference"].map({"b": 2, "c": 1, "a": 0})
    assert nested_references(measured) == ("c", "b")
    assert nested_references(measured[measured["reference"] == "b"]) == ()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("seed", range(4))
def test_two_references_that_turn_at_one_step_are_one_boundary(seed: int) -> None:
    first, second = drop(60), drop(250)
    curves = 2.6 - 1.8 * first + 0.8 * second, 2.7 - 1.9 * first + 0.7 * second, 2.7 - 1.7 * first - 0.9 * second
    generator = np.random.default_rng(seed)
    noisy = {name: c + 0.03 * generator.standard_normal(len(STEPS)) for name, c in zip(NAMES, curves, strict=True)}
    assert find_stages(table(noisy)).turning_points["boundary"].sum() == 1


def test_several_values_of_kl_at_a_step_are_refused() -> None:
    rows = table(three_stages())
    with pytest.raises(ValueError, match=r"KL to A\*_1 has several values at step 30"):
        find_stages(pd.concat([rows, rows[rows["step"] == 30]]))


@pytest.mark.parametrize(("name", "unjudged"), [("A*_1", 1), ("A*_1:3", 3)])
def test_kl_that_is_not_finite_is_not_judged_and_said_to_be_so(name: str, unjudged: int) -> None:
    curves = three_stages(noise=0.005)
    curves[name][STEPS >= 600] = np.nan
    stages = find_stages(table(curves))
    points = stages.turning_points
    assert (points["verdict"] == TurnVerdict.NOT_FINITE).sum() == unjudged
    assert not points.loc[points["verdict"] == TurnVerdict.NOT_FINITE, "boundary"].any()
    reasons = dict(zip(points["reference"], turning_points(points, stages.context), strict=True))
    assert reasons[name].endswith("is not finite at step 600")


FIRST, SECOND = (0.95, 0.9, 0.8, 0.99), (0.7, 0.6, 0.5, 0.3)
STRAIGHT = np.arange(0, 1500, 25)
PATHS = {
    "sharpening": lambda part, p: p**part / (p**part + (1 - p) ** part),
    "mixture": lambda part, p: (1 - part) / 2 + part * p,
    "late": lambda part, p: (1 - part**3) / 2 + part**3 * p,
}


def straight(first: float, second: float, path: str, noise: float, seed: int) -> pd.DataFrame:
    """KL of a model of two equally likely contexts that goes straight to the complete solution, past their mean."""
    part = 1 - np.exp(-STRAIGHT / 300)
    complete = np.array([first, second])
    model = np.array([PATHS[path](one, complete) for one in part]).clip(1e-9, 1 - 1e-9)
    draws = noise * np.random.default_rng(seed).standard_normal((2, len(STRAIGHT)))

    def kl(reference: np.ndarray) -> np.ndarray:
        divergence = reference * np.log(reference / model) + (1 - reference) * np.log((1 - reference) / (1 - model))
        return np.asarray(divergence.mean(1))

    curves = dict(zip(("A*_1", "A*_1:2"), (kl(np.full(2, complete.mean())), kl(complete)), strict=True))
    frames = [
        pd.DataFrame({"step": STRAIGHT, "reference": name, "nested": i, "value": values + draw})
        for i, ((name, values), draw) in enumerate(zip(curves.items(), draws, strict=True), start=1)
    ]
    return pd.concat(frames).assign(run="run", probe="KLToReference", quantity="kl")


@pytest.mark.one_of(8)
@pytest.mark.parametrize("noise", [0.0, 0.0005])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("first", "second"), [*itertools.product(FIRST, SECOND)])
def test_a_model_that_goes_straight_to_the_complete_solution_leaves_no_partial_one(
    first: float, second: float, path: str, noise: float
) -> None:
    stages = find_stages(straight(first, second, path, noise, seed=int(100 * (first + second))))
    points = stages.turning_points.set_index("reference")
    assert not points["boundary"].any(), points.T.to_string()
    assert points.loc["A*_1", "verdict"] != TurnVerdict.OVERFITS  # the complete one never rises: nothing is lost


def test_a_complete_solution_that_rises_again_is_lost() -> None:
    steps = STEPS.astype(float)
    late = 0.8 * (np.maximum(steps - 400, 0) / 500) ** 1.5
    falling = 2.6 - 2.3 * drop(150, 0.5)
    noise = 0.01 * np.random.default_rng(0).standard_normal((3, len(steps)))
    curves = {name: falling + part * late + one for name, part, one in zip(NAMES, (1.3, 1.1, 1.0), noise, strict=True)}
    assert TurnVerdict.OVERFITS in find_stages(table(curves)).turning_points["verdict"].tolist()
