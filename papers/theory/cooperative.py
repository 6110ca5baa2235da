"""The cooperative phase: differences between heads grow, fastest for the most important group not yet learned."""

import math

import numpy as np
from jaxtyping import Float

from stagewise.papers.theory.competitive import check_single_positions
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation


def growth_rates(theory: TensorFactorisation, attention: Float[np.ndarray, " position"]) -> Float[np.ndarray, " group"]:
    """Return the rate at which a difference between equal heads grows on each group not yet learned.

    Perturbations that sum to zero over the heads leave R as it is to first order. With R = m_k on group k and
    p_k the attention on it they grow at

        lambda_k = m_k sqrt(p_k (1 - p_k))                                                (natural flow)
        lambda_k = m_k sqrt((1 - p_k)^2 sum_{i in I(k)} s_i^2 + p_k^2 sum_{i not in I(k)} s_i^2)     (logit flow)

    The group with the largest rate is learned next. Learned groups have no residual: their entries are meaningless.

    Args:
        theory: the dynamics.
        attention: s, of every head.

    Source: derived here, in place of the theorems on the cooperative phase of Yüksel et al. (2026),
    arXiv:2602.19143.
    """
    mass = theory.membership @ attention
    strengths = np.asarray(theory.strengths)
    if theory.flow == "natural":
        return np.asarray(strengths * np.sqrt(mass * (1 - mass)))
    inside = theory.membership @ attention**2
    outside = (attention**2).sum() - inside
    return np.asarray(strengths * np.sqrt((1 - mass) ** 2 * inside + mass**2 * outside))


def onset_growth(theory: TensorFactorisation, time: int | float, group: int = 1) -> float:
    """Return the log of the growth of head differences on a group up to a time: 2 m_k sqrt(H t / (m_1^2 - m_k^2)).

    It integrates the natural rate m_k sqrt(s_k) over the attention s_k = H / ((m_1^2 - m_k^2) t) that the competitive
    phase leaves. Solved for the growth log(1 / noise) it gives that sqrt(time of stage 2) rises with log(1 / noise) by
    sqrt(m_1^2 - m_2^2) / (2 m_2 sqrt(H)) in the limit of small noise; before, it rises more steeply. Trust that trend,
    not the time itself: the early phase adds an offset.

    Args:
        theory: of the natural flow, with groups of one position, the most important first.
        time: since the start.
        group: which group, counted from 0; not the first.

    Raises:
        ValueError: another flow, wider groups, no such group, or one that is not weaker than the first.

    Source: derived here.
    """
    check_single_positions(theory)
    first = theory.strengths[0]
    if not 0 < group < len(theory.strengths) or theory.strengths[group] >= first:
        raise ValueError(f"group {group} must be one, from 0 on, that is weaker than the first: {theory}")
    strength = theory.strengths[group]
    return 2 * strength * math.sqrt(theory.n_heads * time / (first**2 - strength**2))
