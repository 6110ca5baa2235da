"""Curricula: easier data up to a step, the task's own from there on, of three tasks."""

from pathlib import Path

import pytest

from evidence.calibration.curricula import STUDIES, learned_easier, main, recipe_of, times, trained


@pytest.mark.parametrize("name", STUDIES)
def test_data_are_easier_up_to_a_step_and_the_tasks_own_from_there_on(name: str) -> None:
    study = STUDIES[name]
    easier, own = study.values
    recipe, without = (recipe_of(study, stop, seed=1) for stop in (20, 0))
    assert [recipe.at(step).field(study.field) for step in (0, 19, 20)] == pytest.approx([easier, easier, own])
    assert without.schedules is None
    assert recipe.task == without.task
    assert without.field(study.field) == own
    assert without.task.probe_batch(4, 0).tokens.equal(recipe.task.probe_batch(4, 0).tokens)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_times_of_a_curriculum_are_drawn(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = main(name, tmp_path, seeds=(0, 1), steps=30, every=10, stops=(20,))
    assert figure.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert f"steps to {STUDIES[name].levels[0]}" in printed
    assert "easier data are learned, step by seed: [30, 30]" in printed


@pytest.mark.slow
def test_a_task_is_learned_sooner_with_copies_than_without(tmp_path: Path) -> None:
    study = STUDIES["regression"]._replace(steps=200)
    [with_copies, without] = trained(study, tmp_path, {("always", 0): 200, ("none", 0): 0})
    learned = [times(study, curve, 0.2)["hi"].item() for curve in (with_copies, without)]
    assert learned[0] < learned[1] <= 170
    assert 60 <= learned_easier(study, tmp_path, 0) <= 120
