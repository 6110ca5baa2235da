"""How far each head's attention has moved from the first checkpoint towards a target."""

import dataclasses
from collections.abc import Mapping

import pandas as pd
import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from stagewise.loss import mean_scored
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View, chosen
from stagewise.task import Batch

_AXES = ["run", "layer", "head", "relation"]

_ALIGNED = 1e-6
"""A head whose cosine is so close to 1 at the first checkpoint is on its target from the start."""


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionProgress(AbstractPatternProbe):
    """Cosine of a head's attention with a target map, and its progress since the first checkpoint.

        cosine(l, h) = mean_q  A_q . T_q / (|A_q| |T_q|),    progress(t) = (cosine(t) - cosine(0)) / (1 - cosine(0))

    The mean is over the queries that have a target, and over the sequences in which there is one. Progress is 0 at the
    first checkpoint and 1 where the attention is the target, whatever a diffuse head scores by chance; it is below 0
    where a head moved away. A head that was on its target from the start has 1. Unlike the attention mass on a
    relation, it also asks how the mass is shared among the target's keys. The axis `relation` holds the target's name.

    Args:
        targets: name -> attention [query key] of every sequence, rows without a target zero; None takes the
            relations of the batch, their keys sharing the attention evenly.
        relations: names of the batch's relations, where no targets are given; None for all.

    Source: similarity to an idealised attention pattern is common as a progress measure; the normalisation by the
    first checkpoint is this library's.

    >>> from stagewise.probe import example_view
    >>> view = example_view([[[1, 0], [3 / 7, 4 / 7]]], relations={"self": [[0, 0], [0, 1]]})
    >>> [reading] = AttentionProgress(relations=("self",)).read(view)
    >>> reading.values  # of (3, 4) with (0, 1)
    tensor([[[[0.8000]]]])
    """

    quantities = {
        "cosine": Quantity("cosine with the target attention", range=(0, 1), progress="up"),
        "progress": Quantity("progress towards the target attention", range=(None, 1)),
    }
    reads_predictions = False

    targets: Mapping[str, Float[Tensor, "query key"]] | None = None
    relations: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.targets is not None and self.relations is not None:
            raise ValueError("give either targets or names of relations, not both")

    def __repr__(self) -> str:
        return f"AttentionProgress({', '.join(self.targets or self.relations or ('all relations',))})"

    def read(self, view: View) -> list[Reading]:
        """Return `cosine` by layer, head and relation."""
        targets = {name: self._target(name, view.batch) for name in self._names(view.batch)}
        exists = view.having(list(targets)) if self.targets is None else None
        cosines = torch.stack([_cosine(view.patterns, target) for target in targets.values()], -1)
        if exists is not None:
            cosines = torch.where(exists, cosines, 0.0)  # of no query there is no mean
        labels = {"relation": list(targets)}
        return [Reading("batch layer head relation", cosines, "cosine", labels, exists=exists)]

    def across(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return `progress` by layer, head and relation; without interval."""
        rows = table[table["quantity"] == "cosine"].sort_values("step", kind="stable")
        start = rows.groupby(_AXES)["value"].transform("first")
        progress = ((rows["value"] - start) / (1 - start)).where(start < 1 - _ALIGNED, 1.0)
        without_intervals = rows.drop(columns=["lo", "hi", "n", "resamples"], errors="ignore")
        return without_intervals.assign(quantity="progress", value=progress)

    def _names(self, batch: Batch) -> list[str]:
        return list(self.targets) if self.targets is not None else chosen(self.relations, batch.relations, "relation")

    def _target(self, name: str, batch: Batch) -> Float[Tensor, "batch query key"]:
        if self.targets is None:
            return batch.relations[name].float()
        target, length = self.targets[name], batch.tokens.shape[1]
        if target.shape != (length, length) or bool((target < 0).any()):
            raise ValueError(
                f"the target {name!r} must be attention [query key] of {length} positions, none below zero; "
                f"got {tuple(target.shape)}, smallest {target.min():g}"
            )
        if not bool(target.any()):
            raise ValueError(f"the target {name!r} is zero everywhere: no query has one, leave it out")
        return target.to(batch.scored.device).expand(len(batch), -1, -1)


def _cosine(
    patterns: Float[Tensor, "batch layer head query key"], target: Float[Tensor, "batch query key"]
) -> Float[Tensor, "batch layer head"]:
    size = target.norm(dim=-1)
    along = einsum(patterns, target, "batch layer head query key, batch query key -> batch layer head query")
    scale = patterns.norm(dim=-1) * size[:, None, None].clamp(min=torch.finfo(size.dtype).tiny)
    return mean_scored(along / scale, size > 0)
