"""In-context associative recall: key-value pairs, then a key whose value is to be predicted."""

import dataclasses
import math
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.fields import check_fields
from stagewise.task import AbstractTask, Batch


@dataclasses.dataclass(frozen=True)
class AssociativeRecall(AbstractTask):
    """Sequences k_1 v_1 ... k_N v_N q of N pairs and a query; the value of q is to be predicted at the end.

    In each sequence a fresh random permutation of all tokens maps keys to values. Keys other than the query are
    distinct. The probe batch is without repetition: one copy of the query's pair, p = 0.

    Relations: "query to value" and "query to key" go from the last position to the relevant pairs, "value to key"
    from every value to its own key, "previous token" from every token to the one before it.

    Args:
        n_pairs: N.
        n_tokens: size of the pool that keys and values share.
        n_copies: B, the mean number of slots that hold the query's pair.
        p: share of the sequences whose query is one of two frequent tokens.
        copies: "forced" puts one copy in a random slot and fills each other slot with probability (B - 1) / (N - 1);
            "bernoulli" fills each slot with probability B / N, as in the paper, and leaves the query out of
            (1 - B / N)^N of the sequences, 37 % at B = 1.
        n_sequences: size of the training set; None for fresh data at every step.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, section 3.2. Deviation: forced
    copies, without which B = 1 caps the accuracy near 0.63.

    >>> batch = AssociativeRecall(n_pairs=2, n_tokens=5).sample(3, seed=0)
    >>> batch.tokens.shape, int(batch.scored.sum()), list(batch.relations)
    (torch.Size([3, 5]), 3, ['query to value', 'query to key', 'value to key', 'previous token'])
    """

    n_pairs: int = 8
    n_tokens: int = 64
    n_copies: float = 1.0
    p: float = 0.0
    copies: Literal["forced", "bernoulli"] = "forced"
    n_sequences: int | None = None

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
        if not 0 <= self.p <= 1:
            raise ValueError(f"p is a share of the sequences, between 0 and 1; got {self.p}")
        if self.n_sequences is not None and self.n_sequences < 1:
            raise ValueError(f"n_sequences must be positive, or None for fresh data, got {self.n_sequences}")

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        return self.n_tokens

    @property
    def n_ctx(self) -> int:
        """Number of positions: 2 N + 1."""
        return 2 * self.n_pairs + 1

    def value_features(self) -> dict[str, Float[Tensor, "token_out token_in"]]:
        """Return the identity, "copy": a head that writes the token it reads."""
        return {"copy": torch.eye(self.n_tokens)}

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences; the value of the query is the target at the last position, the only one scored."""
        if n < 1:
            raise ValueError(f"the number of sequences must be positive, got {n}")
        generator = torch.Generator().manual_seed(seed)
        value_of = torch.rand(n, self.n_tokens, generator=generator).argsort(-1)
        query = torch.randint(self.n_tokens, (n,), generator=generator)
        frequent = torch.rand(n, generator=generator) < self.p
        query = torch.where(frequent, torch.randint(2, (n,), generator=generator), query)
        relevant = self._relevant_slots(n, generator)
        others = torch.rand(n, self.n_tokens, generator=generator).scatter(1, query[:, None], math.inf)
        keys = torch.where(relevant, query[:, None], others.argsort(-1)[:, : self.n_pairs])
        pairs = torch.stack([keys, value_of.gather(1, keys)], -1)
        tokens = torch.cat([pairs.flatten(1), query[:, None]], 1)
        targets = torch.zeros_like(tokens)
        targets[:, -1] = value_of.gather(1, query[:, None])[:, 0]
        scored = (torch.arange(self.n_ctx) == self.n_ctx - 1).expand(n, -1)
        return Batch(tokens, targets, scored, _relations(relevant))

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return (nats) the uniform distribution, a guess among the sequence's values, and the recalled value.

        Positions that are not scored hold the uniform distribution.
        """
        uniform = torch.full((*batch.tokens.shape, self.n_tokens), -math.log(self.n_tokens))
        guess, recall = uniform.clone(), uniform.clone()
        counts = torch.zeros(len(batch), self.n_tokens)
        values = batch.tokens[:, 1::2]
        counts.scatter_add_(1, values, torch.ones(values.shape))
        guess[:, -1] = (counts / self.n_pairs).log()
        recall[:, -1] = torch.nn.functional.one_hot(batch.targets[:, -1], self.n_tokens).float().log()
        return {"uniform": uniform, "a value of the context": guess, "recall": recall}

    def probe_batch(self, n: int, seed: int) -> Batch:
        """Sample n evaluation sequences without repetition, with references."""
        tested = dataclasses.replace(self, n_copies=1.0, p=0.0, copies="forced")
        return super().probe_batch(n, seed) if self == tested else tested.probe_batch(n, seed)

    def _relevant_slots(self, n: int, generator: torch.Generator) -> Bool[Tensor, "batch slot"]:
        chance = torch.rand(n, self.n_pairs, generator=generator)
        if self.copies == "bernoulli":
            return chance < self.n_copies / self.n_pairs
        forced = torch.randint(self.n_pairs, (n, 1), generator=generator)
        more = chance < (self.n_copies - 1) / max(self.n_pairs - 1, 1)
        return more.scatter(1, forced, True)


def _relations(relevant: Bool[Tensor, "batch slot"]) -> dict[str, Bool[Tensor, "batch query key"]]:
    n, n_pairs = relevant.shape
    position = torch.arange(2 * n_pairs + 1)
    before = position[:, None] - 1 == position
    is_value = (position % 2 == 1)[:, None]
    from_query = (position == 2 * n_pairs)[:, None]
    return {
        "query to value": from_query & _at(relevant, 1)[:, None],
        "query to key": from_query & _at(relevant, 0)[:, None],
        "value to key": (before & is_value).expand(n, -1, -1),
        "previous token": before.expand(n, -1, -1),
    }


def _at(relevant: Bool[Tensor, "batch slot"], offset: Literal[0, 1]) -> Bool[Tensor, "batch key"]:
    """Mark the keys (offset 0) or the values (1) of the slots."""
    marks = torch.zeros(*relevant.shape, 2, dtype=torch.bool)
    marks[..., offset] = relevant
    return torch.nn.functional.pad(marks.flatten(1), (0, 1))
