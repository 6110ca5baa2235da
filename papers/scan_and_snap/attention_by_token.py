"""Which tokens each head attends to, at any position."""

import dataclasses

from stagewise.papers.scan_and_snap._queries import scored_rows
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class AttentionByToken(AbstractPatternProbe):
    """Attention of single scored queries, summed over the keys that hold the same token, by layer and head.

    On a `population_batch` the rows are the classes, and the attention of a model that encodes no
    position is the paper's c_n. It has layers * heads * rows * tokens values a checkpoint.

    Args:
        rows: how many scored queries to show, from the first sequence on.

    Source: Tian et al. (2023), arXiv:2305.16380, Eqn 5 and Figures 4 and 5.

    >>> from stagewise.probe import example_view
    >>> pattern = [[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]]
    >>> view = example_view([pattern], tokens=[7, 4, 7], scored=[False, False, True])
    >>> [reading] = AttentionByToken().read(view)
    >>> reading.labels["token"], reading.values
    ([4, 7], tensor([[[[0.3000, 0.7000]]]]))
    """

    quantities = {"attention": Quantity("attention by token", range=(0, 1))}
    reads_predictions = False

    of_all_sequences = True

    rows: int = 16

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError(f"rows must be at least one scored query, got {self.rows}")

    def read(self, view: View) -> list[Reading]:
        """Return `attention` by layer, head, row and token; without interval."""
        attention, sequence = scored_rows(view.patterns, view.batch.scored, self.rows)
        tokens, index = view.batch.token_ids("AttentionByToken")[sequence].unique(return_inverse=True)  # type: ignore[no-untyped-call]
        by_token = attention.new_zeros(*attention.shape[:3], len(tokens))
        by_token.scatter_add_(-1, index.expand_as(attention), attention)
        labels = {"row": range(len(sequence)), "token": tokens.tolist()}
        return [Reading("layer head row token", by_token, "attention", labels)]
