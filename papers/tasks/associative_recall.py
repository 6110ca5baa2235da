"""In-context associative recall: key-value pairs, then keys whose values are to be predicted."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.architectures import reshaped
from stagewise.fields import Count, Share, check_fields
from stagewise.papers.linear_init import LinearInit
from stagewise.plan import Seeds, TrainPlan
from stagewise.presets import Preset
from stagewise.recipe import Recipe
from stagewise.schedules import linear
from stagewise.task import AbstractTask, Batch, check_number


@dataclasses.dataclass(frozen=True)
class AssociativeRecall(AbstractTask):
    """Sequences k_1 v_1 ... k_N v_N q of N pairs and a query; the value of q is to be predicted at the end.

    In each sequence a fresh random permutation of all tokens maps keys to values. Keys other than the query are
    distinct. The probe batch is without repetition: one copy of the query's pair, p = 0.

    With several queries (multi-query associative recall) M different keys of the context follow the pairs in random
    order, and the value of each is the target at its position; a model must find all of them in one pass.

    Relations: "query to value" and "query to key" go from each query to its own pairs, "value to key" from every value
    to its own key, "previous token" from every token to the one before it.

    Args:
        n_pairs: N.
        n_tokens: size of the pool that keys and values share.
        n_copies: B, the mean number of slots that hold the query's pair.
        p: share of the sequences whose query is one of two frequent tokens.
        copies: "forced" puts one copy in a random slot and fills each other slot with probability (B - 1) / (N - 1);
            "bernoulli" fills each slot with probability B / N, as in the paper, and leaves the query out of
            (1 - B / N)^N of the sequences, 37 % at B = 1.
        n_sequences: size of the training set; None for fresh data at every step.
        n_queries: M, at most N; more than one needs each key once: n_copies = 1, forced.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, section 3.2. Deviation: forced
    copies, without which B = 1 caps the accuracy near 0.63. Several queries: Arora et al. (2023), Zoology: Measuring
    and Improving Recall in Efficient Language Models, arXiv:2312.04927, section 3; there filler tokens stand between
    the queries, and keys and values are from two halves of the vocabulary.

    >>> batch = AssociativeRecall(n_pairs=2, n_tokens=5).sample(3, seed=0)
    >>> batch.tokens.shape, int(batch.scored.sum()), list(batch.relations)
    (torch.Size([3, 5]), 3, ['query to value', 'query to key', 'value to key', 'previous token'])
    """

    n_pairs: int = 8
    n_tokens: int = 64
    n_copies: float = 1.0
    p: Share = 0.0
    copies: Literal["forced", "bernoulli"] = "forced"
    n_sequences: Count | None = None
    n_queries: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if not 1 <= self.n_pairs < self.n_tokens:
            raise ValueError(
                "the keys beside the query are distinct: n_pairs must be between 1 and n_tokens - 1, got "
                f"n_pairs={self.n_pairs}, n_tokens={self.n_tokens}"
            )
        if not 1 <= self.n_copies <= self.n_pairs:
            raise ValueError(
                f"n_copies is a mean number of the n_pairs = {self.n_pairs} slots, at least 1; got {self.n_copies}"
            )
        if not 1 <= self.n_queries <= self.n_pairs:
            raise ValueError(f"n_queries is at least 1 and at most n_pairs = {self.n_pairs}, got {self.n_queries}")
        if self.n_queries > 1 and (self.n_copies != 1 or self.copies != "forced"):
            raise ValueError(
                "several queries need every key once: n_copies=1 and copies='forced', got "
                f"n_queries={self.n_queries}, n_copies={self.n_copies}, copies={self.copies!r}"
            )

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "small": two attention-only layers of one head, width 32, Adam at 3e-3."""
        return {"small": _small}

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        return self.n_tokens

    @property
    def n_ctx(self) -> int:
        """Number of positions: 2 N + M."""
        return 2 * self.n_pairs + self.n_queries

    def value_features(self) -> dict[str, Float[Tensor, "token_out token_in"]]:
        """Return the identity, "copy": a head that writes the token it reads."""
        return {"copy": torch.eye(self.n_tokens)}

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences; the value of a query is the target at its position, and only those are scored."""
        check_number(n)
        generator = torch.Generator().manual_seed(seed)
        value_of = torch.rand(n, self.n_tokens, generator=generator).argsort(-1)
        query = torch.randint(self.n_tokens, (n,), generator=generator)
        frequent = torch.rand(n, generator=generator) < self.p
        query = torch.where(frequent, torch.randint(2, (n,), generator=generator), query)
        relevant = self._relevant_slots(n, generator)
        others = torch.rand(n, self.n_tokens, generator=generator).scatter(1, query[:, None], math.inf)
        keys = torch.where(relevant, query[:, None], others.argsort(-1)[:, : self.n_pairs])
        pairs = torch.stack([keys, value_of.gather(1, keys)], -1)
        slots = self._queried_slots(relevant, generator)
        queries = query[:, None] if self.n_queries == 1 else keys.gather(1, slots.float().argmax(-1))
        tokens = torch.cat([pairs.flatten(1), queries], 1)
        targets = torch.zeros_like(tokens)
        targets[:, 2 * self.n_pairs :] = value_of.gather(1, queries)
        scored = (torch.arange(self.n_ctx) >= 2 * self.n_pairs).expand(n, -1)
        return Batch(tokens, targets, scored, _relations(slots))

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return (nats) the uniform distribution, a guess among the sequence's values, and the recalled value.

        Positions that are not scored hold the uniform distribution.
        """
        uniform = torch.tensor(-math.log(self.n_tokens)).expand(*batch.tokens.shape, self.n_tokens)
        guess, recall = uniform.clone(), uniform.clone()
        counts = torch.zeros(len(batch), self.n_tokens)
        asked = 2 * self.n_pairs
        values = batch.tokens[:, 1:asked:2]
        counts.scatter_add_(1, values, torch.ones(values.shape))
        guess[:, asked:] = (counts / self.n_pairs).log()[:, None]
        recall[:, asked:] = torch.nn.functional.one_hot(batch.targets[:, asked:], self.n_tokens).float().log()
        return {"uniform": uniform, "a value of the context": guess, "recall": recall}

    def probe_batch(self, n: int, seed: int) -> Batch:
        """Sample n evaluation sequences without repetition, with references."""
        tested = dataclasses.replace(self, n_copies=1.0, p=0.0, copies="forced")
        return super().probe_batch(n, seed) if self == tested else tested.probe_batch(n, seed)

    def _queried_slots(
        self, relevant: Bool[Tensor, "batch slot"], generator: torch.Generator
    ) -> Bool[Tensor, "batch asked slot"]:
        """Return each query's slots: of a single one those given, of several the given one and others, shuffled."""
        if self.n_queries == 1:
            return relevant[:, None]
        chance = torch.rand(len(relevant), self.n_pairs, generator=generator)
        chosen = torch.where(relevant, -1.0, chance).argsort(-1)[:, : self.n_queries]
        order = torch.rand(len(relevant), self.n_queries, generator=generator).argsort(-1)
        return torch.nn.functional.one_hot(chosen.gather(1, order), self.n_pairs).bool()

    def _relevant_slots(self, n: int, generator: torch.Generator) -> Bool[Tensor, "batch slot"]:
        chance = torch.rand(n, self.n_pairs, generator=generator)
        if self.copies == "bernoulli":
            return chance < self.n_copies / self.n_pairs
        forced = torch.randint(self.n_pairs, (n, 1), generator=generator)
        more = chance < (self.n_copies - 1) / max(self.n_pairs - 1, 1)
        return more.scatter(1, forced, True)


def _relations(slots: Bool[Tensor, "batch asked slot"]) -> dict[str, Bool[Tensor, "batch query key"]]:
    n, n_queries, n_pairs = slots.shape
    position = torch.arange(2 * n_pairs + n_queries)
    before = position[:, None] - 1 == position
    is_value = ((position % 2 == 1) & (position < 2 * n_pairs))[:, None]
    return {
        "query to value": _from_queries(slots, 1),
        "query to key": _from_queries(slots, 0),
        "value to key": (before & is_value).expand(n, -1, -1),
        "previous token": before.expand(n, -1, -1),
    }


def _from_queries(slots: Bool[Tensor, "batch asked slot"], offset: Literal[0, 1]) -> Bool[Tensor, "batch query key"]:
    """Mark, for each query, the keys (offset 0) or the values (1) of its slots."""
    n, n_queries, n_pairs = slots.shape
    marks = torch.zeros(n, n_queries, n_pairs, 2, dtype=torch.bool)
    marks[..., offset] = slots
    return torch.nn.functional.pad(marks.flatten(2), (0, n_queries, 2 * n_pairs, 0))


def _small(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    task = AssociativeRecall(**fields)
    shape: dict[str, Any] = {"n_layers": 2, "n_heads": 1, "d_model": 32, "d_head": 32, "attn_only": True}
    config = {"normalization_type": None, **shape, "n_ctx": task.n_ctx, "d_vocab": task.n_tokens}
    # 1.6 times the law of 21 earlier runs, in hundreds.
    law = 19.1 * math.pow(task.n_tokens, 0.34) * math.pow(task.n_pairs, 1.64)
    budget, seeds = max(4000, 100 * math.ceil(1.6 * law / 100)), Seeds(seed, seed, seed)
    plan = TrainPlan(budget, 32, learning_rate=3e-3, weight_decay=0.0, clip=None, save=linear(50, budget), seeds=seeds)
    return Recipe(task, reshaped(Architecture(config, LinearInit()), n_heads, n_layers), plan)
