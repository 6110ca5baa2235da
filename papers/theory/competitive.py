"""The competitive phase: heads that start equal all converge to the group of the largest block."""

import numpy as np
from jaxtyping import Float

from stagewise.papers.theory.tensor_factorisation import Heads, TensorFactorisation


def block_norms(theory: TensorFactorisation) -> Float[np.ndarray, " group"]:
    """Return m_k sqrt(w_k), the norm of each group's block of the target: the largest is learned first.

    >>> block_norms(TensorFactorisation(strengths=(3.0, 2.0), widths=(1, 4))).tolist()
    [3.0, 4.0]
    """
    return np.asarray(theory.strengths) * np.sqrt(theory.widths)


def plateau_losses(theory: TensorFactorisation) -> Float[np.ndarray, " plateau"]:
    """Return the loss with 0, 1, 2, ... groups learned: L_i = 1/2 sum_{k > i} w_k m_k^2 in the order of the blocks.

    With fewer heads than groups the last plateau that is reached is that of as many groups as there are heads.

    >>> plateau_losses(TensorFactorisation(strengths=(2.0, 1.0), widths=(1, 4))).tolist()
    [4.0, 2.0, 0.0]
    """
    blocks = np.sort(block_norms(theory) ** 2)  # the smallest first
    return np.concatenate([0.5 * np.cumsum(blocks)[::-1], [0.0]])


def competitive_fixed_point(theory: TensorFactorisation) -> Heads:
    """Return where heads that start equal end: V_h = w A*_k / H on the group k of the largest block, s_h uniform on it.

    At a stationary point with equal heads v_k = m_k p_k / (H ||s||^2), with p_k the attention on group k, and
    m_k^2 w_k = H^2 ||v||^2 ||s||^2 for every group in the support: with different blocks there is one group.
    Reached only in the limit: see `leftover_mass`.

    Raises:
        ValueError: two groups have the largest block: heads share them for ever.

    Source: derived here, in place of Theorem 1 of Yüksel et al. (2026), arXiv:2602.19143.
    """
    norms = block_norms(theory)
    first = int(norms.argmax())
    if np.isclose(norms, norms[first]).sum() > 1:
        raise ValueError(
            f"two groups have the largest block, so that heads choose neither: strengths={theory.strengths}, "
            f"widths={theory.widths}"
        )
    width = theory.widths[first]
    values = np.zeros((theory.n_heads, len(theory.widths)))
    values[:, first] = theory.strengths[first] * width / theory.n_heads
    attention = np.tile(theory.membership[first] / width, (theory.n_heads, 1))
    return Heads(values, attention)


def leftover_mass(theory: TensorFactorisation, time: int | float) -> Float[np.ndarray, " group"]:
    """Return the attention that a position of each group still has late in the competitive phase.

        s_k = H / ((m_1^2 - m_k^2) t),    inf for the group that wins

    The natural flow with groups of one position, to leading order in 1 / t: v_k follows s_k as m_k s_k / H, so that the
    logit of position k falls behind the winner's at the rate (m_1^2 - m_k^2) s_k / H. A position of no group has m_k =
    0. It falls as a power of time, not exponentially, which is why later groups can grow at all.

    Args:
        theory: of the natural flow, with groups of one position.
        time: since the start.

    Raises:
        ValueError: another flow, or wider groups.

    Source: derived here.
    """
    check_single_positions(theory)
    strengths = np.asarray(theory.strengths)
    with np.errstate(divide="ignore"):
        return np.asarray(theory.n_heads / ((strengths.max() ** 2 - strengths**2) * time))


def check_single_positions(theory: TensorFactorisation) -> None:
    """Raise ValueError where a theory is not of the natural flow with groups of one position."""
    if theory.flow != "natural" or set(theory.widths) != {1}:
        raise ValueError(
            "this is derived for the natural flow with groups of one position, got "
            f"flow={theory.flow!r}, widths={theory.widths}"
        )
