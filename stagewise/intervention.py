"""Edits of a forward pass, as data: a probe requests them, `measure` plans the passes, `models` runs them."""

import dataclasses
from typing import Literal

from stagewise.plan import check_fields


@dataclasses.dataclass(frozen=True)
class RestrictContext:
    """Attention of every layer restricted to the last `context` positions, the query's own included, then renormalised.

    With one layer this is the model on the truncated window, at the same positions. With L layers information still
    reaches back L (context - 1) + 1 tokens: a window a layer is not a truncated input.

    Raises:
        ValueError: `context` is less than 1.
    """

    context: int

    def __post_init__(self) -> None:
        check_fields(self)
        if self.context < 1:
            raise ValueError(f"a restricted context keeps at least the query itself: context >= 1, got {self.context}")

    @property
    def first_layer(self) -> int:
        """The first layer whose input differs from the clean pass's, or whose computation does."""
        return 0


@dataclasses.dataclass(frozen=True)
class AblateHead:
    """One head's output z replaced: by zero, by its batch mean at each position, or by another sequence's.

    Resampling takes the next sequence of the batch, so that every sequence's output is replaced.

    Raises:
        ValueError: a negative layer or head, or an unknown kind.
    """

    layer: int
    head: int
    kind: Literal["zero", "mean", "resample"] = "zero"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.layer < 0 or self.head < 0:
            raise ValueError(f"layers and heads count from 0, got L{self.layer}H{self.head}")

    @property
    def first_layer(self) -> int:
        """The first layer that must be computed again."""
        return self.layer


Intervention = RestrictContext | AblateHead
Edit = tuple[Intervention, ...]
"""What one pass changes: all of these together."""


def first_layer(edit: Edit) -> int:
    """Return the first layer that must be computed again.

    >>> first_layer((AblateHead(2, 0), AblateHead(1, 3)))
    1
    """
    return min(part.first_layer for part in edit)
