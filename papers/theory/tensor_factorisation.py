"""Heads as rank-one terms: the regression loss of the minimal model as a tensor factorisation, and its flow."""

import dataclasses
import functools
import math
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import softmax

from stagewise.papers.theory.dynamics import AbstractReducedDynamics, State, states_at
from stagewise.papers.theory.trajectories import first_time
from stagewise.table import LabelledArray

LEAST_NOISE = 1e-14
"""The smallest distance at the start that outlives rounding: from it on, half times agree to 1e-3 on all processors."""


class Heads(NamedTuple):
    """Value and attention of each head: v_hk = <V_h, V*_k>, and its attention s_h over positions.

    Any number of axes (such as time) may stand before the head's.
    """

    values: Float[np.ndarray, "*axes head feature"]
    attention: Float[np.ndarray, "*axes head position"]


@dataclasses.dataclass(frozen=True)
class TensorFactorisation(AbstractReducedDynamics):
    """The gradient flow of H heads that learn y = sum_k A*_k sum_{i in I(k)} X_i, with white inputs X_1 ... X_T.

        L = 1/2 || R ||_F^2,   R = sum_k A*_k (x) 1_I(k) - sum_h V_h (x) s_h,   s_h = softmax(a_h)
        V_h' = R s_h,   a_h' = R^T V_h (natural)  or  a_h' = J(s_h) R^T V_h (logit),   J(s) = diag(s) - s s^T

    With A*_k = m_k V*_k, <V*_j, V*_k> = delta_jk and V_h(0) = 0, V_h stays in the span of the V*_k, so that R is a
    matrix of groups by positions. In both flows s_h' follows from a_h': J R^T V_h (natural), J^2 R^T V_h (logit: what
    gradient descent on the logits does). A state holds the values v_hk, then the logits a_hi, head by head.

    Args:
        strengths: m_k, the Frobenius norms of A*_1, A*_2, ...
        widths: number of positions of each group; they lie side by side from position 0 on.
        n_positions: T; those in no group do not matter to the target.
        n_heads: H.
        flow: "natural" or "logit".
        noise: standard deviation of the initial logits, 1e-14 or more; 0 starts all heads equal.
        seed: draws a number for every entry of the state, in its order; those of the values are multiplied by zero.

    Raises:
        ValueError: a parameter is out of range.

    Source: Yüksel et al. (2026), arXiv:2602.19143: the loss is its Proposition 1, the natural flow the simulation of
    Figure 10 (T = 40, groups of one position, m = 1.7). The reduction to the v_hk is derived here.

    >>> theory = TensorFactorisation()
    >>> round(float(theory.loss(theory.heads(theory.initial_state()))), 3)
    6.121
    """

    strengths: tuple[float, ...] = (1.7**2, 1.7, 1.0)
    widths: tuple[int, ...] = (1, 1, 1)
    n_positions: int = 40
    n_heads: int = 3
    flow: Literal["natural", "logit"] = "natural"
    noise: float = 1e-4
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.strengths) != len(self.widths) or not self.widths or min(self.widths) < 1:
            raise ValueError(
                f"every group needs a strength and at least one position, got strengths={self.strengths}, "
                f"widths={self.widths}"
            )
        if min(self.strengths) <= 0 or self.noise < 0 or self.n_heads < 1:
            raise ValueError(
                "strengths must be positive, noise not negative, and there must be a head; got "
                f"strengths={self.strengths}, noise={self.noise}, n_heads={self.n_heads}"
            )
        if 0 < self.noise < LEAST_NOISE:
            raise ValueError(
                f"noise of {self.noise:g} is lost in rounding: take {LEAST_NOISE:g} or more, or 0 for equal heads"
            )
        if self.n_positions < sum(self.widths):
            raise ValueError(f"the groups fill {sum(self.widths)} positions, n_positions is {self.n_positions}")
        if self.flow not in ("natural", "logit"):
            raise ValueError(f'flow must be "natural" or "logit", got {self.flow!r}')

    @functools.cached_property
    def membership(self) -> Float[np.ndarray, "group position"]:
        """1 where a position belongs to a group."""
        inside = np.zeros((len(self.widths), self.n_positions))
        owner = np.repeat(np.arange(len(self.widths)), self.widths)
        inside[owner, np.arange(owner.size)] = 1.0
        return inside

    @functools.cached_property
    def target(self) -> Float[np.ndarray, "group position"]:
        """The tensor to factorise: m_k on the positions of group k."""
        return np.asarray(np.asarray(self.strengths)[:, None] * self.membership)

    def initial_logits(self) -> Float[np.ndarray, "head position"]:
        """Return noise * N(0, 1), drawn from the seed."""
        return np.asarray(self.initial_state()[-self.n_heads * self.n_positions :].reshape(self.n_heads, -1))

    def initial_state(self) -> Float[np.ndarray, " state"]:
        """Return values of zero and the initial logits."""
        values, logits = self.n_heads * len(self.widths), self.n_heads * self.n_positions
        draws = np.random.default_rng(self.seed).standard_normal(values + logits)
        return np.asarray(draws * np.repeat([0.0, self.noise], [values, logits]))

    def orbits(self) -> Int[np.ndarray, " state"]:
        """Return which entries stay equal: without noise all heads, groups that are alike, and positions within them.

        Equal heads are unstable: a difference of rounding's size would part them late in the flow.
        """
        if self.noise:
            return super().orbits()
        alike = list(dict.fromkeys(zip(self.strengths, self.widths, strict=True)))
        groups = np.array([alike.index(group) for group in zip(self.strengths, self.widths, strict=True)])
        rest = np.full(self.n_positions - sum(self.widths), len(alike))
        positions = len(alike) + np.concatenate([np.repeat(groups, self.widths), rest])
        return np.concatenate([np.tile(groups, self.n_heads), np.tile(positions, self.n_heads)])

    def heads(self, states: Float[np.ndarray, "*axes state"]) -> Heads:
        """Return the values and the attention of a state, or of many."""
        split = self.n_heads * len(self.widths)
        values = states[..., :split].reshape(*states.shape[:-1], self.n_heads, len(self.widths))
        logits = states[..., split:].reshape(*states.shape[:-1], self.n_heads, self.n_positions)
        return Heads(values, softmax(logits, axis=-1))

    def residual(self, heads: Heads) -> Float[np.ndarray, "*axes group position"]:
        """Return R, the part of the target that is not learned."""
        learned = (heads.values[..., :, None] * heads.attention[..., None, :]).sum(-3)
        return np.asarray(self.target - learned)

    def group_losses(self, heads: Heads) -> Float[np.ndarray, "*axes group"]:
        """Return 1/2 sum_i R_ki^2, each group's part of the loss."""
        return np.asarray(0.5 * (self.residual(heads) ** 2).sum(-1))

    def loss(self, heads: Heads) -> Float[np.ndarray, "*axes"]:
        """Return L, half the mean squared error of the regression."""
        return np.asarray(self.group_losses(heads).sum(-1))

    def velocity(self, state: State) -> Float[np.ndarray, " state"]:
        """Return the derivative of the values and logits."""
        heads = self.heads(np.asarray(state))
        residual = self.residual(heads)
        values, logits = heads.attention @ residual.T, heads.values @ residual
        if self.flow == "logit":
            mean = (heads.attention * logits).sum(-1, keepdims=True)
            logits = heads.attention * (logits - mean)
        return np.concatenate([values.reshape(-1), logits.reshape(-1)])

    def curves(self, states: Float[np.ndarray, "time state"]) -> dict[str, list[LabelledArray]]:
        """Return the loss, each group's part of it, attention masses on the groups, and <V_h, A*_k> / ||A*_k||^2."""
        heads = self.heads(states)
        numbers = range(1, len(self.widths) + 1)
        groups, features = [f"I({k})" for k in numbers], [f"A*_{k}" for k in numbers]
        labels: dict[str, list[str | int]] = {"layer": [0], "relation": [*groups], "feature": [*features]}
        masses = (heads.attention @ self.membership.T)[:, None]
        projections = (heads.values / np.asarray(self.strengths))[:, None]
        return {
            "Loss": [
                LabelledArray("time", self.loss(heads), "squared_error"),
                LabelledArray("time relation", self.group_losses(heads), "group_squared_error", labels),
            ],
            "AttentionTo": [LabelledArray("time layer head relation", masses, "mass", labels)],
            "ValueAlignment": [LabelledArray("time layer head feature", projections, "projection", labels)],
        }


def half_times(theory: TensorFactorisation, until: int | float, resolution: int = 4000) -> tuple[float, ...]:
    """Return when each group's part of the loss has halved, the first group's first; inf where not before `until`.

    Args:
        theory: the dynamics.
        until: how far to solve it.
        resolution: number of times, evenly spaced in log(1 + time), between which is interpolated.
    """
    times = np.expm1(np.linspace(0, math.log1p(until), resolution))
    parts = theory.group_losses(theory.heads(states_at(theory, times)))
    return tuple(first_time(times, -part, -part[0] / 2) for part in parts.T)
