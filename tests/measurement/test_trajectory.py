"""Trajectories of known shape: a line, a circle, a random walk; and those of series of models."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import minimal
from stagewise.checkpoints.series import CheckpointSeries, State, open_series
from stagewise.init import GaussianInit
from stagewise.measurement import trajectory as module
from stagewise.measurement.trajectory import _principal_components, compare_checkpoints, measure_trajectory
from stagewise.table import select
from stagewise.tasks import MarkovChain

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=6)
BATCH = TASK.probe_batch(8, seed=0)
MADE = minimal(TASK.d_vocab, TASK.n_ctx)


def series(states: Mapping[int, State]) -> CheckpointSeries:
    return CheckpointSeries("run", MADE, tuple(states), states.__getitem__)


def between(part: float) -> State:
    one, other = (models.weights(models.build(MADE, seed=seed)) for seed in (0, 1))
    return {name: (1 - part) * one[name] + part * other[name] for name in one}


def test_a_line_has_one_component_and_its_own_lengths() -> None:
    positions, explained = _principal_components(np.outer([0.0, 1.0, 4.0], [3.0, 4.0, 0.0, 0.0]), 2)
    assert explained == pytest.approx([1, 0], abs=1e-12)
    assert np.diff(positions[:, 0]) == pytest.approx([5, 15])


def test_a_circle_has_two_of_the_same_share() -> None:
    angle = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    plane = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 2)))[0]
    positions, explained = _principal_components(np.stack([np.cos(angle), np.sin(angle)], 1) @ plane.T, 3)
    assert explained == pytest.approx([0.5, 0.5, 0], abs=1e-9)
    assert np.linalg.norm(positions[:, :2], axis=1) == pytest.approx(1)


@pytest.mark.slow
def test_a_random_walk_has_the_shares_and_the_waves_that_are_known_of_it() -> None:
    """Antognini and Sohl-Dickstein (2018): 6 / (pi k)^2 of the variance, and cosines of k half periods."""
    n = 400
    walk = np.random.default_rng(0).normal(size=(n, 20_000)).cumsum(0)
    positions, explained = _principal_components(walk, 3)
    for k in (1, 2, 3):
        assert explained[k - 1] == pytest.approx(6 / (np.pi * k) ** 2, rel=0.05)
        wave = np.cos(np.pi * k * np.arange(n) / n)
        assert abs(np.corrcoef(positions[:, k - 1], wave)[0, 1]) > 0.99


def test_all_components_keep_all_distances_between_checkpoints() -> None:
    states = {step: models.weights(models.build(MADE, seed=step)) for step in range(5)}
    table = measure_trajectory(series(states), components=9, progress=False)
    wide = select(table, "Trajectory", "position").pivot_table(index="step", columns="component", values="value")
    assert wide.shape == (5, 4)
    for one in range(5):
        for other in range(one):
            squares = sum(float((states[one][name] - states[other][name]).square().sum()) for name in states[one])
            distance = np.linalg.norm(wide.loc[one] - wide.loc[other])
            assert float(distance) == pytest.approx(squares**0.5, rel=1e-5)
    assert select(table, "Trajectory", "explained")["value"].sum() == pytest.approx(1)


def test_weights_on_a_line_are_seen_on_one_component_in_the_order_of_the_steps() -> None:
    table = measure_trajectory(series({step: between(step / 4) for step in range(5)}), progress=False)
    first = select(table, "Trajectory", "position", component="PC1")["value"].to_numpy()
    assert np.diff(first) == pytest.approx(np.diff(first)[0] * np.ones(4))
    assert np.diff(first)[0] > 0
    explained = select(table, "Trajectory", "explained")
    assert explained["value"].to_numpy() == pytest.approx([1, 0, 0], abs=1e-6)
    assert set(explained["step"]) == {4}


@pytest.mark.hooked_only("the state dict of a native bridge holds no such buffers")
def test_buffers_of_a_hooked_transformers_own_state_dict_are_no_part_of_the_way(tmp_path: Path) -> None:
    hooked = {step: models.build(MADE, seed=step) for step in range(4)}
    for step, model in hooked.items():
        torch.save(model.state_dict(), tmp_path / f"model_{step}.pt")
    assert torch.load(tmp_path / "model_0.pt")["blocks.0.attn.IGNORE"].isneginf()
    table = measure_trajectory(open_series(tmp_path, architecture=MADE, name="run"), progress=False)
    expected = measure_trajectory(
        series({step: models.weights(model) for step, model in hooked.items()}), progress=False
    )
    pd.testing.assert_frame_equal(table, expected)


def test_distances_of_predictions_are_the_mean_over_positions() -> None:
    states = {step: between(float(step)) for step in range(2)}
    table = measure_trajectory(series(states), BATCH, progress=False)
    model, found = models.build(MADE), []
    for state in states.values():
        models.load(model, state)
        found.append(models.clean_pass(model, BATCH.tokens, ())[0][BATCH.scored])
    expected = (found[0] - found[1]).square().sum(-1).mean().sqrt()
    first = select(table, "Trajectory", "position", component="PC1")["value"].to_numpy()
    assert first[1] - first[0] == pytest.approx(float(expected), rel=1e-4)


def test_large_weights_are_sketched_and_their_way_stays_about_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def walk() -> pd.DataFrame:
        table = measure_trajectory(series({step: between(step / 4) for step in range(5)}), progress=False)
        return select(table, "Trajectory", "position", component="PC1")

    whole = walk()["value"].to_numpy()
    monkeypatch.setattr(module, "_NUMBERS", 1)
    assert walk()["value"].to_numpy() == pytest.approx(whole, abs=0.15 * whole.max())


def test_what_has_no_way_is_refused() -> None:
    with pytest.raises(ValueError, match="two checkpoints or more, 'run' has 1"):
        measure_trajectory(series({0: between(0)}), progress=False)
    with pytest.raises(ValueError, match="at least one component, got 0"):
        measure_trajectory(series({0: between(0), 1: between(1)}), components=0, progress=False)
    broken = {name: weight * float("nan") for name, weight in between(0).items()}
    for first, read in ((between(0), 1), (broken, 0)):
        refused = pytest.raises(ValueError, match=f"two checkpoints or more, 'run' has {read} to read")
        with pytest.warns(UserWarning, match="holds nan"), refused:
            measure_trajectory(series({0: first, 1: broken}), progress=False)


COMPARING_TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=6)
COMPARING_BATCH = COMPARING_TASK.probe_batch(30, seed=0)
SIZES = {
    "n_layers": 2,
    "n_heads": 2,
    "d_model": 12,
    "d_head": 3,
    "n_ctx": COMPARING_TASK.n_ctx,
    "d_vocab": 4,
    "d_mlp": 8,
}
COMPARING_MADE = Architecture({**SIZES, "act_fn": "relu", "normalization_type": None}, GaussianInit(0.5))


def state(seed: int = 0) -> State:
    return models.weights(models.build(COMPARING_MADE, seed=seed))


def compared(*states: State) -> pd.DataFrame:
    series = CheckpointSeries("run", COMPARING_MADE, tuple(range(len(states))), lambda step: states[step])
    return compare_checkpoints(series, COMPARING_BATCH, progress=False)


def test_equal_checkpoints_are_alike_and_at_no_angle() -> None:
    table = compared(state(), state())
    assert set(select(table, "LinearCKA")["layer"]) == {0, 1, 2}
    assert select(table, "LinearCKA")["value"].to_list() == pytest.approx([1.0] * len(select(table, "LinearCKA")))
    assert set(table["compared"]) == {"previous checkpoint", "last checkpoint"}


def test_each_is_compared_with_the_one_before_and_with_the_last() -> None:
    table = compared(state(0), state(1), state(2))
    steps = {name: sorted(set(rows["step"])) for name, rows in table.groupby("compared")}
    assert steps == {"previous checkpoint": [1, 2], "last checkpoint": [0, 1, 2]}
    before = compared(state(0), state(1))
    expected = select(before, "LinearCKA", compared="last checkpoint", step=0)["value"].to_numpy()
    values = select(table, "LinearCKA", compared="previous checkpoint", step=1)["value"].to_numpy()
    assert values == pytest.approx(expected, abs=1e-6)  # the order of both does not matter


def test_a_stream_in_another_basis_is_the_same_representation() -> None:
    turn, _ = torch.linalg.qr(torch.randn(12, 12, generator=torch.Generator().manual_seed(0)))

    def turned(name: str, weight: Tensor) -> Tensor:
        change: Tensor = weight
        if name.endswith((".W_E", ".W_pos", ".W_O", ".W_out", ".b_O", ".b_out")):
            change = weight @ turn
        elif name.endswith((".W_Q", ".W_K", ".W_V", ".W_in", ".W_U")):
            change = turn.T @ weight
        return change

    table = compared({name: turned(name, weight) for name, weight in state().items()}, state())
    assert select(table, "LinearCKA", step=0)["value"].to_list() == pytest.approx([1.0] * 3, abs=1e-5)


def test_checkpoints_that_hold_nan_are_left_out_with_a_warning() -> None:
    broken = {**state(1), "unembed.W_U": torch.full((12, 4), torch.nan)}
    with pytest.warns(UserWarning, match="step 1 of 'run' holds nan or infinity"):
        table = compared(state(0), broken, state(2), broken)
    assert set(table["step"]) == {0, 2}
    with pytest.raises(ValueError, match="all checkpoints of 'run' hold nan or infinity"):
        compared(broken, broken)
