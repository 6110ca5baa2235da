"""The language model that Scan and Snap's recorded WikiText numbers come from: its weights, its batches, its probe."""

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

WIDTH, BLOCK = 200, 35
"""Width of embedding, attention and FFN; words of a block (bptt)."""

PROBE = slice(3500, 3535)
"""The rows of column 0 whose attention is recorded."""


class Baseline(nn.Module):
    """A post-norm encoder of one head a layer with a causal mask that includes the query itself.

    Embedding times sqrt(200), sinusoidal positions, dropout; FFN of 200 with ReLU; untied decoder with bias. All
    layers start as copies of one. The published order of draws is kept, so a seed gives the published weights.

    Args:
        d_vocab: number of words.
        n_layers: number of layers.
        dropout: of every dropout.
        seed: the published run's; the global generator is left as it was.

    Source: the code, configurations and logs released with Tian et al. (2023), arXiv:2305.16380.
    """

    def __init__(self, d_vocab: int, n_layers: int = 1, dropout: float = 0.2, seed: int = 1) -> None:
        """Draw the initial weights."""
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + 2)  # as in the published runs
            layer = nn.TransformerEncoderLayer(WIDTH, 1, WIDTH, dropout)
            self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(n_layers))
            self.embedding = nn.Embedding(d_vocab, WIDTH)
            self.decoder = nn.Linear(WIDTH, d_vocab)
            nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
            nn.init.zeros_(self.decoder.bias)
            nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, tokens: Int[Tensor, "pos column"]
    ) -> tuple[Float[Tensor, "pos column token"], Float[Tensor, "layer column query key"]]:
        """Return the logits of the next words and the attention of every layer."""
        x = self.embedding(tokens) * math.sqrt(WIDTH)
        x = self.dropout(x + positions(len(tokens)).to(x)[:, None])
        mask = torch.ones(len(tokens), len(tokens), dtype=torch.bool, device=x.device).triu(1)
        patterns = []
        layers: Any = self.layers  # a module's attributes have no types of their own
        for layer in layers:
            attended, pattern = layer.self_attn(x, x, x, attn_mask=mask)
            x = layer.norm1(x + layer.dropout1(attended))
            hidden = layer.dropout(F.relu(layer.linear1(x)))
            x = layer.norm2(x + layer.dropout2(layer.linear2(hidden)))
            patterns.append(pattern)
        return self.decoder(x), torch.stack(patterns)


def columns(text: np.ndarray, n: int) -> Int[Tensor, "row column"]:
    """Split a text into n columns of equal length that are read side by side; what is left over is dropped.

    >>> columns(np.arange(7), 2).T.tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    rows = len(text) // n
    return torch.from_numpy(text[: rows * n].astype(np.int64)).view(n, rows).T.contiguous()


def blocks(rows: Int[Tensor, "row column"]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (words, next words) of consecutive blocks of 35 rows; the last one may be shorter."""
    for start in range(0, len(rows) - 1, BLOCK):
        words = rows[start : start + BLOCK + 1]
        yield words[:-1], words[1:]


@torch.inference_mode()
def text_loss(model: Baseline, rows: Int[Tensor, "row column"]) -> float:
    """Return the mean loss (nats) over all words of the columns, without dropout."""
    model.eval()
    total = sum(
        F.cross_entropy(model(words)[0].flatten(0, 1), targets.flatten(), reduction="sum").item()
        for words, targets in blocks(rows)
    )
    return total / rows[1:].numel()


@torch.inference_mode()
def probe_entropy(model: Baseline, rows: Int[Tensor, "row column"]) -> list[float]:
    """Return each layer's attention entropy (nats), the mean over the 35 queries of the recorded probe sequence."""
    model.eval()
    _, patterns = model(rows[PROBE, :1])
    entropies: list[float] = torch.special.entr(patterns).sum(-1).mean((1, 2)).tolist()
    return entropies


def positions(length: int) -> Float[Tensor, "pos model"]:
    """Return the sinusoids that are added to the embedding."""
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10_000.0) / WIDTH))
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
