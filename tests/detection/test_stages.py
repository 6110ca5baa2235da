import numpy as np
import pandas as pd
import pytest

from stagewise.detection.head_labels import head_events
from stagewise.detection.stages import find_stages

STEPS = np.unique(np.concatenate([[0, 1, 2, 4, 8], np.arange(15, 901, 15)]))
NAMES = ("A*_1", "A*_1:2", "A*_1:3")

COVERED = 0.8
"""Lower bound on how often a 95 % interval holds the truth: 30 draws of a 95 % event fall below it once in 10,000."""


def drop(at: float, width: float = 0.1) -> np.ndarray:
    """A transition from 0 to 1 at a step, `width` e-folds wide."""
    return 1 / (1 + np.exp(-(np.log(STEPS + 1) - np.log(at + 1)) / width))


def table(curves: dict[str, np.ndarray], run: str = "run") -> pd.DataFrame:
    frames = [pd.DataFrame({"step": STEPS, "reference": name, "value": values}) for name, values in curves.items()]
    return pd.concat(frames).assign(run=run, probe="KLToReference", quantity="kl")


def three_stages(noise: float = 0.0, seed: int = 0) -> dict[str, np.ndarray]:
    """Curves that fall at 40, 200 and 450; A*_1 turns up half-way to 200, A*_1:2 half-way to 450 (in log steps)."""
    first, second, third = drop(40), drop(200), drop(450)
    generator = np.random.default_rng(seed)
    curves = (
        2.6 - 1.8 * first + 1.0 * second + 0.3 * third,
        2.7 - 1.7 * first - 0.7 * second + 0.4 * third,
        2.7 - 1.7 * first - 0.7 * second - 0.25 * third,
    )
    return {name: c + noise * generator.standard_normal(len(STEPS)) for name, c in zip(NAMES, curves, strict=True)}


def test_three_planted_plateaus_are_three_stages_in_order() -> None:
    stages = find_stages(table(three_stages(noise=0.005)))
    assert stages.table["stage"].tolist() == [1, 2, 3]
    first, second = stages.turning_points["step"].iloc[:2]
    assert 40 < first < 200 < second < 450
    assert stages.table["end"].tolist() == [first, second, 900]


def test_the_interval_of_a_boundary_holds_the_true_turning_point() -> None:
    truth = {name: STEPS[curve.argmin()] for name, curve in three_stages().items()}
    points = pd.concat([find_stages(table(three_stages(0.01, seed))).turning_points for seed in range(30)])
    for name in NAMES[:2]:
        found = points[points["reference"] == name]
        assert ((found["lo"] <= truth[name]) & (truth[name] <= found["hi"])).mean() >= COVERED


def test_the_times_within_a_stage_are_those_of_its_transition() -> None:
    third = find_stages(table(three_stages())).table.iloc[2]
    assert third["t10"] < third["t50"] < third["t90"]
    assert third["t50"] == pytest.approx(450, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_a_smooth_power_law_has_no_separate_stages(seed: int, noise: float) -> None:
    generator = np.random.default_rng(seed)
    law = 2.7 * (1 + STEPS / 10) ** -0.5
    curves = {name: law + noise * generator.standard_normal(len(STEPS)) for name in NAMES}
    assert len(find_stages(table(curves))) == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_noise_around_a_constant_has_no_separate_stages(seed: int, noise: float) -> None:
    generator = np.random.default_rng(seed)
    curves = {name: 2.0 + noise * generator.standard_normal(len(STEPS)) for name in NAMES}
    assert len(find_stages(table(curves))) == 1


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
    assert "neither came close nor paused" in stages.words()


def test_a_curve_that_never_turns_up_ends_no_stage() -> None:
    curves = three_stages(noise=0.005)
    curves["A*_1:2"] = curves["A*_1:3"] + 0.2
    points = find_stages(table(curves)).turning_points.set_index("reference")
    assert points["boundary"].tolist() == [True, False, False]
    assert "does not turn up" in points.loc["A*_1:2", "reason"]


def test_resamples_of_the_batch_widen_the_interval() -> None:
    curves = three_stages()
    alone = find_stages(table(curves)).turning_points.iloc[0]
    shaken = table(curves)
    tilt = np.random.default_rng(0).standard_normal((100, 1)) * np.linspace(-0.5, 0.5, len(STEPS))
    shaken["resamples"] = [values + row for values, row in zip(shaken["value"], np.tile(tilt.T, (3, 1)), strict=True)]
    wider = find_stages(shaken).turning_points.iloc[0]
    assert wider["hi"] - wider["lo"] > alone["hi"] - alone["lo"]


def test_several_runs_are_refused() -> None:
    both = pd.concat([table(three_stages(), "a"), table(three_stages(), "b")])
    with pytest.raises(ValueError, match="one run at a time, the table has 2"):
        find_stages(both)


def test_an_unknown_reference_is_named() -> None:
    with pytest.raises(ValueError, match=r"no KL to \['A\*_9'\]; it has A\*_1"):
        find_stages(table(three_stages()), references=["A*_1", "A*_9"])


def test_a_table_without_references_is_refused() -> None:
    with pytest.raises(ValueError, match=r"neither KL to .* nor scores that onsets are looked for in"):
        find_stages(table(three_stages()).assign(probe="Loss"))


def test_three_checkpoints_are_too_few() -> None:
    few = table(three_stages())
    with pytest.raises(ValueError, match="at least 4 checkpoints, the table has 3"):
        find_stages(few[few["step"] < 4])


def shares(of_the_first: list[float]) -> pd.DataFrame:
    frames = [
        pd.DataFrame({"step": range(len(values)), "relation": name, "value": values})
        for name, values in (("I(1)", of_the_first), ("I(2)", [1 - share for share in of_the_first]))
    ]
    frame = pd.concat(frames).assign(run="run", probe="HeadSpecialisation", quantity="share", layer=0, head=1)
    return frame


def test_a_head_that_moves_for_good_is_one_event_between_two_checkpoints() -> None:
    (event,) = head_events(shares([0.9, 0.9, 0.8, 0.2, 0.1, 0.1])).to_dict("records")
    assert event == {
        "layer": 0,
        "head": 1,
        "before": "I(1)",
        "after": "I(2)",
        "last_step_before": 2,
        "first_step_after": 3,
    }


def test_a_visit_of_one_checkpoint_is_no_event() -> None:
    assert head_events(shares([0.9, 0.9, 0.2, 0.9, 0.9, 0.9])).empty


def test_a_head_at_the_edge_keeps_its_name_until_another_has_half() -> None:
    three_way = pd.concat(
        [
            shares([0.6, 0.6, 0.45, 0.45, 0.3, 0.3]).query("relation == 'I(1)'"),
            shares([0.8, 0.8, 0.8, 0.8, 0.8, 0.8]).query("relation == 'I(2)'"),
        ]
    )
    assert head_events(three_way)[["before", "after", "first_step_after"]].to_numpy().tolist() == [
        ["I(1)", "diffuse", 4]
    ]
