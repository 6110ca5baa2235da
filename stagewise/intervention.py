"""Interventions as data: edits of a forward pass, which a probe requests; clamps of training, which a plan lists."""

import dataclasses
from typing import Literal

from stagewise.fields import Natural, check_fields


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


@dataclasses.dataclass(frozen=True)
class AttributeHeads:
    """The change of the loss when each head's output z is replaced, estimated for all heads from gradients.

    The estimate of a head is the sum over positions and dimensions of (z' - z) dL/dz, z' what replaces z. With more
    than one step the gradient is the mean of those at inputs x' + k/steps (x - x'), k = 1, ..., steps: x is the
    residual stream in front of the first layer, and x' its mean over the batch at each position, or zero.

    Args:
        kind: what replaces z, "mean" (over the batch, at each position) or "zero".
        steps: gradients that are averaged; 1 takes that of the clean pass.

    Raises:
        ValueError: an unknown kind, or less than one step.
    """

    kind: Literal["zero", "mean"] = "mean"
    steps: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("zero", "mean"):
            raise ValueError(f'kind must be "zero" or "mean", got {self.kind!r}')
        if self.steps < 1:
            raise ValueError(f"an attribution takes at least one step, got {self.steps}")


@dataclasses.dataclass(frozen=True)
class ClampHead:
    """A head that training holds from a step on. Up to the checkpoint of that step the run is the one without it.

    What is held is part of the weights, so that every later checkpoint is the model that was trained:

    - "out": the head writes nothing: W_O is zero, and its other weights stay as they are.
    - "weights": all its weights stay as they are.
    - "pattern": W_Q, b_Q, W_K and b_K stay as they are. In a first layer whose embeddings do not train this freezes the
      attention pattern itself; elsewhere what the head reads moves on.
    - "uniform": it attends evenly to all keys: W_Q and b_Q are zero, W_K and b_K stay as they are.
    - "kick", a control: nothing is held; the layer's W_O (W_V, where W_O does not train) is moved once, in a random
      direction, by the norm of this head's part of it.

    Args:
        layer: of the head.
        head: its number.
        start: the first update that it holds for.
        kind: what is held.

    Raises:
        ValueError: a negative number, or an unknown kind.

    >>> ClampHead(0, 1, start=120)
    ClampHead(layer=0, head=1, start=120, kind='out')
    """

    layer: Natural
    head: Natural
    start: Natural
    kind: Literal["out", "weights", "pattern", "uniform", "kick"] = "out"

    def __post_init__(self) -> None:
        check_fields(self)


Intervention = RestrictContext | AblateHead
Edit = tuple[Intervention, ...]
"""What one pass changes: all of these together."""


def first_layer(edit: Edit) -> int:
    """Return the first layer that must be computed again.

    >>> first_layer((AblateHead(2, 0), AblateHead(1, 3)))
    1
    """
    return min(part.first_layer for part in edit)
