"""The plateau of sparse attention in closed form: the linearised flow, its time, and the blow-up that ends it."""

import math
from typing import NamedTuple

import numpy as np
import scipy


class _Linearised(NamedTuple):
    """The variables of the linearised flow, and its loss."""

    w: float
    gap: float
    loss: float


def linearised(time: float, rate: float) -> _Linearised:
    """Return w = sinh(rate t), Da = cosh(rate t) - 1 and the loss (1 - rate sinh 2 rate t) / 2.

    It solves w' = rate (1 + Da), Da' = rate w: the flow around its start. It holds to 3 % of w until rate t = 1/2.

    Source: Zucchet et al. (2025), arXiv:2505.17863, the linearisation at the start, with rate = B / (sqrt(d) T).
    """
    angle = rate * time
    return _Linearised(math.sinh(angle), math.cosh(angle) - 1, (1 - rate * math.sinh(2 * angle)) / 2)


def linearised_plateau(rate: float, share: float = 0.8) -> float:
    """Return when the linearised loss has lost a share of itself: arcsinh(share / rate) / (2 rate).

    Far beyond where the linearisation holds: at T = 512, d = 64 it is 3.4 times the flow's plateau. It is for
    comparison with `blow_up_time`.

    Raises:
        ValueError: the share is not between 0 and 1.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Equation 6 (the main text drops a 2 inside the logarithm).

    >>> round(linearised_plateau(1 / (64**0.5 * 512)))
    17997
    """
    if not 0 < share < 1:
        raise ValueError(f"the share of the loss lies between 0 and 1, got {share}")
    return math.asinh(share / rate) / (2 * rate)


def blow_up_time(rate: float) -> float:
    """Return sqrt(pi / 2) / rate, when the flow would reach infinity if attention stayed small.

    While alpha << 1, w' = rate e^Da and Da' = rate w e^Da, so Da = w^2 / 2 and rate t = int_0^w e^(-u^2 / 2) du,
    which ends at sqrt(pi / 2). So T_plateau ~ sqrt(pi / 2) sqrt(d) T / (B f(p, d)), without a logarithm. Not in the
    paper; the tests hold it against the flows.

    >>> round(blow_up_time(1 / (64**0.5 * 512)))
    5134
    """
    return math.sqrt(math.pi / 2) / rate


def blow_up_share(gap: np.ndarray) -> np.ndarray:
    """Return the part of the time to its blow-up, sqrt(pi / 2) / rate, at which attention is e^Da times its start.

    It is erf(sqrt Da), from the same integral: rate t = int_0^w e^(-u^2 / 2) du = sqrt(pi / 2) erf(w / sqrt 2), with Da
    = w^2 / 2. It holds whatever T, d and the rate are, as long as attention is small; after that it holds for the
    log-odds of attention. Not in the paper; the tests hold it against the flow.
    """
    return np.asarray(scipy.special.erf(np.sqrt(gap)))
