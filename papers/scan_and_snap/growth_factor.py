"""How much the attention to each token has grown since the first checkpoint, before it is normalised."""

import dataclasses
from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from einops import rearrange

from stagewise.architecture import Architecture
from stagewise.attention import hooks_of
from stagewise.probe import AbstractProbe, Quantity, Reading, View, chosen

_AXES = ["run", "layer", "head", "token"]


@dataclasses.dataclass(frozen=True)
class GrowthFactor(AbstractProbe):
    """Attention scores of the scored queries by token, and their growth since the first checkpoint.

        chi_l(t) = exp( 2 (z_l(t) - z_l(0)) ),   z_l the mean score of the keys that hold token l

    Only the ratio of two tokens' factors matters for attention, since a softmax is blind to a shift of all scores; in
    the (Y, Z) model, whose scores sum to a constant, the factors themselves do too.

    Args:
        relation: whose tokens to follow.

    Source: Tian et al. (2023), arXiv:2305.16380, Theorem 3.

    >>> from stagewise.probe import example_view
    >>> scores = {"blocks.0.attn.hook_attn_scores": [[[0, 0], [3, 0]]]}
    >>> view = example_view(tokens=[7, 4], relations={"distinct": [[0, 0], [1, 0]]}, activations=scores)
    >>> [reading] = GrowthFactor().read(view)
    >>> reading.labels["token"], reading.values
    ([7], tensor([[[3.]]]))
    """

    quantities = {
        "score": Quantity("attention score"),
        "growth": Quantity("growth of the attention score", range=(0, None)),
    }
    reads_predictions = False

    of_all_sequences = True

    relation: str = "distinct"

    def hooks(self, architecture: Architecture) -> Iterable[str]:
        """Name the attention scores of all layers."""
        return hooks_of("attn.hook_attn_scores", architecture.n_layers)

    def read(self, view: View) -> list[Reading]:
        """Return `score` by layer, head and token; without interval."""
        batch = view.batch
        (name,) = chosen((self.relation,), batch.relations, "relation")
        sequence, query, key = (batch.relations[name] & batch.scored[..., None]).nonzero(as_tuple=True)
        if not len(sequence):
            raise ValueError(f"no scored query of the batch has a key of the relation {name!r}: nothing to follow")
        scores = torch.stack([view.activations[hook] for hook in self.hooks(view.architecture)], 1)
        followed = scores[sequence, :, :, query, key]
        tokens, index, times = batch.token_ids("GrowthFactor")[sequence, key].unique(
            return_inverse=True, return_counts=True
        )  # type: ignore[no-untyped-call]
        total = followed.new_zeros(len(tokens), *followed.shape[1:]).index_add_(0, index, followed)
        mean = rearrange(total / times[:, None, None], "token layer head -> layer head token")
        return [Reading("layer head token", mean, "score", {"token": tokens.tolist()})]

    def across(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return `growth`, 1 at the first checkpoint, by layer, head and token."""
        scores = table[table["quantity"] == "score"].sort_values("step", kind="stable")
        start = scores.groupby(_AXES)["value"].transform("first")
        return scores.assign(quantity="growth", value=np.exp(2 * (scores["value"] - start)))
