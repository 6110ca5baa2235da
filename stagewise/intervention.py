"""Edits of a forward pass, as data: a probe requests them, `measure` plans the passes, `models` runs them."""

import abc
import dataclasses
from typing import ClassVar, Literal

from stagewise.fields import Count, Natural, check_fields


class _AbstractRequest(abc.ABC):  # noqa: B024 - nothing of it is left to its leaves
    """A change of the forward pass that a probe asks for, a frozen dataclass."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclasses.dataclass(frozen=True)
class RestrictContext(_AbstractRequest):
    """Attention of every layer restricted to the last `context` positions, the query's own included, then renormalised.

    With one layer this is the model on the truncated window, at the same positions. With L layers information still
    reaches back L (context - 1) + 1 tokens: a window a layer is not a truncated input.
    """

    context: Count


@dataclasses.dataclass(frozen=True)
class AblateHead(_AbstractRequest):
    """One head's output z replaced: by zero, by its batch mean at each position, or by another sequence's.

    Resampling takes the previous sequence of the batch, the first one the last, so that every sequence's output is
    replaced. "pattern" and "values" replace one factor of z = pattern x values by its batch mean, at each query and
    key, and leave the other as it is: what is lost is what the head knows of where to look, or of what is there.
    """

    layer: Natural
    head: Natural
    kind: Literal["zero", "mean", "resample", "pattern", "values"] = "zero"


Patch = Literal["patch", "neutral", "zero", "mean"]
"""What a head's output is replaced by in prompts."""


@dataclasses.dataclass(frozen=True)
class PatchHead(AblateHead):
    """One head's output z replaced at a labelled position of prompts, or at all: by that in another prompt.

    Args:
        kind: "patch" takes z of the corrupted prompt where the prompt runs, and of the prompt where the corrupted one
            does; "neutral" that of the neutral prompt; "zero" and "mean" (over prompts of one length) are ablations.
        place: the label of the position; empty for all positions.
    """

    kind: Patch = "patch"  # type: ignore[assignment]  # of prompts alone
    place: str = ""


@dataclasses.dataclass(frozen=True)
class AblateMLP(_AbstractRequest):
    """One layer's MLP, whose output is replaced by zero, or by its batch mean at each position."""

    layer: Natural
    kind: Literal["zero", "mean"] = "zero"


@dataclasses.dataclass(frozen=True)
class AttributeHeads(_AbstractRequest):
    """The change of the loss when each head's output z is replaced, estimated for all heads from gradients.

    The estimate of a head is the sum over positions and dimensions of (z' - z) dL/dz, z' what replaces z. With more
    than one step the gradient is the mean of those at inputs x' + k/steps (x - x'), k = 1, ..., steps: x is the
    residual stream in front of the first layer, and x' its mean over the batch at each position, or zero.

    Args:
        kind: what replaces z, "mean" (over the batch, at each position) or "zero".
        steps: gradients that are averaged; 1 takes that of the clean pass.
    """

    kind: Literal["zero", "mean"] = "mean"
    steps: Count = 1


@dataclasses.dataclass(frozen=True)
class AttributeEdges(_AbstractRequest):
    """The change of the loss when one head reads another, earlier one's mean, for all edges and each of Q, K and V.

    The estimate of an edge is the sum over positions of (w' - w) dL/dx: w is what the source writes, w' its mean over
    the batch at each position, and x what the reading head's queries, keys or values read. With more steps the gradient
    is the mean of those at inputs of the first layer between its mean and the clean one, as in `AttributeHeads`.

    Args:
        steps: gradients that are averaged; 1 takes that of the clean pass.
        exact: whether each edge is patched by itself, a pass each, in place of the estimate.
    """

    kind: ClassVar[Literal["mean"]] = "mean"

    steps: Count = 1
    exact: bool = False


@dataclasses.dataclass(frozen=True)
class AttributePatches(_AbstractRequest):
    """The change of prompts' logit difference when each head's z is patched as by `PatchHead`, from one gradient."""

    kind: Patch = "patch"
    place: str = ""


Ablation = AblateHead | AblateMLP
"""Interventions that replace an activation."""

Intervention = RestrictContext | Ablation
Attribution = AttributeHeads | AttributeEdges | AttributePatches
"""Interventions that are estimated from gradients."""

Edit = tuple[Intervention, ...]
"""The interventions of one pass, all together."""


def ablations(edit: Edit) -> list[Ablation]:
    """List the heads and MLPs that an edit replaces.

    >>> ablations((RestrictContext(2), AblateHead(0, 1)))
    [AblateHead(layer=0, head=1, kind='zero')]
    """
    return [part for part in edit if not isinstance(part, RestrictContext)]


def first_layer(edit: Edit) -> int:
    """Return the first layer that must be computed again; a restricted context is one of every layer.

    >>> first_layer((AblateHead(2, 0), AblateHead(1, 3)))
    1
    """
    return min(0 if isinstance(part, RestrictContext) else part.layer for part in edit)
