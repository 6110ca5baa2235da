"""Sequence classes: common tokens, tokens distinct to a class, a query token, and the label that the class decides."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from stagewise.architectures import full, reshaped
from stagewise.fields import Count, check_fields
from stagewise.plan import Seeds, TrainPlan
from stagewise.presets import Preset
from stagewise.recipe import Recipe
from stagewise.task import AbstractTask, Batch, check_number


@dataclasses.dataclass(frozen=True)
class SequenceClasses(AbstractTask):
    """Sequences of one of K classes: tokens drawn independently from P(. | class), the class's query, its label.

        P(common token | n) = w / Z,   P(k-th distinct token of n | n) = w_k / Z,   w_k evenly spaced

    Token ids: the common tokens; the distinct tokens of class 0, 1, ...; the query tokens; the labels. A query token
    serves `labels_per_query` classes, so that only distinct tokens distinguish its labels. The last position holds
    the query, and is the only one that is scored; its target is the label.

    Args:
        n_queries: number of query tokens.
        labels_per_query: classes of one query token; K = n_queries * labels_per_query.
        n_common: number of common tokens.
        n_distinct: number of distinct tokens of a class.
        length: contextual tokens of a sequence, the query not counted.
        common_weight: weight w of each common token, before normalising.
        distinct_weights: weights of the first and the last distinct token of a class.
        n_sequences: size of the training set; None for fresh data at every step.

    Source: Tian et al. (2023), Scan and Snap: Understanding Training Dynamics and Token Composition in 1-layer
    Transformer, arXiv:2305.16380, section 3 and the Syn-Small and Syn-Medium data of section 7. Note that the paper's
    M = 30 for Syn-Small counts contextual tokens only: with queries and labels there are 34.

    >>> task = SequenceClasses()
    >>> batch = task.sample(5, seed=0)
    >>> task.d_vocab, batch.tokens.shape, list(batch.relations)
    (34, torch.Size([5, 128]), ['distinct', 'common'])
    """

    n_queries: Count = 2
    labels_per_query: Count = 1
    n_common: Count = 10
    n_distinct: Count = 10
    length: Count = 127
    common_weight: float = 1.0
    distinct_weights: tuple[float, float] = (0.1, 1.0)
    n_sequences: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.common_weight > 0:
            raise ValueError(f"common_weight must be positive, got {self.common_weight}")
        if len(self.distinct_weights) != 2 or not min(self.distinct_weights) > 0:
            raise ValueError(
                f"distinct_weights are the first and the last weight, both positive, got {self.distinct_weights}"
            )

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "small": two labels a query, contexts of 31 tokens, one layer of an ordinary transformer."""
        return {"small": _small}

    @property
    def n_classes(self) -> int:
        """Number K of classes."""
        return self.n_queries * self.labels_per_query

    @property
    def d_vocab(self) -> int:
        """Number M of tokens: common, distinct, queries, labels."""
        return self.n_common + self.n_classes * (self.n_distinct + 1) + self.n_queries

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees: the contextual tokens and the query."""
        return self.length + 1

    @property
    def distinct_tokens(self) -> Int[Tensor, "class token"]:
        """The token ids that occur in one class only, the least frequent first."""
        first = self.n_common + self.n_distinct * torch.arange(self.n_classes)[:, None]
        return first + torch.arange(self.n_distinct)

    @property
    def support(self) -> Int[Tensor, "class token"]:
        """The token ids that each class draws from: common, then its distinct ones."""
        common = torch.arange(self.n_common).expand(self.n_classes, -1)
        return torch.cat([common, self.distinct_tokens], 1)

    @property
    def queries(self) -> Int[Tensor, " class"]:
        """The query token of each class."""
        first = self.n_common + self.n_classes * self.n_distinct
        return first + torch.arange(self.n_classes) // self.labels_per_query

    @property
    def labels(self) -> Int[Tensor, " class"]:
        """The label of each class."""
        return self.d_vocab - self.n_classes + torch.arange(self.n_classes)

    def distribution(self) -> Float[Tensor, "class token"]:
        """Return P(token | class) over the whole vocabulary, in float64.

        >>> [round(p, 7) for p in SequenceClasses().distribution()[0, [0, 10, 19]].tolist()]
        [0.0645161, 0.0064516, 0.0645161]
        """
        probabilities = torch.zeros(self.n_classes, self.d_vocab, dtype=torch.float64)
        return probabilities.scatter_(1, self.support, self._weights().expand(self.n_classes, -1))

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences, classes uniformly."""
        check_number(n)
        generator = Generator().manual_seed(seed)
        classes = torch.randint(self.n_classes, (n,), generator=generator)
        slots = torch.multinomial(self._weights(), n * self.length, replacement=True, generator=generator)
        return self.batch(self.support[classes[:, None], slots.view(n, self.length)], classes)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return four distributions of the label (nats): any token, any label, the query's labels, the class's label.

        The last, `class`, is the exact posterior: the label that the distinct tokens of the context imply, or one of
        the query's labels where there are none. Positions before the last are not scored: they hold the uniform one.
        """
        label = torch.zeros(self.n_classes, self.d_vocab)
        label[torch.arange(self.n_classes), self.labels] = 1.0
        present = (batch.tokens[:, :-1, None] == self.distinct_tokens.flatten()).any(1)
        evidence = present.view(-1, self.n_classes, self.n_distinct).any(-1)
        same_query = batch.tokens[:, -1:] == self.queries
        fits = torch.where((evidence & same_query).any(-1, keepdim=True), evidence & same_query, same_query)
        distributions = {
            "uniform": torch.ones(len(batch), self.d_vocab),
            "labels": label.sum(0).expand(len(batch), -1),
            "query": same_query.float() @ label,
            "class": fits.float() @ label,
        }
        return {name: self._everywhere(probs, batch) for name, probs in distributions.items()}

    def _weights(self) -> Float[Tensor, " slot"]:
        common = torch.full((self.n_common,), self.common_weight, dtype=torch.float64)
        distinct = torch.linspace(*self.distinct_weights, self.n_distinct, dtype=torch.float64)
        weights = torch.cat([common, distinct])
        return weights / weights.sum()

    def batch(self, context: Int[Tensor, "batch key"], classes: Int[Tensor, " batch"]) -> Batch:
        """Return contexts of these classes with their queries, targets and relations."""
        tokens = torch.cat([context, self.queries[classes][:, None]], 1)
        targets = torch.zeros_like(tokens)
        targets[:, -1] = self.labels[classes]
        scored = (torch.arange(tokens.shape[1]) == tokens.shape[1] - 1).expand(len(tokens), -1)
        common = tokens < self.n_common
        distinct = ~common & (tokens < self.queries[0])
        return Batch(tokens, targets, scored, {"distinct": _causal(distinct), "common": _causal(common)})

    def _everywhere(self, probs: Float[Tensor, "batch token"], batch: Batch) -> Float[Tensor, "batch pos token"]:
        log_probs = torch.full((*batch.tokens.shape, self.d_vocab), -math.log(self.d_vocab))
        log_probs[:, -1] = (probs / probs.sum(1, keepdim=True)).log()
        return log_probs


def syn_small() -> SequenceClasses:
    """Return Syn-Small: two query tokens with one label each, M = 34.

    Source: Tian et al. (2023), arXiv:2305.16380, section 7, Figures 4 and 5.
    """
    return SequenceClasses()


def syn_medium(n_queries: int = 1) -> SequenceClasses:
    """Return Syn-Medium: two labels a query token; the paper has 1, 3, 5 and 10 query tokens (M = 33, 79, 125, 240).

    Source: Tian et al. (2023), arXiv:2305.16380, section 7, Figure 6.
    """
    return SequenceClasses(n_queries, labels_per_query=2)


def _causal(keys: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch query key"]:
    """Let every query look at these keys before it."""
    length = keys.shape[1]
    return keys[:, None] & torch.ones(length, length, dtype=torch.bool).tril(-1)


def _small(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    task = SequenceClasses(**{"length": 31, "labels_per_query": 2, **fields})
    plan = TrainPlan(steps=600, batch_size=128, learning_rate=1e-3, seeds=Seeds(seed, seed, seed))
    shape = full(task.d_vocab, task.n_ctx, n_layers=1, n_heads=2, d_model=32, d_mlp=64)
    return Recipe(task, reshaped(shape, n_heads, n_layers), plan)
