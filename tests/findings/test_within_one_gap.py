"""A change within one gap is told by its ends, at few evaluations too; no level and no size lies where none can be."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.stages import Stages, find_stages
from stagewise.words._answer import answer

ERROR = 0.012


def found(**curves: Any) -> Stages:
    return find_stages(read_log(curves))


def evaluations(number: int, place: int, low: float = 0.25, high: float = 0.7) -> dict[str, np.ndarray]:
    """A share with its standard errors that is learned between two of a few evaluations."""
    values = np.where(np.arange(number) >= place, high, low)
    steps = np.linspace(0, 143_000, number).astype(int)
    noise = np.random.default_rng(number).normal(0, ERROR, number)
    return {"step": steps, "acc": values + noise, "acc_stderr": np.full(number, ERROR)}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("number", [6, 10, 14])
@pytest.mark.parametrize("at_first", [True, False])
def test_with_given_errors_a_few_evaluations_tell_the_gap(number: int, at_first: bool) -> None:
    place = 1 if at_first else number // 2
    curve = evaluations(number, place)
    stages = found(**curve)
    lo, hi = curve["step"][place - 1], curve["step"][place]
    assert stages.table[["start_lo", "start_hi"]].iloc[1:].to_numpy().tolist() == [[lo, hi]]
    assert (
        f"Between steps {lo} and {hi} (one gap: when within it, these checkpoints cannot say): acc from 0."
        in (answer(stages)[1])
    )


@pytest.mark.one_of(2)
@pytest.mark.parametrize("number", [6, 10, 14])
@pytest.mark.parametrize("slope", [0.0, 0.4])
def test_chance_and_a_line_within_their_errors_are_no_transition_at_a_few(number: int, slope: float) -> None:
    curve = evaluations(number, 0)
    curve["acc"] = curve["acc"] - 0.45 + slope * np.arange(number) / number
    assert answer(found(**curve))[0] == "No transition was found."


def test_the_results_of_an_evaluation_harness_tell_the_gap_of_a_task(tmp_path: Path) -> None:
    curve = evaluations(6, 3)
    for step, value in zip(curve["step"].tolist(), curve["acc"].tolist(), strict=True):
        task = {"alias": "arc_easy", "acc,none": value, "acc_stderr,none": ERROR}
        results = {"results": {"arc_easy": task}, "n-shot": {"arc_easy": 0}, "config": {"batch_size": 8}}
        (tmp_path / f"results_step{step}.json").write_text(json.dumps(results))
    stages = find_stages(read_log(tmp_path))
    lo, hi = curve["step"][2:4].tolist()
    assert stages.table[["start_lo", "start_hi"]].iloc[1:].to_numpy().tolist() == [[lo, hi]]


@pytest.mark.parametrize(("first", "rest"), [(0, 1000), (0, 11_000), (512, 1000)])
def test_a_share_that_is_learned_in_the_first_gap_is_told_by_its_ends(first: int, rest: int) -> None:
    steps = np.append(first, rest + 1000 * np.arange(29))
    noise = np.random.default_rng(0).normal(0, 0.005, 30)
    stages = found(step=steps, accuracy=np.where(steps > first, 0.9, 0.1) + noise)
    assert f"Between steps {first} and {rest} (one gap" in answer(stages)[1]


def test_a_change_over_several_gaps_has_a_step_with_its_interval() -> None:
    steps = 1000 * np.arange(30)
    noise = np.random.default_rng(1).normal(0, 0.005, 30)
    told = answer(found(step=steps, accuracy=0.1 + 0.8 / (1 + np.exp(-(steps - 12_000) / 1500)) + noise))[1]
    assert told.startswith("Half-way at step 12")
    assert "one gap" not in told


@pytest.mark.parametrize("seed", range(3))
def test_a_size_that_would_be_seen_is_one_that_a_share_can_have(seed: int) -> None:
    draw = np.random.default_rng(seed)
    noisy = found(step=100 * np.arange(12), accuracy=np.clip(0.5 + draw.normal(0, 0.3, 12), 0, 1))
    assert not (noisy.power["size"] > 1).any()
    assert "would be seen" in " ".join(answer(noisy))


@pytest.mark.parametrize("width", [200, 800])
def test_levels_are_those_that_can_be(width: int) -> None:
    steps = 500 * np.arange(60)
    learned = 1 / (1 + np.exp(-(steps - 12_000) / width))
    noise = np.random.default_rng(2).normal(0, 0.02, (2, 60))
    accuracy, loss = np.clip(learned + noise[0], 0, 1), np.maximum(3 * (1 - learned) + noise[1], 0.001)
    stages = found(step=steps, accuracy=accuracy, loss=loss)
    levels = stages.onsets.set_index("quantity")[["before", "after"]]
    assert ((levels.loc["accuracy"] >= 0) & (levels.loc["accuracy"] <= 1)).all()
    assert stages.levels[["before", "after"]].to_numpy().min() > 0
    assert len(stages) == 2
