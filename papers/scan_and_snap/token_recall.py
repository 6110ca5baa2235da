"""How many of a relation's tokens get more attention than a threshold."""

import dataclasses

import torch
from einops import einsum

from stagewise.loss import mean_scored
from stagewise.papers.scan_and_snap._queries import on_same_token, once_a_token
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class TokenRecall(AbstractPatternProbe):
    """Share of the relation's different tokens to which a head pays more attention than each threshold.

    A token's attention is that of all its keys together; each token counts once. Averaged over the scored queries.
    On a `vocabulary_batch`, which holds every token once, it is the paper's recall.

    Args:
        thresholds: attention, in (0, 1).
        relation: whose tokens a head should attend to.

    Source: Tian et al. (2023), arXiv:2305.16380, Figures 11 and 12.

    >>> from stagewise.probe import example_view
    >>> pattern = [[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]
    >>> view = example_view([pattern], scored=[False, False, True], relations={"distinct": [[1, 1, 0]] * 3})
    >>> [reading] = TokenRecall((0.1, 0.25)).read(view)
    >>> reading.labels["threshold"], reading.values
    (['0.1', '0.25'], tensor([[[[1.0000, 0.5000]]]]))
    """

    quantities = {"recall": Quantity("recall of the relation's tokens", range=(0, 1))}

    thresholds: tuple[float, ...]
    relation: str = "distinct"

    def __post_init__(self) -> None:
        if not self.thresholds or not all(0 < threshold < 1 for threshold in self.thresholds):
            raise ValueError(f"thresholds are attention, between 0 and 1, at least one; got {self.thresholds}")

    def read(self, view: View) -> list[Reading]:
        """Return `recall` in [0, 1] by layer, head and threshold."""
        batch = view.batch
        ids = batch.token_ids("TokenRecall")
        (name,) = chosen((self.relation,), batch.relations, "relation")
        weight = batch.relations[name] * once_a_token(ids)[:, None]
        n_tokens = weight.sum(-1)
        if empty := ((n_tokens == 0) & batch.scored).sum().item():
            raise ValueError(f"{empty} scored queries have no key of the relation {name!r}: nothing to recall")
        attention = on_same_token(view.patterns, ids)
        pattern = "batch layer head query key, batch query key -> batch layer head query"
        shares = [einsum((attention > t).float(), weight.float(), pattern) for t in self.thresholds]
        recall = [mean_scored(share / n_tokens.clamp(min=1e-9)[:, None, None], batch.scored) for share in shares]
        labels = {"threshold": [f"{threshold:g}" for threshold in self.thresholds]}
        return [Reading("batch layer head threshold", torch.stack(recall, -1), "recall", labels)]
