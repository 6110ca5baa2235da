"""Head attribution: close to exact ablation where the loss is near to linear, checked on the heads on top."""

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.init import GaussianInit
from stagewise.measurement.engine import measure
from stagewise.papers.tasks import SparseRegression
from stagewise.probes import HeadAblation, HeadAttribution
from stagewise.probes.head_attribution import spearman
from stagewise.task import Batch
from stagewise.tasks import MarkovChain

FLOAT32 = 1e-6
"""Means of losses of order one."""

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=4)
SIZES = {"n_layers": 2, "n_heads": 3, "d_model": 12, "d_head": 4, "attn_only": True}
CHANCE = 1 / math.sqrt(12 - 1)
"""The standard deviation of the rank correlation of twelve heads without a relation; torch's versions draw others."""

FACTOR = 1e-2
"""Of what the heads write, where it shall be small: what is not linear is then a hundredth of the change."""


def series(factor: float = 1.0, **change: Any) -> CheckpointSeries:
    """A random model; what its heads write may be made small."""
    sizes = {**SIZES, "n_ctx": TASK.n_ctx, "d_vocab": TASK.d_vocab, **change}
    made = Architecture(sizes, GaussianInit(0.5))

    def load(step: int) -> State:
        state = models.weights(models.build(made, seed=step))
        return {name: factor * weight if name.endswith("W_O") else weight for name, weight in state.items()}

    return CheckpointSeries("run", made, (0,), load)


def table_of(probe: HeadAttribution | HeadAblation, batch: Batch | None = None, **change: Any) -> pd.DataFrame:
    named = {name: change.pop(name) for name in ("memory", "by_hooks") if name in change}
    batch = TASK.probe_batch(8, seed=0) if batch is None else batch
    return measure(series(**change), [probe], batch, progress=False, **named)


def changes(table: pd.DataFrame, quantity: str) -> pd.Series:
    """By layer and head; of an ablation without its controls."""
    rows = table[table["quantity"] == quantity]
    rows = rows[rows["control"] == "head"] if "control" in rows else rows
    return rows.set_index(["layer", "head"])["value"].sort_index()


@pytest.mark.parametrize("kind", ["mean", "zero"])
def test_the_estimate_is_the_exact_change_where_heads_write_little(kind: Any) -> None:
    estimated = changes(table_of(HeadAttribution(kind), factor=FACTOR), "estimated_change")
    exact = changes(table_of(HeadAblation(kinds=(kind,)), factor=FACTOR), "loss_change")
    assert exact.abs().max() > 100 * FLOAT32
    assert (estimated - exact).abs().max() < 0.05 * exact.abs().max()


def test_of_a_squared_error_the_last_layers_estimate_lacks_the_square_of_what_is_taken_away() -> None:
    # Without a norm the outputs are linear in the last layer's z: the loss is a polynomial of the second degree.
    task = SparseRegression(6, 3)
    batch = task.probe_batch(8, seed=0)
    sizes = {"n_ctx": task.n_ctx, "d_vocab": task.d_vocab, "d_vocab_out": batch.targets.shape[-1]}
    plain: dict[str, Any] = {**sizes, "normalization_type": None}
    estimated = changes(table_of(HeadAttribution(), batch, **plain), "estimated_change")
    ablation = table_of(HeadAblation(kinds=("mean",)), batch, **plain)
    difference = changes(ablation, "loss_change") - estimated
    np.testing.assert_allclose(difference[1], changes(ablation, "kl")[1], atol=1e-5, rtol=1e-4)
    assert changes(ablation, "kl")[1].min() > 1e-3


def test_the_heads_on_top_are_ablated_exactly_and_the_correlation_is_over_them() -> None:
    table = table_of(HeadAttribution(top=4))
    estimated, exact = changes(table, "estimated_change"), changes(table, "exact_change")
    assert set(exact.index) == set(estimated.abs().nlargest(4).index)
    ablated = changes(table_of(HeadAblation(kinds=("mean",))), "loss_change")
    pd.testing.assert_series_equal(exact, ablated[exact.index], check_names=False, atol=FLOAT32, rtol=0)
    (row,) = table[table["quantity"] == "rank_correlation"].to_dict("records")
    assert row["value"] == pytest.approx(spearmanr(estimated[exact.index], exact).statistic)
    assert row["lo"] <= row["value"] <= row["hi"]


def test_estimates_rank_the_heads_of_ordinary_models_as_ablation_does() -> None:
    sizes: dict[str, Any] = {"n_layers": 3, "n_heads": 4, "d_model": 32, "d_head": 8, "normalization_type": "LN"}
    models_drawn = dataclasses.replace(series(0.3, **sizes), steps=tuple(range(8)))
    table = measure(models_drawn, [HeadAttribution(top=12)], TASK.probe_batch(8, seed=0), progress=False)
    correlations = table.loc[table["quantity"] == "rank_correlation", "value"]
    assert correlations.median() > 2 * CHANCE


@pytest.mark.each_value
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("kind", ["mean", "zero"])
def test_slices_and_hooks_give_the_same_numbers(kind: Any, steps: int) -> None:
    probe = HeadAttribution(kind, steps, top=3)
    sizes: dict[str, Any] = {"normalization_type": "LN", "attn_only": False, "d_mlp": 8, "act_fn": "gelu"}
    table = table_of(probe, **sizes)
    for other in (table_of(probe, memory=1, **sizes), table_of(probe, by_hooks=True, **sizes)):
        pd.testing.assert_frame_equal(table.drop(columns="resamples"), other.drop(columns="resamples"), atol=1e-5)


def test_several_steps_average_the_gradients_between_the_replaced_and_the_clean_input() -> None:
    one, few, many = (
        changes(table_of(HeadAttribution(steps=steps)), "estimated_change").to_numpy(dtype=float)
        for steps in (1, 32, 64)
    )
    assert abs(few - many).max() < 0.1 * abs(one - many).max()


def test_heads_that_change_nothing_have_no_rank() -> None:
    table = table_of(HeadAttribution(), factor=0.0)
    assert set(table["quantity"]) == {"estimated_change", "exact_change"}
    assert table["value"].abs().max() < FLOAT32


def test_spearmans_correlation_is_scipys() -> None:
    pairs = np.random.default_rng(0).integers(0, 5, (20, 2, 7)).astype(float)
    expected = [spearmanr(*pair).statistic for pair in pairs]
    np.testing.assert_allclose(spearman(pairs), expected)


def test_rounding_is_not_ranked() -> None:
    changes = np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    rounding = 1e-8 * np.random.default_rng(0).standard_normal((2, 5))
    assert spearman(np.stack([changes, rounding[0]])) == 0
    assert spearman(np.stack([changes + rounding[0], changes + rounding[1]])) == pytest.approx(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0}, "steps: expected a whole number of at least 1, got 0"),
        ({"top": 1}, "two heads or more, got top=1"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HeadAttribution(**arguments)
