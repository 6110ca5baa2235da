"""Heads that start close stay close for a finite time, then share the groups: both phases of the flow in numbers."""

import math

import numpy as np
from jaxtyping import Float

from stagewise.papers.theory.competitive import plateau_losses
from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.tensor_factorisation import Heads, TensorFactorisation
from stagewise.papers.theory.trajectories import first_time

CLOSE = 0.1
"""Distance of two heads below which they count as close: a tenth of an attention mass, or of a value."""


def separation(heads: Heads) -> Float[np.ndarray, "*axes"]:
    """Return the largest distance between two heads: of their attention and values together, Euclidean.

    >>> separation(Heads(np.zeros((2, 1)), np.array([[1.0, 0.0], [0.0, 1.0]]))).item()
    1.4142135623730951
    """
    states = np.concatenate([heads.values, heads.attention], axis=-1)
    apart = states[..., :, None, :] - states[..., None, :, :]
    return np.asarray(np.sqrt((apart**2).sum(-1)).max((-1, -2)))


def parting_time(theory: TensorFactorisation, until: int | float, distance: float = CLOSE) -> float:
    """Return the time at which two heads are first this far apart; inf where they are not before `until`.

    It is finite for every noise, grows without bound as the noise falls, and is infinite without: `least_parting_time`.

    Source: for Theorem 3 of Yüksel et al. (2026), arXiv:2602.19143, whose statement we know only in words: heads that
    start close remain close for a finite time.
    """
    times = np.linspace(0, until, 2000)
    return first_time(times, separation(theory.heads(states_at(theory, times))), distance)


def least_parting_time(theory: TensorFactorisation, distance: float = CLOSE) -> float:
    """Return a time before which heads of the natural flow cannot have parted.

        log(distance / d_0) / (3/4 sqrt(2 L_0)),   d_0 the largest distance of two heads' logits at the start

    Two heads see the same R, so that their differences obey dV' = R ds and da' = R^T dV. With |ds| <= |da| / 2 (the
    softmax) and |R| <= sqrt(2 L) <= sqrt(2 L_0) (the loss only falls), |(dV, da)| grows at the rate 3/4 sqrt(2 L_0) at
    most, by Grönwall's inequality.

    Raises:
        ValueError: the flow is not the natural one, for which this is derived.

    Source: derived here, for Theorem 3 of Yüksel et al. (2026), arXiv:2602.19143.
    """
    if theory.flow != "natural":
        raise ValueError(f"this bound is of the natural flow, the theory's is {theory.flow!r}")
    logits = theory.initial_logits()
    start = float(np.sqrt(((logits[:, None] - logits[None]) ** 2).sum(-1)).max())
    norm = math.sqrt(2 * float(theory.loss(theory.heads(theory.initial_state()))))
    return math.inf if start == 0 else max(0.0, math.log(distance / start) / (0.75 * norm))


def cooperative_end(theory: TensorFactorisation) -> float:
    """Return the loss at which the cooperative phase ends: zero, or the plateau of as many groups as there are heads.

    Source: derived here, for Theorem 4 of Yüksel et al. (2026), arXiv:2602.19143 (convergence of the cooperative
    phase), whose statement we know only in words.

    >>> cooperative_end(TensorFactorisation(n_heads=2))
    0.5
    """
    levels = plateau_losses(theory)
    return float(levels[min(theory.n_heads, len(levels) - 1)])
