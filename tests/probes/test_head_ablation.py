"""Ablations: effects by head, with the matched control of the other heads of the layer."""

import dataclasses
import functools
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from transformers import GPT2Config

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries, State, open_series
from stagewise.init import GaussianInit
from stagewise.loss import mean_scored, prediction_loss
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import series_batch, usable
from stagewise.presets import recipe_for
from stagewise.probes import HeadAblation
from stagewise.task import Batch
from stagewise.tasks import MarkovChain, RepeatedTokens
from stagewise.training import train
from tests.test_real_model import gguf

FLOAT32 = 1e-6
"""Means of losses of order one."""

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=4)


def effects(probe: HeadAblation, n_heads: int = 3, n_layers: int = 2, idle: int | None = None) -> pd.DataFrame:
    """Ablate the heads of a random model, in which one head of the first layer may write nothing."""
    config = {
        "n_layers": n_layers,
        "d_model": 12,
        "d_head": 4,
        "n_heads": n_heads,
        "n_ctx": TASK.n_ctx,
        "d_vocab": 4,
    }
    made = Architecture({**config, "attn_only": True}, GaussianInit(0.5))

    def load(step: int) -> State:
        state = model.weights(model.build(made))
        if idle is not None:
            state["blocks.0.attn.W_O"][idle] = 0.0
        return state

    series = CheckpointSeries("run", made, (0,), load)
    return measure(series, [probe], TASK.probe_batch(8, seed=0), progress=False)


def value(table: pd.DataFrame, quantity: str, layer: int, head: int, kind: str, control: str = "head") -> float:
    row = table[
        (table["quantity"] == quantity) & (table["layer"] == layer) & (table["head"] == head)
        & (table["kind"] == kind) & (table["control"] == control)
    ]  # fmt: skip
    return float(row["value"].item())


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["zero", "mean", "resample"])
@pytest.mark.parametrize("quantity", ["loss_change", "kl"])
def test_the_control_is_the_mean_over_the_other_heads_of_the_layer(kind: str, quantity: str) -> None:
    table = effects(HeadAblation())
    for layer in range(2):
        for head in range(3):
            others = [value(table, quantity, layer, other, kind) for other in range(3) if other != head]
            control = value(table, quantity, layer, head, kind, "random head")
            assert control == pytest.approx(sum(others) / 2, abs=FLOAT32)


@pytest.mark.parametrize("kind", ["zero", "mean", "resample"])
def test_a_head_that_writes_nothing_is_needed_for_nothing(kind: str) -> None:
    table = effects(HeadAblation(kinds=(kind,)), idle=1)
    assert abs(value(table, "kl", 0, 1, kind)) < FLOAT32
    assert abs(value(table, "loss_change", 0, 1, kind)) < FLOAT32
    assert value(table, "kl", 0, 0, kind) > 100 * FLOAT32


def test_the_control_of_a_layer_of_one_head_is_the_head_of_the_other_layers() -> None:
    table = effects(HeadAblation(), n_heads=1, n_layers=3)
    assert set(table["control"]) == {"head", "head of another layer"}
    for layer in range(3):
        others = [value(table, "kl", other, 0, "mean") for other in range(3) if other != layer]
        control = value(table, "kl", layer, 0, "mean", "head of another layer")
        assert control == pytest.approx(sum(others) / 2, abs=FLOAT32)


def test_a_model_of_one_head_has_no_control() -> None:
    table = effects(HeadAblation(), n_heads=1, n_layers=1)
    assert set(table["control"]) == {"head"}


def test_chosen_heads_have_the_rows_that_they_have_among_all() -> None:
    table, some = (
        effects(HeadAblation()),
        effects(HeadAblation(heads=((1, 2), (0, 1), (1, 2)), kinds=("mean",))),
    )
    assert len(some) == 2 * 2 * 2
    for row in some.to_dict("records"):
        assert row["value"] == value(table, row["quantity"], row["layer"], row["head"], "mean", row["control"])
    assert set(zip(some["layer"], some["head"], strict=True)) == {(1, 2), (0, 1)}


def test_every_head_kind_and_control_has_its_rows() -> None:
    table = effects(HeadAblation())
    assert len(table) == 2 * 3 * 3 * 2 * 2
    assert (table.query("quantity == 'kl'")["value"] > -FLOAT32).all()


def test_one_sequence_has_no_others_to_take_an_output_from() -> None:
    made = Architecture(
        {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": TASK.n_ctx, "d_vocab": 4, "attn_only": True}
    )
    series = CheckpointSeries("run", made, (0,), lambda step: model.weights(model.build(made)))
    with pytest.raises(ValueError, match="mean and resample ablation replaces an output by that of other"):
        measure(series, [HeadAblation(kinds=("mean", "resample"))], TASK.probe_batch(1, seed=0), progress=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": ()}, "kinds must name at least one of"),
        ({"kinds": ("zero", "zero")}, "kinds must name .* each once"),
        ({"heads": ((0, -1),)}, "AblateHead.head: expected a whole number of at least 0, got -1"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HeadAblation(**arguments)


def test_an_unknown_kind_is_refused() -> None:
    # The run-time type check of the tests refuses it first; a user without it gets the ValueError.
    with pytest.raises((ValueError, TypeError), match=r"zero.*mean.*resample"):
        HeadAblation(kinds=("shuffle",))


@pytest.mark.parametrize("head", [(2, 0), (0, 3)])
def test_a_head_that_does_not_exist_is_refused_with_how_many_there_are(head: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"there is no head L\dH\d: the model has 2 layers of 3 heads"):
        effects(HeadAblation(heads=(head,)))


FACTORS = ("pattern", "values")
SIZES = {"n_layers": 1, "n_heads": 3, "d_model": 12, "d_head": 4, "n_ctx": TASK.n_ctx, "d_vocab": 4}


def linear_model(seed: int = 0) -> model.Model:
    """One layer without norm and MLP: its logits are linear in what heads write."""
    return model.build(Architecture({**SIZES, "attn_only": True, "normalization_type": None}, GaussianInit(0.5)), seed)


def test_in_a_linear_model_each_factor_costs_what_its_part_of_the_output_says() -> None:
    made, batch = linear_model(), TASK.probe_batch(8, seed=0)
    names = [f"blocks.0.attn.hook_{name}" for name in ("pattern", "v", "z")]
    logits, found = model.clean_pass(made, batch.tokens, names, regression=True)
    pattern, values, z = (found[name].clone() for name in names)
    weights = model.weights(made)
    table = measure(open_series([(0, made)]), [HeadAblation(kinds=FACTORS)], batch, resamples=2, progress=False)
    clean = mean_scored(prediction_loss(logits.log_softmax(-1), batch.targets), batch.scored)
    for head in range(3):
        replaced = {
            "pattern": pattern[:, head].mean(0) @ values[:, :, head],
            "values": pattern[:, head] @ values[:, :, head].mean(0),
        }
        for kind, other in replaced.items():
            change = (other - z[:, :, head]) @ weights["blocks.0.attn.W_O"][head] @ weights["unembed.W_U"]
            loss = mean_scored(prediction_loss((logits + change).log_softmax(-1), batch.targets), batch.scored)
            expected = float((loss - clean).mean())
            assert value(table, "loss_change", 0, head, kind) == pytest.approx(expected, abs=10 * FLOAT32)


def test_a_head_that_looks_the_same_way_everywhere_loses_nothing_with_its_own_pattern() -> None:
    made, batch = linear_model(), TASK.probe_batch(8, seed=0)
    state = model.weights(made)
    for part in ("W_Q", "b_Q"):
        state[f"blocks.0.attn.{part}"][1] = 0  # an even attention
    model.load(made, state)
    probe = HeadAblation(kinds=("mean", *FACTORS))
    table = measure(open_series([(0, made)]), [probe], batch, resamples=2, progress=False)
    assert abs(value(table, "kl", 0, 1, "pattern")) < FLOAT32
    assert value(table, "kl", 0, 1, "values") == pytest.approx(value(table, "kl", 0, 1, "mean"), abs=FLOAT32)
    assert value(table, "kl", 0, 0, "pattern") > 10 * FLOAT32


@pytest.mark.parametrize("how", [{"by_hooks": True}, {"memory": 1}], ids=str)
def test_factors_are_replaced_alike_by_hooks_and_in_slices(how: dict[str, Any]) -> None:
    made = Architecture({**SIZES, "n_layers": 2, "d_mlp": 8, "act_fn": "relu"}, GaussianInit(0.5))
    series, batch = open_series([(0, model.build(made))]), TASK.probe_batch(8, seed=0)
    one, other = (
        measure(series, [HeadAblation(kinds=FACTORS)], batch, resamples=2, progress=False, **each) for each in ({}, how)
    )
    assert other["value"].to_numpy() == pytest.approx(one["value"].to_numpy(), abs=10 * FLOAT32)


LARGE: dict[str, dict[str, Any]] = {
    "LN and MLP": {"act_fn": "gelu", "d_mlp": 48},
    "as Llama": {"act_fn": "silu", "d_mlp": 48, "gated_mlp": True, "normalization_type": "RMS", "n_key_value_heads": 2},
}
REPEATED = RepeatedTokens(32, length=12)
"""Sequences for the models whose heads are ablated on few of them first."""

OF_ROUNDING = 1e-3
"""A margin is of differences between an effect and its estimate, which can be little more than rounding."""

AXES = ["step", "quantity", "layer", "head", "kind", "control"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> CheckpointSeries:
    """The catalogue's own recipe for repeated tokens, begun, with more and smaller heads."""
    recipe = recipe_for(RepeatedTokens, n_heads=8)
    plan = dataclasses.replace(recipe.plan, steps=60, save=frozenset({0, 60}))
    return train(dataclasses.replace(recipe, plan=plan), tmp_path_factory.mktemp("repeated"), progress=False)


def random_model(**config: Any) -> CheckpointSeries:
    sizes = {"n_layers": 3, "d_model": 24, "n_heads": 6, "d_head": 4, "n_ctx": 32, "d_vocab": 32}
    made = Architecture({**sizes, **config}, GaussianInit(0.3))
    return CheckpointSeries("run", made, (0,), lambda step: model.weights(model.build(made)))


def held(series: CheckpointSeries, batch: Batch, kind: str = "mean") -> pd.DataFrame:
    """Each row by few sequences beside that by all of them, and whether its interval holds that."""
    few, exact = (
        measure(series, [HeadAblation(kinds=(kind,), exact=way)], batch, progress=False).set_index(AXES)
        for way in (False, True)
    )
    few["exact"] = exact["value"].reindex(few.index)
    few["held"] = few["exact"].between(few["lo"] - FLOAT32, few["hi"] + FLOAT32)
    few["rest"] = (few["value"] - few["exact"]).abs()
    return few


def assert_allocated(rows: pd.DataFrame, sequences: int) -> None:
    """Nineteen of twenty rows are within their intervals, and large changes of the loss are known to 5 %."""
    assert rows["held"].mean() >= 0.95
    heads = rows.xs("head", level="control")
    assert heads["n"].min() < sequences
    changes = heads.xs("loss_change", level="quantity")
    for _, of_step in changes.groupby("step"):
        size = of_step["exact"].abs()
        large = of_step[(size >= size.max() / 2) & (size > 0.02)]
        assert (large["rest"] <= 0.05 * large["exact"].abs()).all()
    assert (heads[heads["n"] == sequences]["rest"] < 10 * FLOAT32).all()


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["mean", "zero"])
@pytest.mark.parametrize("name", LARGE)
def test_random_models_by_few_sequences_are_within_their_intervals(name: str, kind: str) -> None:
    assert_allocated(held(random_model(**LARGE[name]), REPEATED.probe_batch(16, seed=0), kind), 16)


def test_a_trained_model_by_few_sequences_is_within_its_intervals(trained: CheckpointSeries) -> None:
    task = recipe_for(RepeatedTokens, n_heads=8).task
    assert_allocated(held(trained, usable(task.probe_batch(32, seed=0))), 32)


@pytest.mark.parametrize("memory", [1, None])
def test_slices_do_not_matter_to_which_sequences_are_taken(memory: int | None) -> None:
    series, batch = random_model(**LARGE["as Llama"]), REPEATED.probe_batch(8, seed=0)
    probes = [HeadAblation(kinds=("mean",), exact=False)]
    one, other = (measure(series, probes, batch, memory=each, progress=False) for each in (memory, 2**20))
    pd.testing.assert_series_equal(one["n"], other["n"])
    pd.testing.assert_series_equal(one["value"], other["value"], atol=10 * FLOAT32, rtol=1e-4)
    for name in ("lo", "hi"):
        pd.testing.assert_series_equal(one[name], other[name], atol=OF_ROUNDING, rtol=OF_ROUNDING)


def test_hooks_give_the_same_effects_by_few_sequences() -> None:
    series, batch = random_model(**LARGE["LN and MLP"]), REPEATED.probe_batch(8, seed=0)
    probes = [HeadAblation(kinds=("mean",), exact=False)]
    lean, hooked = (measure(series, probes, batch, by_hooks=way, progress=False) for way in (False, True))
    pd.testing.assert_series_equal(lean["n"], hooked["n"])
    pd.testing.assert_series_equal(lean["value"], hooked["value"], atol=10 * FLOAT32, rtol=1e-4)


@pytest.mark.parametrize("batch", [1, 2])
def test_of_two_sequences_all_are_taken(batch: int) -> None:
    rows = held(random_model(), REPEATED.probe_batch(batch, seed=0), "zero")
    assert (rows["n"] == batch).all()
    assert rows["rest"].max() < 10 * FLOAT32


def test_few_sequences_go_with_what_gradients_estimate() -> None:
    with pytest.raises(ValueError, match="exact=False"):
        HeadAblation(kinds=("resample",), exact=False)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["GPT-2 small's shape", "SmolLM2"])
def test_large_models_by_few_sequences_are_within_their_intervals(name: str) -> None:
    series = _gpt2() if name != "SmolLM2" else open_series(gguf())
    rows = held(series, series_batch(series))
    assert_allocated(rows, 8)
    assert rows["n"].mean() < 4


def _gpt2() -> CheckpointSeries:
    made = Architecture(GPT2Config().to_dict())
    return CheckpointSeries("run", made, (0,), lambda step: model.weights(model.build(made)))


STEPS, WHOLE = (0, 8, 9, 10, 11, 12, 13, 14, 15, 16), {0, 8, 12, 16}
"""Checkpoints, and those that are a factor of 1.4 apart, the first and the last."""

CHANGED = (1, 1)
"""The head that writes much more at some steps."""


def changing(at: Collection[int]) -> CheckpointSeries:
    """One model at all steps, whose heads write little, but for one of the last layer at some."""
    sizes = {"n_layers": 2, "d_model": 24, "n_heads": 6, "d_head": 4, "n_ctx": 32, "d_vocab": 32}
    made = Architecture({**sizes, "d_mlp": 48, "act_fn": "gelu"}, GaussianInit(0.3))

    def load(step: int) -> State:
        state = model.weights(model.build(made))
        for layer in range(2):
            state[f"blocks.{layer}.attn.W_O"] *= 0.01
        state["blocks.1.attn.W_O"][1] *= 300 if step in at else 1
        return state

    return CheckpointSeries("run", made, STEPS, load)


def along(series: CheckpointSeries, probe: HeadAblation | None = None, **how: Any) -> pd.DataFrame:
    probe = probe or HeadAblation(kinds=("mean",), exact=False)
    return measure(series, [probe], REPEATED.probe_batch(2, seed=0), progress=False, **how)


@functools.cache
def measured(*at: int) -> pd.DataFrame:
    """The table of a series in which the head writes much more at these steps."""
    return along(changing(at))


def ablated(table: pd.DataFrame) -> dict[int, set[tuple[int, int]]]:
    """Return the heads that have rows, by step."""
    rows, found = table[table["control"] == "head"], dict[int, set[tuple[int, int]]]()
    for step, layer, head in rows[["step", "layer", "head"]].astype(int).to_numpy().tolist():
        found.setdefault(step, set()).add((layer, head))
    return found


def test_between_checkpoints_that_are_ablated_whole_a_model_that_stays_as_it_is_has_no_rows() -> None:
    found = ablated(measured())
    assert set(found) == WHOLE
    assert {len(heads) for heads in found.values()} == {12}


def test_a_head_is_ablated_on_both_sides_of_its_change_and_as_long_as_it_is_needed() -> None:
    found = ablated(measured(*range(10, 17)))
    assert all(CHANGED in found[step] for step in STEPS)


def test_what_comes_and_goes_between_two_checkpoints_that_are_ablated_whole_is_ablated() -> None:
    found = ablated(measured(10))
    assert set(found) == WHOLE | {10}
    assert CHANGED in found[10]


def test_rows_that_are_there_are_those_of_all_checkpoints_ablated_whole() -> None:
    whole = along(changing(range(10, 17)), HeadAblation(kinds=("mean",)))
    some, exact = (table.set_index(AXES)["value"] for table in (measured(*range(10, 17)), whole))
    assert len(some) < len(exact)
    pd.testing.assert_series_equal(some, exact[some.index], atol=10 * FLOAT32, rtol=1e-4)


def test_a_control_is_the_mean_over_all_other_heads_or_not_there() -> None:
    table = measured(10)
    of_layers = table[table["quantity"] == "kl"].groupby(["step", "layer"])["control"].value_counts().unstack()
    assert set(of_layers["random head"][of_layers["head"] < 6].dropna()) <= {0}
    assert (of_layers["random head"][of_layers["head"] == 6] == 6).all()


def assert_same_rows(table: pd.DataFrame, like: pd.DataFrame) -> None:
    """The same heads at the same steps, with values that differ by rounding alone: sums depend on a thread's share."""
    pd.testing.assert_frame_equal(table, like, atol=FLOAT32, rtol=1e-4)


def test_who_measures_a_checkpoint_and_when_makes_no_difference(tmp_path: Path) -> None:
    series, table = changing((10,)), measured(10)
    with ThreadPoolExecutor(2) as threads:
        assert_same_rows(along(series, executor=threads, workers=2), table)
    along(dataclasses.replace(series, steps=(0, 8, 12, 16)), folder=tmp_path)
    assert_same_rows(along(series, folder=tmp_path), table)


def test_a_series_that_grows_while_it_is_measured_is_ablated_whole(tmp_path: Path) -> None:
    series, steps = changing(()), STEPS[:6]
    for number in range(2, len(steps) + 1):
        table = along(dataclasses.replace(series, steps=steps[:number]), folder=tmp_path)
    assert ablated(table).keys() == set(steps)
