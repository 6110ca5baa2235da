"""Which tokens Scan and Snap's attention keeps: several common ones, those ahead at first, spuriously distinct ones."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def logit_velocity(f: Floats, beta: Floats) -> Floats:
    """Return how fast the logits of one query's tokens move, over eta_Z gamma, the sum over its classes.

        dz_l = sum_n f_nl sum_{n' != n} beta_nn' (f_nl f_n . f_n' - f_n'l)

    It follows that a distinct token rises and a common token falls where it is the only one (Theorem 2). With several
    common tokens their sum falls, by sum_nn' beta_nn' (f_n . f_n') (1 - rho_n), where rho_n = sum_l f_nl^2 is their
    part of f_n; each of them falls where the classes hold them in the same proportions (Corollary 2). A common token
    that one class holds nearly alone may rise.

    Args:
        f: normalised attention, a row of length one for each class [class, token].
        beta: how much a class has of each other one, positive [class, class]; its diagonal does not count.

    Raises:
        ValueError: a row of f is not of length one.

    Source: Tian et al. (2023), arXiv:2305.16380, Eqn 10, Theorem 2; what it says of several common tokens is derived
    here, since of Corollary 2 only the content is known to us.

    >>> f = np.array([[0.6, 0.8, 0.0], [0.6, 0.0, 0.8]])
    >>> logit_velocity(f, np.ones((2, 2))).round(4)
    array([-0.4608,  0.2304,  0.2304])
    """
    if not np.allclose((f**2).sum(axis=1), 1):
        raise ValueError(f"rows of f must have length one, got {np.sqrt((f**2).sum(axis=1))}")
    others = beta * (1 - np.eye(len(f)))
    overlap = (others * (f @ f.T)).sum(axis=1, keepdims=True)
    return np.asarray((f * (f * overlap - others @ f)).sum(axis=0))


def prior_attention(probability: ArrayLike, logits: ArrayLike, position_bias: ArrayLike = (0.0,)) -> Floats:
    """Return the attention on each token before training, in the limit of long sequences.

        c_l = sum_i P_i(l) e^{b_i + z_l} / sum_il' P_i(l') e^{b_i + z_l'}

    An initial logit z or a bias b of positions acts as another frequency. Training leaves the order of distinct tokens
    as it is at the start, since r(t) = r(0) chi(t) (Theorem 3): who is ahead by frequency and prior stays ahead.

    Args:
        probability: of tokens at each position [position, token], or the same at all [token].
        logits: the query's initial logits [token].
        position_bias: added to the score of a position [position].

    Source: Tian et al. (2023), arXiv:2305.16380, Eqn 5, Theorem 3 and section 5.

    >>> prior_attention([0.5, 0.25, 0.25], [0.0, np.log(4), 0.0]).round(3)
    array([0.286, 0.571, 0.143])
    """
    weights = np.exp(np.asarray(position_bias))[:, None] * np.atleast_2d(probability)
    c = weights.sum(axis=0) * np.exp(np.asarray(logits))
    return np.asarray(c / c.sum())


def spurious_probability(probability: float, tokens: int, n_classes: int) -> float:
    """Return how likely it is that a common token occurs in the sample of one class alone, and so looks distinct.

        K (1 - q) q^(K - 1),   q = (1 - P)^tokens

    It falls exponentially with the number of tokens.

    Args:
        probability: of the token, the same in all classes.
        tokens: contextual tokens in the sample of each class.
        n_classes: their number K.

    Raises:
        ValueError: it is no probability.

    Source: derived; Tian et al. (2023), arXiv:2305.16380, section 9, says that a large data set suppresses spurious
    tokens.

    >>> [round(spurious_probability(0.01, tokens, n_classes=2), 3) for tokens in (10, 100, 1000)]
    [0.173, 0.464, 0.0]
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"a probability lies between 0 and 1, got {probability}")
    absent = (1 - probability) ** tokens
    return float(n_classes * (1 - absent) * absent ** (n_classes - 1))
