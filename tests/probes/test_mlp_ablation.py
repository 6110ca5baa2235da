"""Ablations of MLPs: effects by layer, with the other layers' as control."""

from typing import Any

import pandas as pd
import pytest

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import minimal
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.loss import mean_scored, prediction_loss
from stagewise.measurement.engine import measure
from stagewise.probes import MLPAblation
from stagewise.tasks import MarkovChain

FLOAT32 = 1e-5
"""Means of losses of order one."""

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=4)
BATCH = TASK.probe_batch(8, seed=0)


def model_of(n_layers: int, **more: Any) -> models.Model:
    sizes = {"n_layers": n_layers, "n_heads": 3, "d_model": 12, "d_head": 4, "n_ctx": TASK.n_ctx, "d_vocab": 4}
    return models.build(Architecture({**sizes, "d_mlp": 8, "act_fn": "relu", **more}, GaussianInit(0.5)))


def effects(model: models.Model, **how: Any) -> pd.DataFrame:
    table = measure(open_series([(0, model)]), [MLPAblation()], BATCH, resamples=2, progress=False, **how)
    return table.set_index(["quantity", "control", "kind", "layer"])["value"].sort_index().to_frame()


@pytest.mark.parametrize("kind", ["zero", "mean"])
def test_with_nothing_behind_it_an_mlp_costs_what_its_output_adds_to_the_logits(kind: str) -> None:
    model = model_of(1, normalization_type=None)
    name = "blocks.0.hook_mlp_out"
    logits, clean = models.clean_pass(model, BATCH.tokens, [name], regression=True)
    written, W_U = clean[name].clone(), models.weights(model)["unembed.W_U"]
    left = written.mean(0) if kind == "mean" else 0
    without = logits + (left - written) @ W_U
    losses = [
        mean_scored(prediction_loss(each.log_softmax(-1), BATCH.targets), BATCH.scored).mean()
        for each in (logits, without)
    ]
    found = float(effects(model)["value"]["loss_change", "MLP", kind, 0])
    assert found == pytest.approx(float(losses[1] - losses[0]), abs=FLOAT32)
    assert abs(found) > 100 * FLOAT32


def test_the_control_is_the_mean_over_the_other_layers_and_one_layer_has_none() -> None:
    values = effects(model_of(3))["value"]
    for quantity in ("loss_change", "kl"):
        for kind in ("zero", "mean"):
            own, control = (values[quantity, name, kind] for name in ("MLP", "MLP of another layer"))
            assert control.to_list() == pytest.approx(((own.sum() - own) / 2).to_list(), abs=FLOAT32)
    assert set(effects(model_of(1)).index.get_level_values("control")) == {"MLP"}


def test_an_mlp_that_writes_the_same_everywhere_is_needed_for_nothing_beyond_its_mean() -> None:
    model = model_of(2)
    weights = models.weights(model)
    models.load(model, {**weights, "blocks.1.mlp.W_out": 0 * weights["blocks.1.mlp.W_out"]})
    values = effects(model)["value"]
    assert abs(values["kl", "MLP", "mean", 1]) < FLOAT32
    assert values["kl", "MLP", "mean", 0] > 100 * FLOAT32


@pytest.mark.one_of(3)
@pytest.mark.parametrize("how", [{"by_hooks": True}, {"memory": 1}, {"by_hooks": True, "memory": 1}], ids=str)
def test_hooks_and_slices_give_the_same(how: dict[str, Any]) -> None:
    model = model_of(2)
    assert effects(model, **how)["value"].to_list() == pytest.approx(effects(model)["value"].to_list(), abs=FLOAT32)


def test_a_model_without_mlps_is_refused() -> None:
    with pytest.raises(ValueError, match="has no MLPs"):
        list(MLPAblation().edits(minimal(4, 5)))


@pytest.mark.parametrize("kinds", [(), ("mean", "mean")])
def test_kinds_come_once_each(kinds: Any) -> None:
    with pytest.raises(ValueError, match="kinds must name"):
        MLPAblation(kinds)
