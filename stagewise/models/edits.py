"""What an edit does to an activation: attention restricted to the last positions, a head's output replaced."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.intervention import AblateHead


def in_context(n_query: int, n_key: int, context: int, device: torch.device | str = "cpu") -> Bool[Tensor, "query key"]:
    """Return the keys within the last `context` positions of each query, itself included.

    >>> in_context(3, 3, 2).int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    query = torch.arange(n_key - n_query, n_key, device=device)[:, None]
    key = torch.arange(n_key, device=device)[None]
    return (key > query - context) & (key <= query)


def restrict_scores(scores: Float[Tensor, "*axes query key"], context: int) -> Float[Tensor, "*axes query key"]:
    """Set scores outside the context to -inf, before the softmax."""
    return scores.masked_fill(~in_context(scores.shape[-2], scores.shape[-1], context, scores.device), -math.inf)


def restrict_pattern(pattern: Float[Tensor, "*axes query key"], context: int) -> Float[Tensor, "*axes query key"]:
    """Set a pattern outside the context to 0, after the softmax, and renormalise: equal to `restrict_scores`.

    Raises:
        ValueError: the mass within the context underflowed, so that nothing is left to renormalise.
    """
    inside = pattern * in_context(pattern.shape[-2], pattern.shape[-1], context, pattern.device)
    total = inside.sum(-1, keepdim=True)
    if not bool((total > 0).all()):
        raise ValueError(
            f"some query puts all its attention outside the last {context} positions, to float32's last digit: "
            "its restricted pattern cannot be computed by renormalising. Take a larger context"
        )
    return inside / total


def ablate(
    z: Float[Tensor, "batch pos head d_head"], part: AblateHead, clean: Float[Tensor, "batch pos head d_head"] | None
) -> Float[Tensor, "batch pos head d_head"]:
    """Return z with one head replaced; a mean is that of the clean pass."""
    z = z.clone()
    head = z[:, :, part.head]
    if part.kind == "zero":
        z[:, :, part.head] = 0.0
    elif part.kind == "mean":
        assert clean is not None
        z[:, :, part.head] = clean[:, :, part.head].mean(0)
    else:
        z[:, :, part.head] = head.roll(1, dims=0)
    return z
