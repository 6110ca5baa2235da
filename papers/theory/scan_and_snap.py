"""Scan and Snap's reduced dynamics: how fast the decoder learns, how far attention grows before it freezes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega

from stagewise.papers.theory.dynamics import AbstractReducedDynamics, State
from stagewise.table import LabelledArray

Floats = NDArray[np.float64]

Numbers = float | int | Sequence[float | int] | NDArray[Any]
"""One number or many."""


@dataclasses.dataclass(frozen=True)
class ScanAndSnap(AbstractReducedDynamics):
    """The one-layer transformer in the weak-correlation limit: K classes, M tokens, rates eta_Y and eta_Z.

    Times t count steps of batch size 1 without momentum, classes drawn uniformly; momentum 0.9 makes slow phases ten
    times faster.

    Corrections and limits of the printed formulas, each verified by calculation:

    - Eqn 124 (and 14) omit -(1/4) ln C_0: from B(0) = 0 the integral is B = (1/4) ln(1 + 4 Gamma / C_0). The paper's
      e^{4B} = C_0 + 4 Gamma agrees for C_0 = 1 only. `growth_integral` has the corrected form.
    - Remark 1 (overlap rho acts as the rate (1 - rho) eta_Y) needs K = M. With K << M the decoder follows h at nearly
      the rate eta_Y itself, so the rates here are never scaled by an overlap.
    - Eqn 10 sums over classes without the sampling weight 1/K that h(t/K) has; the mean over a batch has it, and
      scales of z then differ by K.
    - Joint training does not reach Theorem 4's growth: its factor xi is tiny where the softmax puts its mass on
      tokens that are no labels, and vanishes where common tokens lose their attention. Compare shapes, not sizes.
    - Theorem 3's identity (`relative_gain`) is exact where Y is quasi-static, eta_Y >> eta_Z; its bounds
      (`growth_bounds`) hold for xi measured at the most frequent distinct token.
    - Figure 9's caption has nu = eta_Z / eta_Y where text and numbers have nu = eta_Y / eta_Z.

    Args:
        M: number of tokens of the vocabulary.
        K: number of classes.
        eta_y: learning rate eta_Y of the decoder.
        eta_z: learning rate eta_Z of the attention.
        C_0: the constant rho_0^4 / K of Eqn 13, from the initial normaliser of attention; the paper does not give
            Figure 3's.

    Raises:
        ValueError: a parameter is out of range.

    Source: Tian et al. (2023), Scan and Snap: Understanding Training Dynamics and Token Composition in 1-layer
    Transformer, arXiv:2305.16380, Theorems 1 to 4.

    >>> paper = ScanAndSnap(M=1000, K=10, eta_y=0.5, eta_z=0.5)
    >>> round(paper.class_error(200.0).item(), 4), round(paper.phase_transition_time)
    (0.3049, 276)
    """

    M: int
    K: int
    eta_y: float
    eta_z: float = 1.0
    C_0: float = 1.0

    def __post_init__(self) -> None:
        if self.M < 2 or self.K < 1:
            raise ValueError(f"there must be at least two tokens and a class, got M={self.M}, K={self.K}")
        for name in ("eta_y", "eta_z", "C_0"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    def initial_state(self) -> Floats:
        """Return h = 0."""
        return np.zeros(1)

    def velocity(self, state: State) -> State:
        """Return h' = (eta_Y / K) / (M - 1 + e^{M h}), by steps of which each class has every K-th.

        Times are steps: the rates are in eta_Y and eta_Z, so that `solve` takes its own rate of 1.
        """
        return np.asarray([self.eta_y / self.K / (self.M - 1 + np.exp(self.M * state[0]))])

    def curves(self, states: Floats) -> dict[str, list[LabelledArray]]:
        """Return the loss of the label, -ln alpha_nn with alpha_nn = e^{M h} / (M - 1 + e^{M h}), in nats, and the
        growth factor of the dominant distinct token, at its upper bound exp(2 B).

        Source: arXiv:2305.16380, the proof of Theorem 1, and Theorems 3 and 4.
        """
        loss = np.log1p((self.M - 1) * np.exp(-self.M * states[:, 0]))
        growth = np.exp(2 * self._growth_integral(states[:, 0]))
        return {
            "Loss": [LabelledArray("time", loss, "cross_entropy")],
            "GrowthFactor": [LabelledArray("time", growth, "growth")],
        }

    def h(self, t: Numbers) -> Floats:
        """Return h(t), how far the decoder has gone after t steps on one class.

            h(0) = 0,   h' = eta_Y / (M - 1 + e^{M h}),   e^{M h} + (M - 1) M h = M eta_Y t + 1

        Source: arXiv:2305.16380, Lemma 6 and Theorem 1.
        """
        m, progress = self.M - 1, self.M * self.eta_y * np.asarray(t, dtype=np.float64)
        u = (progress + 1) / m - wrightomega((progress + 1) / m - np.log(m)).real
        # The difference loses digits near t = 0; one Newton step on expm1(u) + m u = progress gives them back.
        u = u - (np.expm1(u) + m * u - progress) / (np.exp(u) + m)
        return np.asarray(u / self.M)

    def class_error(self, t: Numbers) -> Floats:
        """Return 1 - alpha_nn, the probability that is not on the label: (M-1) / (M-1 + e^{M h(t/K)}).

        Source: arXiv:2305.16380, the proof of Theorem 1.
        """
        return np.asarray((self.M - 1) * self._rate_of_h(t))

    def gamma(self, t: Numbers) -> Floats:
        """Return gamma(t) = (M-1)^2 h(t/K) / (M-1 + e^{M h(t/K)}), the speed at which attention moves.

        It rises as eta_Y t / K until K ln M / eta_Y and falls as ln(t) / t after the phase transition.

        Source: arXiv:2305.16380, Theorem 1, Eqn 9.
        """
        return np.asarray((self.M - 1) ** 2 * self.h(np.asarray(t) / self.K) * self._rate_of_h(t))

    def late_class_error(self, t: Numbers) -> Floats:
        """Return K (M-1) / (M eta_Y t), which 1 - alpha_nn approaches from above: the critical point, at O(1/t).

        Source: arXiv:2305.16380, Corollary 1, by the closed form of Theorem 1.
        """
        return np.asarray(self.K * (self.M - 1) / (self.M * self.eta_y * np.asarray(t, dtype=np.float64)))

    def gamma_bound(self, t: Numbers) -> Floats:
        """Return an upper bound of gamma(t): first O(eta_Y t / K), late O(K ln(M eta_Y t / K) / (eta_Y t)).

            gamma <= eta_Y t / K,   gamma <= (M-1)^2 L / (M (S + M - (M-1) L)),   S = M eta_Y t / K,   L = ln(S + 1)

        The second holds where its denominator is positive, as after the phase transition.

        Source: arXiv:2305.16380, Theorem 1, whose orders have no constants; these follow from M h <= L.
        """
        early = self.eta_y * np.asarray(t, dtype=np.float64) / self.K
        progress = self.M * early
        most = np.log1p(progress)
        rest = self.M * (progress + self.M - (self.M - 1) * most)
        late = np.divide((self.M - 1) ** 2 * most, rest, out=np.full_like(early, np.inf), where=rest > 0)
        return np.asarray(np.minimum(early, late))

    def growth_integral(self, t: Numbers) -> Floats:
        """Return B_n(t) = eta_Z int_0^t xi_n, with one common token and a constant normaliser (corrected).

            B = (1/4) ln(1 + 4 Gamma / C_0),   Gamma = int_0^t eta_Z gamma = (eta_Z / eta_Y) K (M-1)^2 h(t/K)^2 / 2

        Source: arXiv:2305.16380, Theorem 4, Eqns 13, 14 and 129.
        """
        return self._growth_integral(self.h(np.asarray(t) / self.K))

    def _growth_integral(self, h: Floats) -> Floats:
        swept = self.eta_z / self.eta_y * self.K * (self.M - 1) ** 2 * h**2 / 2
        return np.asarray(np.log1p(4 * swept / self.C_0) / 4)

    def growth_bounds(self, t: Numbers, f: float) -> tuple[Floats, Floats]:
        """Return the bounds exp(2 f^2 B) <= chi <= exp(2 B) of the growth factor of the dominant distinct token.

        Args:
            t: steps.
            f: the token's entry of the normalised attention at the start, in [0, 1].

        Raises:
            ValueError: f is not in [0, 1].

        Source: arXiv:2305.16380, Theorem 3, Eqn 12.
        """
        return growth_bounds(self.growth_integral(t), f)

    @property
    def phase_transition_time(self) -> float:
        """The step t_0 = 2 K ln M / eta_Y after which attention grows as ln ln t only: it snaps.

        Source: arXiv:2305.16380, Theorem 4, to leading order in M.
        """
        return 2 * self.accumulation_time

    @property
    def accumulation_time(self) -> float:
        """The step t_0' = K ln M / eta_Y up to which the decoder's error has hardly fallen: it scans."""
        return float(self.K * np.log(self.M) / self.eta_y)

    def _rate_of_h(self, t: Numbers) -> Floats:
        return np.asarray(1 / (self.M - 1 + np.exp(self.M * self.h(np.asarray(t) / self.K))))


def growth_factor(z: Numbers, z_start: Numbers) -> Floats:
    """Return chi = exp(2 (z(t) - z(0))), the growth of a token's squared attention before it is normalised.

    Source: Tian et al. (2023), arXiv:2305.16380, Theorem 3.
    """
    return np.asarray(np.exp(2 * (np.asarray(z) - np.asarray(z_start))))


def growth_bounds(B: Numbers, f: float) -> tuple[Floats, Floats]:
    """Return exp(2 f^2 B) and exp(2 B), between which the dominant token's growth factor lies.

    Args:
        B: eta_Z times the integral of xi.
        f: the token's entry of the normalised attention at the start, in [0, 1].

    Raises:
        ValueError: f is not in [0, 1].

    Source: Tian et al. (2023), arXiv:2305.16380, Theorem 3, Eqn 12.
    """
    if not 0 <= f <= 1:
        raise ValueError(f"f is an entry of a vector of length one, between 0 and 1, got {f}")
    return np.asarray(np.exp(2 * f**2 * np.asarray(B))), np.asarray(np.exp(2 * np.asarray(B)))


def distinct_velocity(f: Numbers, xi: Numbers) -> Floats:
    """Return f_nl^2 xi_n, the speed of a distinct token's logit z_ml over eta_Z: it rises wherever its class is drawn.

    Args:
        f: the token's entry of its class's normalised attention, f_n.
        xi: xi_n of the class, positive under Theorem 1's conditions.

    Source: Tian et al. (2023), arXiv:2305.16380, Theorem 2, Eqn 98.
    """
    return np.asarray(np.asarray(f) ** 2 * np.asarray(xi))


def common_velocity(f: Floats, xi: Floats) -> float:
    """Return -sum_n (1 - f_nl^2) xi_n, the speed of the one common token's logit over eta_Z: it falls.

    Args:
        f: the token's entry of each class's normalised attention [class].
        xi: xi_n of each class [class].

    Source: Tian et al. (2023), arXiv:2305.16380, Theorem 2, Eqn 100; with several common tokens some may rise.
    """
    return float(-((1 - np.asarray(f) ** 2) * np.asarray(xi)).sum())


def relative_gain(attention: Numbers, other: Numbers) -> Floats:
    """Return r = c_l^2 / c_l'^2 - 1, how much more attention one token has than another.

    Theorem 3: r(t) = r(0) chi(t) where the decoder is quasi-static.

    Source: Tian et al. (2023), arXiv:2305.16380, Eqn 11.

    >>> relative_gain(0.2, 0.1).item()
    3.0
    """
    return np.asarray((np.asarray(attention) / np.asarray(other)) ** 2 - 1)
