"""The plain script that the bench compares with: its numbers are those of the probes."""

import pytest
import torch

from evidence.bench.engine import CONTEXTS, EFFECTS, check, fresh_series, probes_with
from evidence.bench.plain_probing import probe
from stagewise import models
from stagewise.architectures import full
from stagewise.measurement.engine import measure
from stagewise.tasks import RepeatedTokens

AGREE = 1e-4
"""Largest difference that sums in another order explain."""


@pytest.mark.hooked_only("composition scores of all heads are a HookedTransformer's")
@pytest.mark.parametrize("layers", [1, 2])
def test_the_plain_script_gives_the_numbers_of_the_probes(layers: int) -> None:
    task = RepeatedTokens(16, length=12)
    series = fresh_series(full(16, task.n_ctx, n_layers=layers, n_heads=4, d_model=16, d_mlp=32))
    batch = task.probe_batch(6, 0)
    table = measure(series, probes_with(series.architecture, batch, *EFFECTS), batch, progress=False)
    plain = probe(models.holding(series.architecture, series.load(0)), batch, CONTEXTS)
    check(table, plain)

    def rows(query: str, *order: str) -> torch.Tensor:
        found = table.query(query)
        return torch.tensor((found.sort_values([*order]) if order else found)["value"].to_numpy(), dtype=torch.float32)

    heads = ("layer", "head")
    changes = rows("probe == 'HeadAblation' and quantity == 'loss_change' and control == 'head'", *heads)
    for name, found in {
        "loss": rows("probe == 'Loss' and quantity == 'cross_entropy'"),
        "accuracy": rows("probe == 'Accuracy'"),
        "loss by position": rows("probe == 'LossByPosition'"),
        "in-context learning": rows("probe == 'InContextLearning'"),
        "support": rows("probe == 'EffectiveSupport'", *heads),
        "copying": rows("probe == 'OVCopying'", *heads),
        "participation ratio": rows("probe == 'ParticipationRatio'", *heads),
        "entropy": rows("probe == 'AttentionEntropy' and quantity == 'entropy'", *heads),
        "distance": rows("probe == 'AttentionDistance'", *heads),
    }.items():
        torch.testing.assert_close(found, plain[name].float().flatten(), atol=AGREE, rtol=AGREE, msg=name)
    torch.testing.assert_close(changes, plain["ablation loss"] - plain["loss"], atol=AGREE, rtol=AGREE)
