"""The logit lens: of a model whose layers write nothing it is the model at every layer."""

import pytest
import torch

from stagewise import models
from stagewise.architectures import full
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.papers.tasks import MarkovRegression
from stagewise.probes import LogitLens, Loss
from stagewise.table import select
from stagewise.tasks import RepeatedTokens

TASK = RepeatedTokens(8, length=4)


def test_layers_that_write_nothing_leave_the_lens_as_it_is_and_one_that_writes_moves_it() -> None:
    model = models.build(full(8, TASK.n_ctx, n_layers=2, n_heads=2, d_model=8, d_mlp=6))
    with torch.no_grad():
        for name, weight in models.parameters(model).items():
            if name.startswith("blocks.1.") and name.endswith(("W_O", "W_out", "b_O", "b_out")):
                weight.zero_()
    table = measure(
        open_series([(0, model)]), [LogitLens(), Loss()], TASK.probe_batch(4, 0), resamples=2, progress=False
    )
    kl = select(table, "LogitLens", "kl").sort_values("layer")["value"].tolist()
    loss = select(table, "LogitLens", "loss").sort_values("layer")["value"].tolist()
    own = float(select(table, "Loss", "cross_entropy")["value"].iloc[0])
    assert kl[1:] == pytest.approx([0, 0], abs=1e-6)
    assert loss[1:] == pytest.approx([own, own], abs=1e-6)
    assert kl[0] > 1e-4


def test_a_regression_is_read_in_squared_errors() -> None:
    task = MarkovRegression()
    model = models.build(full(task.d_vocab, task.n_ctx, n_layers=1, n_heads=1, d_model=8, d_mlp=6))
    batch = task.probe_batch(3, 0)
    table = measure(open_series([(0, model)]), [LogitLens(), Loss()], batch, resamples=2, progress=False)
    error = float(select(table, "Loss", "squared_error")["value"].iloc[0])
    assert select(table, "LogitLens", "loss", layer=1)["value"].tolist() == pytest.approx([error])
