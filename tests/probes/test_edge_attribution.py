"""Edge attribution: a copying head feeds the one that reads it, and nobody else."""

from typing import Any

import numpy as np
import pytest
import torch

from evidence.behaviours import circuits
from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import minimal
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.intervention import AttributeEdges
from stagewise.measurement.engine import measure
from stagewise.probes import EdgeAttribution
from stagewise.table import select
from stagewise.tasks import RepeatedTokens

TASK = RepeatedTokens(8, length=4)
SIZES = {"n_layers": 2, "n_heads": 2, "d_model": 8, "d_head": 4, "n_ctx": 8, "d_vocab": 8, "attn_only": True}


def test_a_head_that_writes_nothing_feeds_nobody_and_one_that_reads_nothing_is_fed_by_nobody() -> None:
    model = models.build(Architecture({**SIZES, "normalization_type": None}, GaussianInit(0.6)))
    state = models.weights(model)
    for name, head in (("blocks.0.attn.W_O", 1), ("blocks.1.attn.W_V", 0), ("blocks.1.attn.b_V", 0)):
        state[name][head] = 0
    models.load(model, state)
    series = open_series([(0, model)])
    table = measure(series, [EdgeAttribution()], TASK.probe_batch(6, 0), resamples=5, progress=False)
    for quantity in ("estimated_change", "exact_change"):
        rows = select(table, "EdgeAttribution", quantity)
        sizes = rows.groupby(["head", "source"])["value"].apply(lambda of: of.abs().max())
        assert sizes[:, "L0H1"].max() == pytest.approx(0, abs=1e-6)
        assert sizes[0, "L0H0"] == pytest.approx(0, abs=1e-6)  # without values, neither queries nor keys matter
        assert sizes[1, "L0H0"] > 1e-4
    (row,) = select(table, "EdgeAttribution", "rank_correlation").to_dict("records")
    assert -1 <= row["value"] <= 1


def test_slices_of_the_batch_give_the_edges_of_all_of_it() -> None:
    series = open_series([(0, models.build(Architecture(SIZES, GaussianInit(0.6))))])
    batch = TASK.probe_batch(6, 0)
    one, other = (
        measure(series, [EdgeAttribution()], batch, resamples=2, progress=False, memory=memory) for memory in (None, 1)
    )
    assert other["value"].to_numpy() == pytest.approx(one["value"].to_numpy(), abs=1e-5)


def test_a_model_of_one_layer_has_no_edges() -> None:
    with pytest.raises(ValueError, match="of a model of two layers or more"):
        EdgeAttribution().attributions(minimal(4, 5))


def test_less_than_one_step_is_refused() -> None:
    with pytest.raises(ValueError, match="steps: expected a whole number of at least 1, got 0"):
        EdgeAttribution(steps=0)
    assert AttributeEdges(2) != AttributeEdges(2, exact=True)


def test_edges_of_a_planted_behaviour_are_those_that_were_put_in() -> None:
    # Of the decoys one matters in corrupted prompts, from which edges are patched.
    put_in = (circuits.DUPLICATE, circuits.INHIBITION, circuits.MOVER)
    parts = {part.kind: part for part in circuits.case(0) if part.kind in put_in}
    series = open_series(circuits.models(tuple(parts.values()), np.random.default_rng(0))[-1:])
    table = measure(series, [EdgeAttribution()], circuits.prompts(0), resamples=5, progress=False)
    inhibition, mover = parts[circuits.INHIBITION], parts[circuits.MOVER]
    true = {
        (1, inhibition.head, parts[circuits.DUPLICATE].name, "V"),
        (2, mover.head, inhibition.name, "Q"),
    }
    rows = select(table, "EdgeAttribution", "exact_effect").sort_values("value", ascending=False).head(2)
    assert set(zip(rows["layer"], rows["head"], rows["source"], rows["composition"], strict=True)) == true
    assert (rows["value"] > 1).all()  # nats


@pytest.mark.skipif(not models.has_hooked_transformer(), reason="other models have no hook_k_input to patch")
def test_an_edge_is_patched_as_by_transformerlens_own_hooks() -> None:
    model: Any = models.build(Architecture({**SIZES, "d_vocab": circuits.V}, GaussianInit(0.6)))
    batch = circuits.prompts(0)
    table = measure(open_series([(0, model)]), [EdgeAttribution(exact=True)], batch, resamples=2, progress=False)
    model.set_use_split_qkv_input(True)
    zs = [model.run_with_cache(each.tokens)[1]["blocks.0.attn.hook_z"] for each in (batch.others["corrupted"], batch)]
    change = (zs[0] - zs[1])[:, :, 1] @ model.blocks[0].attn.W_O[1]

    def patched(read: torch.Tensor, hook: object) -> torch.Tensor:
        read[:, :, 0] += change
        return read

    with torch.no_grad():
        logits = [
            model.run_with_hooks(batch.tokens, fwd_hooks=hooks)[:, -1]
            for hooks in ([], [("blocks.1.hook_k_input", patched)])
        ]
    lost = float((batch.difference(logits[0]) - batch.difference(logits[1])).mean())
    rows = select(table, "EdgeAttribution", "exact_effect", head=0, source="L0H1", composition="K")
    assert rows["value"].item() == pytest.approx(lost, abs=1e-5)
    assert abs(lost) > 1e-3
