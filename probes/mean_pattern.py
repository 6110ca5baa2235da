"""The attention maps themselves, averaged over the batch."""

import dataclasses

from stagewise.probe import AbstractPatternProbe, Reading, View


@dataclasses.dataclass(frozen=True)
class MeanPattern(AbstractPatternProbe):
    """Attention from each query to each key, averaged over the sequences, by layer and head.

    It has layers * heads * positions^2 values a checkpoint: meant for short contexts.

    Source: the combined attention maps of Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2.

    >>> MeanPattern()
    MeanPattern()
    """

    def read(self, view: View) -> list[Reading]:
        """Return `attention` by layer, head, query and key; without interval."""
        positions = range(view.batch.tokens.shape[1])
        labels = {"query": positions, "key": positions}
        return [Reading("layer head query key", view.patterns.mean(0), "attention", labels)]
