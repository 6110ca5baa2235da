"""The reduced flow when one special vector replaces the relevant token in a share p of the sequences."""

import dataclasses
import math

from stagewise.papers.theory.dynamics import State
from stagewise.papers.theory.plateau_flow import AbstractPlateauFlow


@dataclasses.dataclass(frozen=True)
class CrossSampleRepetition(AbstractPlateauFlow):
    """The flow of `SparseAttention` (B = 1) with the relevant token's covariance diag(s~, s, ..., s).

        s~ = p + (1 - p) / d,   s = (1 - p) / d,   N = (1 - alpha)^2 / (d (T - 1))
        loss = [ N (w^2 + w~^2) + s~ (alpha w~ - 1)^2 + s (alpha w - sqrt(d - 1))^2 ] / 2

    and gradient flow on (w~, w, Da), where w~ is the weights' size along the special vector and w along the others.
    The test loss is the same with p = 0.

    Args:
        n_positions: T.
        d: dimension of a token.
        p: share of the sequences whose relevant token is the special vector.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Equation 17.

    >>> CrossSampleRepetition(512, 64, p=0.1).test_loss((0.0, 0.0, 0.0))
    0.5
    """

    n_positions: int
    d: int
    p: float = 0.0

    variables = ("w~", "w", "Da")

    def __post_init__(self) -> None:
        if self.n_positions < 2 or self.d < 1:
            raise ValueError(f"n_positions must be at least 2 and d positive, got {self.n_positions} and {self.d}")
        if not 0 <= self.p <= 1:
            raise ValueError(f"p is a share of the sequences, between 0 and 1; got {self.p}")

    @property
    def speed_up(self) -> float:
        """f = sqrt(p^2 d + (1 - p)^2), by which the flow is faster than without repetition, as published.

        To leading order in d: see `linear_speed_up`.
        """
        return math.sqrt(self.p**2 * self.d + (1 - self.p) ** 2)

    @property
    def linear_speed_up(self) -> float:
        """sqrt(d (s~^2 + (d - 1) s^2)) = sqrt(p^2 d + 1 - p^2), that of the flow's linear terms.

        It has the product 2 p (1 - p), which the published f leaves out: 6 % at d = 64, p = 0.1. Derived here.
        """
        return math.sqrt(self.p**2 * self.d + 1 - self.p**2)

    @property
    def rate(self) -> float:
        """Growth rate of the linearised flow, as published: f / (sqrt(d) T)."""
        return self.speed_up / (math.sqrt(self.d) * self.n_positions)

    def attention(self, state: State) -> float:
        """Return alpha, the attention on the relevant token."""
        return 1 / (1 + (self.n_positions - 1) * math.exp(-state[2]))

    def velocity(self, state: State) -> tuple[float, ...]:
        """Return (w~', w', Da')."""
        special, w, _ = state
        alpha = self.attention(state)
        other = (1 - self.p) / self.d
        noise = (1 - alpha) / (self.d * (self.n_positions - 1))
        special_signal = (self.p + other) * (1 - alpha * special)
        signal = other * (math.sqrt(self.d - 1) - alpha * w)
        gap_slope = noise * (special**2 + w**2) + special_signal * special + signal * w
        return (
            alpha * special_signal - (1 - alpha) * noise * special,
            alpha * signal - (1 - alpha) * noise * w,
            alpha * (1 - alpha) * gap_slope,
        )

    def loss(self, state: State) -> float:
        """Return the training loss (Equation 17)."""
        return self._loss(state, self.p)

    def test_loss(self, state: State) -> float:
        """Return the loss on sequences without the special vector (p = 0)."""
        return self._loss(state, 0.0)

    def _loss(self, state: State, p: float) -> float:
        special, w, _ = state
        alpha = self.attention(state)
        other = (1 - p) / self.d
        noise = (1 - alpha) ** 2 * (w**2 + special**2) / (self.d * (self.n_positions - 1))
        special_error = (p + other) * (alpha * special - 1) ** 2
        return (noise + special_error + other * (alpha * w - math.sqrt(self.d - 1)) ** 2) / 2
