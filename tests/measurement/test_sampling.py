"""Sampling around checkpoints: its cost beforehand, and what is there already, which is not sampled again."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from stagewise import models
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement._langevin import Coefficient, Loss, Sampler, local_learning_coefficient, loss_of
from stagewise.measurement._sampling import Sampling, _Cost
from stagewise.measurement.learning_coefficient import measure_learning_coefficients
from stagewise.models import Model
from tests.fixtures.sampled import BATCH, MADE, SHORT, TASK

pytest.importorskip("devinterp")

STATES = [models.weights(models.build(MADE, seed=seed)) for seed in range(3)]
RUN = CheckpointSeries("run", MADE, (0, 1, 2), lambda step: STATES[step])


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many numbers each coefficient that is sampled is of; 0 for all."""
    seen: list[int] = []

    def noted(
        loss: Loss, parameters: Sequence[torch.Tensor], n: int, sampler: Sampler, masks: Sequence[torch.Tensor] | None
    ) -> Coefficient:
        seen.append(0 if masks is None else sum(int(mask.sum()) for mask in masks))
        return local_learning_coefficient(loss, parameters, n, sampler, masks)

    monkeypatch.setattr("stagewise.measurement._langevin.local_learning_coefficient", noted)
    return seen


def test_what_is_there_is_not_sampled_again(tmp_path: Path, sampled: list[int]) -> None:
    first = measure_learning_coefficients(RUN[1:], BATCH, SHORT, folder=tmp_path, progress=False)
    assert sampled == [0, 0]
    whole = measure_learning_coefficients(RUN, BATCH, SHORT, folder=tmp_path, heads=True, progress=False)
    assert sampled.count(0) == 3
    assert len(sampled) == 3 + 3 * 2
    again = measure_learning_coefficients(RUN, BATCH, SHORT, folder=tmp_path, heads=True, progress=False)
    assert len(sampled) == 9
    assert again.equals(whole)
    fresh = measure_learning_coefficients(RUN[1:], BATCH, SHORT, progress=False)
    assert fresh.equals(first)


@pytest.mark.parametrize("other", ["batch", "sampler", "weights"])
def test_what_another_batch_sampler_or_weights_gave_is_not_taken(
    other: str, tmp_path: Path, sampled: list[int]
) -> None:
    measure_learning_coefficients(RUN[:1], BATCH, SHORT, folder=tmp_path, progress=False)
    run = dataclasses.replace(RUN[:1], load=lambda step: STATES[1]) if other == "weights" else RUN[:1]
    batch = TASK.probe_batch(16, seed=1) if other == "batch" else BATCH
    sampler = dataclasses.replace(SHORT, seed=1) if other == "sampler" else SHORT
    measure_learning_coefficients(run, batch, sampler, folder=tmp_path, progress=False)
    assert len(sampled) == 2


def test_an_interrupted_sampling_resumes_with_the_next_coefficient(tmp_path: Path, sampled: list[int]) -> None:
    def load(step: int) -> State:
        if step == 2:
            raise KeyboardInterrupt
        return STATES[step]

    with pytest.raises(KeyboardInterrupt):
        measure_learning_coefficients(
            dataclasses.replace(RUN, load=load), BATCH, SHORT, folder=tmp_path, heads=True, progress=False
        )
    assert len(sampled) == 2 * 3
    resumed = measure_learning_coefficients(RUN, BATCH, SHORT, folder=tmp_path, heads=True, progress=False)
    assert len(sampled) == 3 * 3
    assert resumed.equals(measure_learning_coefficients(RUN, BATCH, SHORT, heads=True, progress=False))


def test_a_damaged_file_is_sampled_again(tmp_path: Path, sampled: list[int]) -> None:
    before = measure_learning_coefficients(RUN[:1], BATCH, SHORT, folder=tmp_path, progress=False)
    (file,) = tmp_path.glob("*/step-*.json")
    file.write_text("{", encoding="utf8")
    with pytest.warns(UserWarning, match="step-00000000-whole"):
        after = measure_learning_coefficients(RUN[:1], BATCH, SHORT, folder=tmp_path, progress=False)
    assert len(sampled) == 2
    assert after.equals(before)


def test_the_cost_is_what_is_left_to_do(tmp_path: Path) -> None:
    how = Sampling(RUN, BATCH, SHORT, heads=True, folder=tmp_path)
    assert how.cost()[:3] == (3, 9, 9 * 12)
    assert how.cost().seconds > 0
    measure_learning_coefficients(RUN[1:], BATCH, SHORT, folder=tmp_path, progress=False)
    assert how.cost()[:3] == (3, 7, 7 * 12)
    measure_learning_coefficients(RUN, BATCH, SHORT, folder=tmp_path, heads=True, progress=False)
    assert how.cost() == _Cost(0, 0, 0, 0.0)


def test_the_trial_leaves_the_weights_and_refuses_a_step_too_large() -> None:
    how = Sampling(RUN, BATCH, SHORT)
    how.cost()
    assert torch.equal(models.weights(how._model)["embed.W_E"], STATES[2]["embed.W_E"])
    steep = [{**state, "unembed.W_U": 1e18 * state["unembed.W_U"]} for state in STATES]
    run = dataclasses.replace(RUN, load=lambda step: steep[step])
    with pytest.raises(
        ValueError, match=r"step 0 of 'run', the whole model: a chain diverged: step_size = 1e\+10 is too large"
    ):
        Sampling(run, BATCH, dataclasses.replace(SHORT, step_size=1e10)).cost()


def test_a_cost_is_said_in_words() -> None:
    assert str(_Cost(3, 9, 108, 0.01)).endswith(
        "9 coefficients of 3 checkpoints are sampled in 108 updates: less than a minute"
    )
    assert str(_Cost(24, 96, 230400, 0.02)).endswith("230400 updates: about 1 h 17 min")
    assert str(_Cost(0, 0, 0, 0.0)) == "all coefficients are there already"


def test_draws_that_begin_before_flat_directions_are_at_rest_are_named_with_what_helps() -> None:
    hasty = Sampler(step_size=0.02, localization=1.0, inverse_temperature=5.0, burn_in=200)
    sampling = Sampling(RUN, BATCH, hasty)
    position = 1.0
    for _ in range(500):  # without noise, and where the gradient is zero
        position -= 0.02 / 5 / 2 * 1.0 * position
    assert position == pytest.approx(math.exp(-1), rel=0.01)
    said = "comes to rest in about 500 steps, and the draws begin after 200: take a burn-in of 1000, "
    assert said in sampling.advice()
    for better in ({"burn_in": 1000}, {"step_size": 0.1}, {"localization": 5.0}, {"localization": 0.0}):
        assert Sampling(RUN, BATCH, dataclasses.replace(hasty, **better)).advice() == ""


def test_some_sequences_are_drawn_by_the_generator() -> None:
    model: Model = models.build(MADE)
    seen: list[torch.Tensor] = []

    def predict(tokens: torch.Tensor, scored: torch.Tensor) -> torch.Tensor:
        seen.append(tokens)
        return model(tokens)[scored]

    loss = loss_of(predict, BATCH, 5)
    for draw in (None, torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)):
        loss(draw)
    assert [len(each) for each in seen] == [16, 5, 5]
    assert not torch.equal(seen[1], seen[2])


def test_what_another_version_of_the_sampler_gave_is_not_taken(
    tmp_path: Path, sampled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    measure_learning_coefficients(RUN[:1], BATCH, SHORT, folder=tmp_path, progress=False)
    monkeypatch.setattr("stagewise.measurement._sampling.inspect.getsource", lambda module: "another version")
    measure_learning_coefficients(RUN[:1], BATCH, SHORT, folder=tmp_path, progress=False)
    assert len(sampled) == 2
