"""Checkpoints compared: what is the same, what was turned by hand, and what cannot be compared."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.init import GaussianInit
from stagewise.measurement._along import SUBSPACES
from stagewise.measurement.comparing import compare_checkpoints
from stagewise.table import select
from stagewise.tasks import MarkovChain

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=6)
BATCH = TASK.probe_batch(30, seed=0)
SIZES = {"n_layers": 2, "n_heads": 2, "d_model": 12, "d_head": 3, "n_ctx": TASK.n_ctx, "d_vocab": 4, "d_mlp": 8}
MADE = Architecture({**SIZES, "act_fn": "relu", "normalization_type": None}, GaussianInit(0.5))
EXACT = 1e-3
"""Degrees; subspaces are of float32."""


def state(seed: int = 0) -> State:
    return models.weights(models.build(MADE, seed=seed))


def compared(*states: State) -> pd.DataFrame:
    series = CheckpointSeries("run", MADE, tuple(range(len(states))), lambda step: states[step])
    return compare_checkpoints(series, BATCH, progress=False)


def test_equal_checkpoints_are_alike_and_at_no_angle() -> None:
    table = compared(state(), state())
    assert set(select(table, "LinearCKA")["layer"]) == {0, 1, 2}
    assert select(table, "LinearCKA")["value"].to_list() == pytest.approx([1.0] * len(select(table, "LinearCKA")))
    assert (select(table, "PrincipalAngles")["value"] < EXACT).all()
    assert set(table["compared"]) == {"previous checkpoint", "last checkpoint"}


def test_each_is_compared_with_the_one_before_and_with_the_last() -> None:
    table = compared(state(0), state(1), state(2))
    steps = {name: sorted(set(rows["step"])) for name, rows in table.groupby("compared")}
    assert steps == {"previous checkpoint": [1, 2], "last checkpoint": [0, 1, 2]}
    before = compared(state(0), state(1))
    for probe, quantity in (("LinearCKA", "alignment"), ("PrincipalAngles", "mean_angle")):
        expected = select(before, probe, quantity, compared="last checkpoint", step=0)["value"].to_numpy()
        values = select(table, probe, quantity, compared="previous checkpoint", step=1)["value"].to_numpy()
        assert values == pytest.approx(expected, abs=1e-6)  # the order of both does not matter


@pytest.mark.one_of(4)
@pytest.mark.parametrize(
    ("subspace", "weight"),
    [("QK queries", "W_Q"), ("QK keys", "W_K"), ("OV reads", "W_V"), ("OV writes", "W_O")],
)
def test_a_subspace_that_is_turned_out_of_one_of_its_directions_is_at_that_angle(subspace: str, weight: str) -> None:
    one, other, name = state(), state(), f"blocks.1.attn.{weight}"
    columns = one[name][0] if weight != "W_O" else one[name][0].T
    basis, _ = torch.linalg.qr(torch.cat([columns, torch.randn(12, 1)], 1))
    angle = np.deg2rad(30)
    moved = basis[:, :3].clone()
    moved[:, 2] = np.cos(angle) * basis[:, 2] + np.sin(angle) * basis[:, 3]
    other[name][0] = moved if weight != "W_O" else moved.T
    table = select(compared(one, other), "PrincipalAngles", compared="last checkpoint", step=0)
    for (layer, head, where, quantity), rows in table.groupby(["layer", "head", "subspace", "quantity"]):
        turned = (layer, head, where) == (1, 0, subspace)
        expected = (30 if quantity == "largest_angle" else 10) if turned else 0
        assert rows["value"].item() == pytest.approx(expected, abs=0.1 if turned else EXACT)


def test_a_head_that_writes_nothing_has_no_subspace_and_so_no_angle() -> None:
    silent = state()
    silent["blocks.0.attn.W_V"][1] = 0.0
    rows = select(compared(silent, state()), "PrincipalAngles", "mean_angle", step=0)
    assert set(rows[(rows["layer"] == 0) & (rows["head"] == 1)]["subspace"]) == set(SUBSPACES[:2])
    assert set(rows[(rows["layer"] == 0) & (rows["head"] == 0)]["subspace"]) == set(SUBSPACES)


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
    assert (select(table, "PrincipalAngles", "largest_angle", step=0)["value"] > 10).all()


def test_checkpoints_that_hold_nan_are_left_out_with_a_warning() -> None:
    broken = {**state(1), "unembed.W_U": torch.full((12, 4), torch.nan)}
    with pytest.warns(UserWarning, match="step 1 of 'run' holds nan or infinity"):
        table = compared(state(0), broken, state(2), broken)
    assert set(table["step"]) == {0, 2}
    with pytest.raises(ValueError, match="all checkpoints of 'run' hold nan or infinity"):
        compared(broken, broken)
