"""Attention and weights that learn one relevant token together: the reduced flow, with in-context repetition."""

import dataclasses
import math
from typing import Literal

from stagewise.papers.theory.dynamics import State
from stagewise.papers.theory.plateau_flow import AbstractPlateauFlow


@dataclasses.dataclass(frozen=True)
class SparseAttention(AbstractPlateauFlow):
    """The flow of y = W sum_t softmax(a)_t x_t when B of T tokens hold the input of the target W* x.

    With w the weights' size along W*, Da the relevant tokens' logit above the others', alpha the attention on each
    relevant token and q = 1 - B alpha:

        alpha = 1 / (B + (T - B) e^-Da)
        loss  = [ q^2 w^2 / (d (T - B)) + (B alpha w - sqrt d)^2 / d ] / 2
        w'    = - q^2 w / (d (T - B)) + B alpha (sqrt d - B alpha w) / d
        Da'   = r alpha q [ B q w^2 / (d (T - B)) + B w (sqrt d - B alpha w) / d ]

    Args:
        n_positions: T.
        d: dimension of a token.
        n_copies: B, how often the relevant token occurs; 1 is no repetition.
        logits: "tied", r = 1, is the paper's flow: the B logits move as one parameter. "free",
            r = 1/B + 1/(T - B), is what T separate logits do, and makes the plateau fall as B^-1/2 instead of 1/B.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, Equations 3, 4, 12 to 14. The
    factor r is not in the paper; tests compare it with gradient descent on all parameters.

    >>> SparseAttention(512, 64).loss((0.0, 0.0))
    0.5
    """

    n_positions: int
    d: int
    n_copies: int = 1
    logits: Literal["tied", "free"] = "tied"

    variables = ("w", "Da")

    def __post_init__(self) -> None:
        if self.d < 1 or not 1 <= self.n_copies < self.n_positions:
            raise ValueError(
                "d must be positive and n_copies between 1 and n_positions - 1, got "
                f"d={self.d}, n_copies={self.n_copies}, n_positions={self.n_positions}"
            )
        if self.logits not in ("tied", "free"):
            raise ValueError(f'logits must be "tied" or "free", got {self.logits!r}')

    @property
    def rate(self) -> float:
        """Growth rate of the linearised flow: B / (sqrt(d) T), with free logits sqrt(r) times that."""
        return math.sqrt(self._logit_rate) * self.n_copies / (math.sqrt(self.d) * self.n_positions)

    @property
    def mobility(self) -> tuple[float, ...]:
        """1 of w, and r of Da: with free logits the gap goes down the loss at another pace than w."""
        return 1.0, self._logit_rate

    @property
    def _logit_rate(self) -> float:
        return 1.0 if self.logits == "tied" else 1 / self.n_copies + 1 / (self.n_positions - self.n_copies)

    def attention(self, state: State) -> float:
        """Return alpha, the attention on each of the B relevant tokens."""
        _, gap = state
        return 1 / (self.n_copies + (self.n_positions - self.n_copies) * math.exp(-gap))

    def velocity(self, state: State) -> tuple[float, ...]:
        """Return (w', Da')."""
        w, _ = state
        mass = self.n_copies * self.attention(state)
        noise = (1 - mass) / (self.d * (self.n_positions - self.n_copies))
        signal = (math.sqrt(self.d) - mass * w) / self.d
        w_slope = -(1 - mass) * noise * w + mass * signal
        gap_slope = mass * (1 - mass) * (noise * w**2 + signal * w)
        return w_slope, self._logit_rate * gap_slope

    def loss(self, state: State) -> float:
        """Return the loss (Equation 12)."""
        w, _ = state
        mass = self.n_copies * self.attention(state)
        noise = ((1 - mass) * w) ** 2 / (self.d * (self.n_positions - self.n_copies))
        return (noise + (mass * w - math.sqrt(self.d)) ** 2 / self.d) / 2

    def test_loss(self, state: State) -> float:
        """Return the loss: the model is tested with as many copies as it is trained with."""
        return self.loss(state)

    def equilibrium(self, attention: float) -> float:
        """Return the w at which w' = 0 for an attention: sqrt(d) B alpha / [q^2 / (T - B) + (B alpha)^2]."""
        mass = self.n_copies * attention
        return math.sqrt(self.d) * mass / ((1 - mass) ** 2 / (self.n_positions - self.n_copies) + mass**2)
