"""Which relation each head attends to, and whether the heads compete for one or divide them."""

import dataclasses
import functools

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from stagewise.loss import mean_scored
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View, chosen


@dataclasses.dataclass(frozen=True)
class HeadSpecialisation(AbstractPatternProbe):
    """Each head's share of a set of relations, and two indices over all heads of the model, each in [0, 1].

    With p_h(r) the head's mass on r, over the sequences in which r starts, divided by its mass on all the relations, R
    relations:

    - `share`: p_h(r); the largest is the head's top relation.
    - `top_share`: max_r p_h(r).
    - `competition`: (max_r mean_h p_h(r) - 1/R) / (1 - 1/R): 1 when all heads are on one and the same relation,
      0 when the relations get equal attention, be it from specialists or from heads without preference.
    - `coverage`: (1/R) max over one-to-one assignments of heads to relations of sum p_h(r): 1 when every relation has
      a head of its own, 1/R when no head prefers any.

    Args:
        relations: names of the batch's relations; None for all.

    Source: the competitive and cooperative phases of Yüksel et al. (2026), arXiv:2602.19143, section 3; the indices
    are this library's.

    >>> from stagewise.probe import example_view
    >>> relations = {"first": [[0, 0], [1, 0]], "self": [[0, 0], [0, 1]]}
    >>> view = example_view([[[1, 0], [1, 0]], [[1, 0], [0, 1]]], scored=[False, True], relations=relations)
    >>> {r.quantity: r.statistic(r.values.mean(0).numpy()).tolist() for r in HeadSpecialisation().read(view)}
    {'share': [[[1.0, 0.0], [0.0, 1.0]]], 'top_share': [[1.0, 1.0]], 'competition': 0.0, 'coverage': 1.0}
    """

    quantities = {
        "share": Quantity("share of a head's attention", range=(0, 1), role="share"),
        "top_share": Quantity("largest share of a head", range=(0, 1)),
        "competition": Quantity("competition", range=(0, 1)),
        "coverage": Quantity("coverage", range=(0, 1)),
    }
    reads_predictions = False

    relations: tuple[str, ...] | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `share`, `top_share`, `competition` and `coverage`."""
        batch = view.batch
        names = chosen(self.relations, batch.relations, "relation")
        if len(names) < 2:
            raise ValueError(f"a head specialises among at least two relations, got {names}")
        masses = torch.stack([mean_scored(view.masses[name], batch.scored) for name in names], -1)
        reading = functools.partial(Reading, values=masses, exists=view.having(names))
        return [
            reading("batch layer head relation", quantity="share", labels={"relation": names}, statistic=_shares),
            reading("batch layer head", quantity="top_share", statistic=lambda mean: _shares(mean).max(-1)),
            reading("batch", quantity="competition", statistic=_competition),
            reading("batch", quantity="coverage", statistic=_coverage),
        ]


def _shares(masses: np.ndarray) -> np.ndarray:
    """Divide each head's masses [..., relation] by their sum; a head with no mass on any has equal shares."""
    total = masses.sum(-1, keepdims=True)
    return np.asarray(np.divide(masses, total, out=np.full_like(masses, 1 / masses.shape[-1]), where=total > 0))


def _competition(masses: np.ndarray) -> np.ndarray:
    """Return the competition index of masses [..., layer, head, relation]."""
    chance = 1 / masses.shape[-1]
    return np.asarray((_shares(masses).mean((-3, -2)).max(-1) - chance) / (1 - chance))


def _coverage(masses: np.ndarray) -> np.ndarray:
    """Return the coverage of masses [..., layer, head, relation] under the best one-to-one assignment."""
    *leading, layers, heads, relations = masses.shape
    flat = _shares(masses).reshape(-1, layers * heads, relations)
    best = [p[linear_sum_assignment(p, maximize=True)].sum() / relations for p in flat]
    return np.asarray(best).reshape(leading)
