"""Learning coefficients of checkpoints: rows, heads, and models whose coefficient is known."""

import concurrent.futures
import dataclasses
import math
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

from stagewise import models
from stagewise.checkpoints.series import CheckpointSeries, State, open_series
from stagewise.measurement._langevin import Coefficient, Loss, Sampler, local_learning_coefficient, loss_of
from stagewise.measurement.learning_coefficient import Sampling, _Cost, measure_learning_coefficients
from stagewise.models import Model
from stagewise.table import declared, select
from stagewise.task import Batch
from tests.fixtures.sampled import BATCH, MADE, SHORT, TASK

pytest.importorskip("devinterp")


def series(*states: State) -> CheckpointSeries:
    return CheckpointSeries("run", MADE, tuple(range(len(states))), lambda step: states[step])


def test_every_checkpoint_and_head_has_its_rows_and_chains_are_the_same_again() -> None:
    run = series(*(models.weights(models.build(MADE, seed=seed)) for seed in range(2)))
    table = measure_learning_coefficients(run, BATCH, SHORT, heads=True, progress=False)
    assert len(select(table, "LearningCoefficient", "whole_model")) == 2
    assert len(select(table, "LearningCoefficient", "of_head")) == 2 * 2
    assert set(table["quantity"]) == set(declared(table)["LearningCoefficient"])
    rows = select(table, "LearningCoefficient", "whole_model")
    assert ((rows["lo"] < rows["value"]) & (rows["value"] < rows["hi"]) & (rows["n"] == 2)).all()
    again = measure_learning_coefficients(run[1:], BATCH, SHORT, progress=False)
    last = rows[rows["step"] == 1]["value"].item()
    assert select(again, "LearningCoefficient", "whole_model")["value"].item() == last


def test_processes_sample_the_same_numbers_and_the_folder_keeps_them(tmp_path: Path) -> None:
    states = [models.weights(models.build(MADE, seed=seed)) for seed in range(3)]
    states[1]["unembed.W_U"] = states[1]["unembed.W_U"] * torch.nan
    run = series(*states)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        there = measure_learning_coefficients(
            run, BATCH, SHORT, heads=True, folder=tmp_path, progress=False, executor=pool
        )
    assert there["step"].unique().tolist() == [0, 2]
    assert len(list(tmp_path.glob("*/step-*.json"))) == 2 * 3
    with pytest.warns(UserWarning, match="step 1 of 'run' holds nan"):
        here = measure_learning_coefficients(run, BATCH, SHORT, heads=True, progress=False)
    pd.testing.assert_frame_equal(there, here)


def test_a_head_that_nothing_depends_on_has_zero() -> None:
    """All that it writes is multiplied by zero, and its own output weights get no gradient from values of zero."""
    state = dict(models.weights(models.build(MADE)))
    for name in ("W_V", "b_V", "W_O"):
        weight = state[f"blocks.0.attn.{name}"].clone()
        weight[1] = 0
        state[f"blocks.0.attn.{name}"] = weight
    still = Sampler(draws=20, burn_in=0, chains=2, step_size=1e-9, localization=0.0)
    table = measure_learning_coefficients(series(state), BATCH, still, heads=True, progress=False)
    values = select(table, "LearningCoefficient", "of_head").set_index("head")["value"]
    assert abs(values[1]) < 1e-3


@pytest.mark.slow
def test_of_the_output_bias_of_a_model_it_is_half_of_the_logits_that_count() -> None:
    """Four tokens that come equally often, of constant logits: the loss curves in all directions but their sum."""
    model, batch = models.build(MADE), BATCH[:4]
    targets = batch.targets.clone()
    targets[batch.scored] = torch.arange(int(batch.scored.sum())) % 4
    batch, named = dataclasses.replace(batch, targets=targets), models.parameters(model)
    with torch.no_grad():
        named["unembed.W_U"].zero_()
        named["unembed.b_U"].zero_()
    sampler = Sampler(step_size=0.8, draws=2000, burn_in=150, chains=2, localization=1.0)
    loss = loss_of(lambda tokens, scored: model(tokens)[scored], batch, len(batch))
    found = local_learning_coefficient(loss, [named["unembed.b_U"]], 10**5, sampler)
    assert found.mean == pytest.approx((4 - 1) / 2, rel=0.1)


@pytest.mark.slow
def test_some_sequences_a_step_give_about_what_all_give() -> None:
    state = models.weights(models.build(MADE))
    values = []
    for sequences in (None, 8):
        sampler = Sampler(step_size=0.05, draws=150, burn_in=50, chains=2, sequences=sequences, localization=50.0)
        table = measure_learning_coefficients(series(state), BATCH, sampler, progress=False)
        values.append(select(table, "LearningCoefficient", "whole_model")["value"].item())
    assert values[1] == pytest.approx(values[0], abs=0.25 * abs(values[0]) + 1)
    assert values[1] != values[0]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama"])
def test_a_bridge_is_sampled_as_a_whole_and_its_heads_are_refused(
    kind: str, hugging_face: Callable[..., nn.Module]
) -> None:
    run = open_series([(0, hugging_face(kind))])
    tokens = torch.randint(32, (4, 6), generator=torch.Generator().manual_seed(0))
    batch = Batch.from_tokens(tokens)
    once = Sampler(draws=1, burn_in=0, chains=1)
    at_start = measure_learning_coefficients(run, batch, once, progress=False)
    assert abs(select(at_start, "LearningCoefficient", "whole_model")["value"].item()) < 1e-3
    moved = measure_learning_coefficients(run, batch, dataclasses.replace(SHORT, step_size=0.1), progress=False)
    assert abs(select(moved, "LearningCoefficient", "whole_model")["value"].item()) > 1e-2
    unread = CheckpointSeries("run", run.architecture, (0,), lambda step: pytest.fail("nothing is sampled before"))
    with pytest.raises(ValueError, match=r"single heads of .* are not told apart"):
        measure_learning_coefficients(unread, batch, once, heads=True, progress=False)


def test_checkpoints_that_hold_nan_are_left_out() -> None:
    state = models.weights(models.build(MADE))
    broken = {**state, "unembed.W_U": state["unembed.W_U"] * float("nan")}
    with pytest.warns(UserWarning, match="step 0 of 'run' holds nan"):
        table = measure_learning_coefficients(series(broken, state), BATCH, SHORT, progress=False)
    assert set(table["step"]) == {1}


def test_where_all_hold_nan_nothing_is_sampled() -> None:
    state = models.weights(models.build(MADE))
    broken = {**state, "unembed.W_U": state["unembed.W_U"] * float("nan")}
    with (
        pytest.warns(UserWarning, match="holds nan"),
        pytest.raises(ValueError, match="all checkpoints of 'run' hold nan or infinity: there is nothing to sample"),
    ):
        measure_learning_coefficients(series(broken), BATCH, SHORT, progress=False)


def test_the_chains_of_heads_have_their_drift_too() -> None:
    run = series(models.weights(models.build(MADE)))
    table = measure_learning_coefficients(run, BATCH, SHORT, heads=True, progress=False)
    assert len(select(table, "LearningCoefficient", "drift_of_head")) == 2


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
    monkeypatch.setattr("stagewise.measurement._langevin.VERSION", 0)
    measure_learning_coefficients(RUN[:1], BATCH, SHORT, folder=tmp_path, progress=False)
    assert len(sampled) == 2
