"""Estimates of attribution: products are those of single gradients, and the planted class ranks first."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibration.influence import TWO_LAGS
from stagewise.loss import training_loss
from stagewise.replay import estimating
from stagewise.replay.estimating import estimate_attribution
from stagewise.training import prepare, train

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")
CLASSES = ["at position", "of token"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("estimated") / "run"
    train(TWO_LAGS, folder, progress=False)
    return folder


@pytest.mark.parametrize(("transition", "carried"), [("attention to near", "3 to 6"), ("attention to far", "7 to 14")])
def test_the_class_that_a_transition_depends_on_is_estimated_to_matter_most(
    run: Path, transition: str, carried: str
) -> None:
    rows = estimate_attribution(run, transition, CLASSES, 4, preconditioned=True, recipe=TWO_LAGS)
    assert rows["without"][rows["estimate"].argmax()] == f"at positions {carried}"


def test_sequences_have_a_row_each_and_add_up_to_nothing_where_all_are_as_long(run: Path) -> None:
    rows = estimate_attribution(run, "attention to near", (), 4, 7, recipe=TWO_LAGS)
    assert rows["step"].value_counts().to_dict() == dict.fromkeys((4, 5, 6), TWO_LAGS.plan.batch_size)
    assert np.abs(rows.groupby("step")["estimate"].sum()).max() < 1e-5 * rows["estimate"].abs().sum()


def test_each_product_is_that_of_a_prediction_s_own_gradient() -> None:
    training = prepare(TWO_LAGS)
    batch = training.batch_at(0)
    parameters = [each for group in training.optimiser.param_groups for each in group["params"]]
    direction = [torch.randn(each.shape, generator=torch.Generator().manual_seed(0)) for each in parameters]
    products = estimating._products(training, batch, direction)
    outputs, targets = estimating._predict(training, batch), batch.targets[batch.scored]
    for number in (0, 7, 100):
        loss = training_loss(outputs[[number]], targets[[number]])
        own = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
        along = sum(float((each * other).sum()) for each, other in zip(own, direction, strict=True))
        assert products[number].item() == pytest.approx(along, rel=1e-4, abs=1e-6)


def test_another_transition_and_an_optimiser_without_a_mean_square_are_refused(run: Path) -> None:
    how: Any = {"recipe": TWO_LAGS}
    with pytest.raises(ValueError, match="no transition 'attention to I' comes after step 4; there are attention to"):
        estimate_attribution(run, "attention to I", CLASSES, 4, **how)
    by_sgd = dataclasses.replace(TWO_LAGS, plan=dataclasses.replace(TWO_LAGS.plan, optimiser="sgd"))
    with pytest.raises(ValueError, match="SGD keeps no mean square"):
        estimate_attribution(run, "attention to near", CLASSES, 4, preconditioned=True, recipe=by_sgd)
