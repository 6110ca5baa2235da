"""The restricted context: zero at full length, and what the truncated model says below it."""

import pytest
import torch

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.init import GaussianInit
from stagewise.measurement.engine import measure
from stagewise.probes import RestrictedContextKL
from stagewise.tasks import MarkovChain

FLOAT32 = 1e-6
"""Means of divergences of order one."""

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=4)
MADE = Architecture(
    {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": TASK.n_ctx, "d_vocab": 4, "attn_only": True},
    GaussianInit(0.6),
)
SERIES = CheckpointSeries("run", MADE, (0,), lambda step: model.weights(model.build(MADE)))


def curve(*contexts: int) -> dict[int, float]:
    table = measure(SERIES, [RestrictedContextKL(contexts)], TASK.probe_batch(6, seed=0), progress=False)
    return dict(zip(table["context"].tolist(), table["value"].tolist(), strict=True))


def test_the_full_context_is_at_distance_zero() -> None:
    for value in curve(TASK.n_ctx, TASK.n_ctx + 1, 100).values():
        assert abs(value) < FLOAT32


def test_a_short_context_is_the_divergence_from_the_truncated_model() -> None:
    batch, built = TASK.probe_batch(6, seed=0), model.build(MADE)
    total, count = 0.0, 0
    with torch.no_grad():
        full = built(batch.tokens).log_softmax(-1)
        for query in range(TASK.n_ctx):
            positions = model.parameters(built)["pos_embed.W_pos"][max(0, query - 1) : query + 1]
            window = batch.tokens[:, max(0, query - 1) : query + 1]
            replace = ("hook_pos_embed", lambda x, hook, positions=positions: positions)
            cut = built.run_with_hooks(window, fwd_hooks=[replace])[:, -1].log_softmax(-1)
            for row in batch.scored[:, query].nonzero()[:, 0].tolist():
                p, q = full[row, query], cut[row]
                total, count = total + float((p.exp() * (p - q)).sum()), count + 1
    assert curve(2)[2] == pytest.approx(total / count, abs=FLOAT32)
    assert total / count > 0.01


def test_divergences_are_not_negative_and_labelled_by_context() -> None:
    values = curve(1, 2, 3, 4, 5)
    assert list(values) == [1, 2, 3, 4, 5]
    assert all(value > -FLOAT32 for value in values.values())


def test_a_context_named_twice_is_one() -> None:
    assert curve(2, 3, 2) == curve(2, 3)


def test_the_default_contexts_run() -> None:
    table = measure(SERIES, [RestrictedContextKL()], TASK.probe_batch(3, seed=0), progress=False)
    assert table["context"].tolist() == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        ((), r"contexts must name at least one number of positions, got \(\)"),
        ((2, 0), "context: expected a whole number of at least 1, got 0"),
    ],
)
def test_a_context_without_positions_is_refused(contexts: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RestrictedContextKL(contexts)
