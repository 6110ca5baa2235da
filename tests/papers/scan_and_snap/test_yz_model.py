"""The (Y, Z) model: closed forms against autograd on explicit sequences, and against the paper's printed formula."""

import math

import pytest
import torch
from torch import Tensor

from stagewise.papers.scan_and_snap.yz_model import YZ, Counts, attention, count, forward, step, zeros
from stagewise.papers.tasks import SequenceClasses, syn_small
from stagewise.task import Batch

FLOAT64 = 1e-12
"""Sums of a few hundred float64 numbers of order one (check T1)."""

TASK = SequenceClasses(2, 2, n_common=3, n_distinct=2, length=11)


def random_weights(runs: int = 2, m: int = TASK.d_vocab) -> YZ:
    generator = torch.Generator().manual_seed(1)
    return YZ(*torch.randn(2, runs, m, m, generator=generator, dtype=torch.float64).unbind())


def loss_of_sequences(y: Tensor, z: Tensor, batch: Batch) -> Tensor:
    """The mean loss from the definition: one-hot matrices of shuffled sequences, one sequence after another."""
    losses = []
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        context = tokens[:-1][torch.randperm(len(tokens) - 1)]
        one_hot = torch.nn.functional.one_hot(context, len(y)).to(y)
        pooled = one_hot.T @ z[tokens[-1], context].softmax(0)
        losses.append(-(y.T @ (pooled / pooled.norm())).log_softmax(0)[targets[-1]])
    return torch.stack(losses).mean()


def test_closed_form_gradients_are_those_of_autograd_on_explicit_sequences() -> None:
    batch = TASK.sample(7, seed=0)
    weights = random_weights()
    counts = count(batch, TASK.d_vocab, torch.float64)
    found = step(weights, Counts(*(part.expand(2, *part.shape[1:]) for part in counts)))
    for run in range(2):
        y, z = (matrix[run].clone().requires_grad_() for matrix in weights)
        loss = loss_of_sequences(y, z, batch)
        dy, dz = torch.autograd.grad(-loss, (y, z))
        torch.testing.assert_close(found.loss[run], loss.detach(), atol=FLOAT64, rtol=0)
        torch.testing.assert_close(found.ascent.y[run], dy, atol=FLOAT64, rtol=0)
        torch.testing.assert_close(found.ascent.z[run], dz, atol=FLOAT64, rtol=0)


def test_the_gradient_is_lemma_one_as_printed() -> None:
    weights = random_weights(runs=1)
    counts = count(TASK.sample(1, seed=4), TASK.d_vocab, torch.float64)
    v = attention(weights.z, counts.context, counts.query)[0, 0]
    residual = -forward(weights, counts)[0, 0].exp()
    residual[counts.label[0, 0]] += 1
    projection = torch.eye(len(v), dtype=torch.float64) - torch.outer(v, v) / v.dot(v)
    dz = torch.diag(v) @ projection @ (weights.y[0] @ residual) / v.norm()
    ascent = step(weights, counts).ascent
    torch.testing.assert_close(ascent.z[0, counts.query[0, 0]], dz, atol=FLOAT64, rtol=0)
    torch.testing.assert_close(ascent.y[0], torch.outer(v / v.norm(), residual), atol=FLOAT64, rtol=0)


def test_row_sums_are_conserved() -> None:
    counts = count(TASK.sample(9, seed=2), TASK.d_vocab, torch.float64)
    for gradient in step(random_weights(runs=1), counts).ascent:
        assert gradient.sum(-1).abs().max() < FLOAT64
        assert gradient.abs().max() > 1e-3


def test_zero_weights_have_a_loss_of_log_m() -> None:
    loss = step(zeros(3, 34), Counts(*(part.expand(3, *part.shape[1:]) for part in count(_batch(), 34)))).loss
    assert loss.tolist() == pytest.approx([3.526361] * 3, abs=1e-5)
    assert math.log(34) == pytest.approx(3.526361, abs=1e-6)


def test_attention_at_zero_scores_is_the_share_of_the_tokens() -> None:
    counts = count(_batch(), 34)
    shares = counts.context / counts.context.sum(-1, keepdim=True)
    torch.testing.assert_close(attention(zeros(1, 34).z, counts.context, counts.query), shares)


def _batch() -> Batch:
    return syn_small().sample(5, seed=0)
