"""Direct logit attribution: what a head writes towards the target counts, whoever else writes."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architectures import full
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.probe import example_view
from stagewise.probes import DirectLogitAttribution
from stagewise.table import select
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens


def test_heads_rest_and_embedding_share_what_the_stream_says() -> None:
    streams = {
        "blocks.0.hook_resid_pre": [[1.0, 0.0], [2.0, 0.0]],
        "blocks.0.hook_resid_post": [[9.0, 0.0], [4.0, 0.0]],
    }
    z = [[[3.0, 0.0], [4.0, 0.0]], [[5.0, 0.0], [-1.0, 0.0]]]
    view = example_view(
        [[[1, 0], [0, 1]]] * 2, activations={**streams, "blocks.0.attn.hook_z": z}, scored=[True, False]
    )

    def direct(part: Tensor, residual: Tensor, targets: Tensor) -> Tensor:
        return part[..., 0]

    readout = SimpleNamespace(logits=direct, direct=direct, written=lambda layer, z: z)
    head, rest, embedding = DirectLogitAttribution().read(dataclasses.replace(view, find_readout=lambda: readout))
    assert head.values.tolist() == [[[3.0, 4.0]]]
    assert rest.values.tolist() == [[9 - 1 - 3 - 4]]
    assert embedding.values.tolist() == [1.0]


def test_a_head_that_writes_nothing_has_no_direct_effect() -> None:
    task = RepeatedTokens(8, length=4)
    model = models.build(full(8, task.n_ctx, n_layers=2, n_heads=2, d_model=8, d_mlp=6))
    state = models.weights(model)
    state["blocks.1.attn.W_O"][0] = 0
    models.load(model, state)
    series = open_series([(0, model)])
    table = measure(series, [DirectLogitAttribution()], task.probe_batch(4, 0), resamples=2, progress=False)
    values = select(table, "DirectLogitAttribution", "head").set_index(["layer", "head"])["value"]
    assert values[1, 0] == 0
    assert values[1, 1] != 0


def test_a_regression_has_no_target_logit() -> None:
    batch = Batch(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="the targets are vectors"):
        DirectLogitAttribution().read(dataclasses.replace(example_view([[[1, 0], [0, 1]]]), batch=batch))
