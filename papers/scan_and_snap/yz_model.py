"""The one-layer transformer in the variables (Y, Z): forward pass and gradients in closed form, many runs at once."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.task import Batch


class YZ(NamedTuple):
    """The weights of a batch of runs. Y[i, m] is the logit of token m per unit of token i; Z[m, l] scores key l.

    In the usual parameters Y = W_E W_V W_O W_U and Z = W_E W_Q W_K^T W_E^T / sqrt(d).
    """

    y: Float[Tensor, "run token token"]
    z: Float[Tensor, "run token token"]


class Counts(NamedTuple):
    """Sequences as counts (the model has no positions): how often each token is in the context, query, label.

    Counts may be probabilities: with P(token | class), one row a class, every step is one of the population.
    """

    context: Float[Tensor, "run batch token"]
    query: Int[Tensor, "run batch"]
    label: Int[Tensor, "run batch"]


class _Step(NamedTuple):
    """The mean loss (nats) of each run, and its negative gradient (the directions of ascent of the log-likelihood)."""

    loss: Float[Tensor, " run"]
    ascent: YZ


def zeros(runs: int, d_vocab: int, dtype: torch.dtype = torch.float32) -> YZ:
    """Return runs that all start at Y = Z = 0."""
    return YZ(torch.zeros(runs, d_vocab, d_vocab, dtype=dtype), torch.zeros(runs, d_vocab, d_vocab, dtype=dtype))


def count(batch: Batch, d_vocab: int, dtype: torch.dtype = torch.float32) -> Counts:
    """Count the contexts of a batch whose last position holds the query; one run.

    >>> tokens = torch.tensor([[0, 1, 1, 2]])
    >>> count(Batch(tokens, tokens, tokens == 2), d_vocab=4).context
    tensor([[[1., 2., 0., 0.]]])
    """
    context, query, label = batch.tokens[:, :-1], batch.tokens[:, -1], batch.targets[:, -1]
    counts = torch.zeros(len(batch), d_vocab, dtype=dtype)
    counts.scatter_add_(1, context, torch.ones_like(context, dtype=dtype))
    return Counts(counts[None], query[None], label[None])


def attention(
    z: Float[Tensor, "run token token"], context: Float[Tensor, "run batch token"], query: Int[Tensor, "run batch"]
) -> Float[Tensor, "run batch token"]:
    """Return how much attention falls on each token: v_l = n_l exp(z_ml) / sum_l' n_l' exp(z_ml').

    The query does not attend to itself. With n = P(. | class) this is the paper's c_n.

    Source: Tian et al. (2023), arXiv:2305.16380, section 2 and Eqn 5; the count form is exact.
    """
    scores = z[torch.arange(len(z))[:, None], query]
    return (scores + context.log()).softmax(-1)


def forward(weights: YZ, counts: Counts, *, residual: bool = False) -> Float[Tensor, "run batch token"]:
    """Return the log-probabilities (nats) of the next token: softmax of Y^T f, f = v / ||v||_2.

    With a residual connection the query itself is added to v: f = (v + x_T) / ||v + x_T||_2.

    Source: Tian et al. (2023), arXiv:2305.16380, section 2: pooled attention, l2 normalisation, no residual.
    """
    pooled = attention(weights.z, counts.context, counts.query)
    if residual:
        pooled = pooled + torch.nn.functional.one_hot(counts.query, pooled.shape[-1])
    logits: Tensor = _normalised(pooled) @ weights.y
    return logits.log_softmax(-1)


def step(weights: YZ, counts: Counts) -> _Step:
    """Return the loss of a batch and its closed-form negative gradient, the mean over the batch.

        dY = f (e_label - alpha)^T,    dz_query = f o (g - f (f.g)),    g = Y (e_label - alpha)

    The second is the paper's X^T diag(b) X (I - v v^T / ||v||^2) / ||v|| Y (e - alpha): the first factor is diag(v),
    since the projection makes the softmax's other term vanish. The row sums of Y and of Z never change.

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 1, Eqns 3 and 4.
    """
    f = _normalised(attention(weights.z, counts.context, counts.query))
    log_probs = (f @ weights.y).log_softmax(-1)
    at_label = log_probs.gather(-1, counts.label[..., None])
    residual = -log_probs.exp()
    residual.scatter_add_(-1, counts.label[..., None], torch.ones_like(at_label))
    g = residual @ weights.y.mT
    dz = f * (g - f * (f * g).sum(-1, keepdim=True))
    rows = counts.query[..., None].expand_as(dz)
    n = counts.query.shape[1]
    ascent_z = torch.zeros_like(weights.z).scatter_add_(1, rows, dz) / n
    return _Step(-at_label.mean((1, 2)), YZ(f.mT @ residual / n, ascent_z))


def _normalised(pooled: Float[Tensor, "run batch token"]) -> Float[Tensor, "run batch token"]:
    return torch.nn.functional.normalize(pooled, dim=-1, eps=0.0)
