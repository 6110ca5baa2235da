"""How many different tokens each head attends to, among all and among those of a relation."""

import dataclasses

import torch

from stagewise.loss import mean_scored
from stagewise.papers.scan_and_snap._queries import on_same_token
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class TokenEntropy(AbstractPatternProbe):
    """Entropy of the attention over tokens (keys with the same token together), by layer and head, nats.

        H = - sum_l c_l log c_l,   c_l = sum_{k: x_k = l} A_qk

    `all` is over all tokens; the others are over the tokens of a relation, where c is renormalised to sum to one. A
    query without any attention on a relation adds 0. Averaged over the scored queries.

    Args:
        relations: names of the batch's relations; None for all.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 6, which has the distinct tokens renormalised. Deviation:
    on sampled sequences a token's share is the one of the sequence; a `population_batch` has the paper's.

    >>> from stagewise.probe import example_view
    >>> pattern = [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.5, 0.25]]
    >>> view = example_view([pattern], tokens=[7, 4, 7], scored=[False, False, True])
    >>> [reading] = TokenEntropy().read(view)
    >>> reading.labels["among"], reading.values  # a half on either token: log 2
    (['all'], tensor([[[[0.6931]]]]))
    """

    quantities = {"entropy": Quantity("entropy over tokens", "nats", (0, None))}

    relations: tuple[str, ...] | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `entropy` in nats by layer, head and what it is `among`: all tokens, and each relation's."""
        batch, patterns = view.batch, view.patterns
        ids = batch.token_ids("TokenEntropy")
        names = chosen(self.relations, batch.relations, "relation") if batch.relations or self.relations else []
        # sum_l c_l log c_l is sum_k A_k log c_(x_k): each key of a token carries its part.
        entropies = [_entropy(patterns, on_same_token(patterns, ids))]
        for name in names:
            keys = batch.relations[name][:, None, None].to(patterns.dtype)
            mass = (patterns * keys).sum(-1, keepdim=True).clamp(min=torch.finfo(patterns.dtype).tiny)
            share = patterns * keys / mass
            entropies.append(_entropy(share, on_same_token(share, ids)))
        values = torch.stack([mean_scored(entropy, batch.scored) for entropy in entropies], -1)
        starts = view.having(names) if names else None
        exists = None if starts is None else torch.nn.functional.pad(starts, (1, 0), value=True)
        return [Reading("batch layer head among", values, "entropy", {"among": ["all", *names]}, exists=exists)]


def _entropy(share: torch.Tensor, together: torch.Tensor) -> torch.Tensor:
    # xlogy is 0 where a share is 0, whatever the other keys get.
    return -torch.xlogy(share, together).sum(-1)
