"""The attention maps themselves, averaged over the batch."""

import dataclasses

from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class MeanPattern(AbstractPatternProbe):
    """Attention from each query to each key, averaged over the sequences, by layer and head.

    It has layers * heads * positions^2 values a checkpoint: in the table a row a head, whose map `table.maps_in` reads.

    Args:
        n_positions: only of the first so many positions; None takes all, which suits short contexts.

    Source: the combined attention maps of Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2.

    >>> from stagewise.probe import example_view
    >>> view = example_view([[[1, 0, 0], [0.25, 0.75, 0], [0, 0, 1]]])
    >>> [reading] = MeanPattern(n_positions=2).read(view)
    >>> reading.values
    tensor([[[[1.0000, 0.0000],
              [0.2500, 0.7500]]]])
    """

    quantities = {"attention": Quantity("mean attention", range=(0, 1))}
    reads_predictions = False

    n_positions: int | None = None

    def __post_init__(self) -> None:
        if self.n_positions is not None and self.n_positions < 1:
            raise ValueError(f"a map needs at least one position, got n_positions={self.n_positions}")

    def read(self, view: View) -> list[Reading]:
        """Return `attention` by layer, head, query and key; without interval."""
        maps = view.patterns[..., : self.n_positions, : self.n_positions].mean(0)
        labels = {"query": range(maps.shape[-2]), "key": range(maps.shape[-1])}
        return [Reading("layer head query key", maps, "attention", labels, means=True)]
