"""How far back each head attends."""

import dataclasses
import functools

from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View

_NEAREST = 2
"""Offset from which a peak counts: the query itself and the token before it have names of their own."""


@dataclasses.dataclass(frozen=True)
class OffsetProfile(AbstractPatternProbe):
    """Mean attention mass at each offset = query - key, averaged over the scored queries, by layer and head.

    Offset 0 is the query itself. A query with fewer keys behind it counts as zero mass at the offsets it lacks.

    - `mass`: by offset.
    - `peak`: of the largest mass at one offset, two back or farther: a head that looks at a fixed distance has one.
    - `peak_offset`: that offset.

    Args:
        max_offset: the farthest offset; None for all of the context.

    Source: the combined attention maps of Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2, summed along
    their diagonals.

    >>> from stagewise.probe import example_view
    >>> reading, *_ = OffsetProfile().read(example_view([[[1, 0, 0], [1, 0, 0], [0, 1, 0]]]))
    >>> list(reading.labels["offset"]), reading.values
    ([0, 1, 2], tensor([[[[0.3333, 0.6667, 0.0000]]]]))
    """

    quantities = {
        "mass": Quantity("attention mass", range=(0, 1), role="attention by offset"),
        "peak": Quantity(
            "attention to one offset", range=(0, 1), progress="up", onset="attends to a fixed offset", role="peak"
        ),
        "peak_offset": Quantity("offset with most attention", "positions", range=(_NEAREST, None), role="peak offset"),
    }
    reads_predictions = False

    max_offset: int | None = None

    def read(self, view: View) -> list[Reading]:
        """Return `mass` by layer, head and offset, and each head's `peak` where offsets of two and more are read."""
        farthest = view.batch.tokens.shape[1] - 1
        last = farthest if self.max_offset is None else self.max_offset
        if not 0 <= last <= farthest:
            raise ValueError(f"max_offset must be between 0 and {farthest}, the farthest of this batch; got {last}")
        profile = view.offsets[..., : last + 1]
        mass = Reading("batch layer head offset", profile, "mass", {"offset": range(last + 1)})
        if last < _NEAREST:
            return [mass]
        far = functools.partial(Reading, "batch layer head", profile)
        return [
            mass,
            far("peak", statistic=lambda means: means[..., _NEAREST:].max(-1)),
            far("peak_offset", statistic=lambda means: means[..., _NEAREST:].argmax(-1) + float(_NEAREST)),
        ]
