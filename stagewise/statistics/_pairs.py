"""Backgrounds of two smooth columns, which a transition has to surpass: a fall and a slow rise, or of one way."""

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._likelihood_ratio import p_value
from stagewise.statistics._noise.residual import Noise
from stagewise.statistics._scan import Fit, Squares, Target, best_fit, coefficients, design, smooth_columns


def superfluous(target: Target, full: Fit, rows: list[np.ndarray]) -> list[float]:
    """Return of each transition how probable what it adds to two smooth columns is, by chance; 0 where below RIVAL.

    Transitions are left out one by one, that first which these replace best.

    Args:
        target: the curve.
        full: its fit with all transitions beside one column, which is compared only where two columns are no better.
        rows: each transition at the checkpoints, with what begins with it: [row, step].
    """
    p, rest, order, n = [0.0] * len(rows), list(range(len(rows))), list[int](), len(target.curve)
    best = max(full, _pair(target, full.noise, np.concatenate(rows)), key=_likelihood)
    while rest:
        stacks = (np.concatenate([np.empty((0, n)), *(rows[k] for k in rest if k != j)]) for j in rest)
        pairs = [_pair(target, full.noise, stack) for stack in stacks]
        order.append(rest.pop(int(np.argmax([pair.likelihood for pair in pairs]))))
        price = c.GROWTH_PRICE * sum(len(rows[j]) - 1 for j in order)
        statistic = 2 * (best.likelihood - max(map(_likelihood, pairs)) - price) / _ratio(len(order))
        probable = float(p_value(statistic, n, best.noise.correlation))
        if probable >= c.RIVAL:
            for j in order:
                p[j] = max(p[j], probable)
    return p


def _likelihood(fit: Fit) -> float:
    return fit.likelihood


def _ratio(number: int) -> float:
    """Return by how much more several transitions explain by chance than one."""
    return c.TOGETHER.get(number, 1.0 if number == 1 else max(c.TOGETHER.values()))


def _pair(target: Target, noise: Noise, others: np.ndarray) -> Fit:
    """Fit a curve by the best two columns beside other transitions; a slight turn makes them less likely."""
    one_way, turning = (_fit(target, noise, others, turning=turning) for turning in (False, True))
    slight = 0 if _turns(target, turning, others) else c.SLIGHT
    return max(one_way, turning._replace(likelihood=turning.likelihood - slight), key=_likelihood)


def _fit(target: Target, start: Noise, others: np.ndarray, *, turning: bool) -> Fit:
    """Fit a curve by a column that falls and another one, which moves the other way or the same.

    Columns that rise do so as a power or a logarithm of the step, and those that fall are convex: of one direction they
    have no transition.
    """
    basis = target.basis
    falls = basis.fine[:, 0] > basis.fine[:, -1]
    (first,) = np.nonzero(falls)
    sign = np.where(falls, 1, -1) * (-1 if turning else 1)

    def fit(noise: Noise) -> Squares:
        columns = smooth_columns(basis.steps, basis.every, noise, fine=True).beside(others)
        values = noise.whitened(target.curve)
        one, between = columns.own @ values, columns.own[first] @ columns.own.T
        apart = 1 - between**2
        a, b = one[first, None] - between * one, one - between * one[first, None]
        fitted = (a * b * sign > 0) & (apart > c.COLLINEAR)
        gain = np.where(fitted, (a * one[first, None] + b * one) / np.where(fitted, apart, 1.0), 0.0)
        place = int(gain.argmax())
        shared = float((values**2).sum() - ((columns.shared @ values) ** 2).sum())
        row, other = divmod(place, gain.shape[1])
        return max(shared - float(gain.flat[place]), 0.0), int(first[row]), other

    return best_fit(target, [start], 3, fit, lambda one, other: _columns(target, one, other, others))


def _columns(target: Target, one: int, other: int, others: np.ndarray) -> np.ndarray:
    fine = target.basis.fine
    return design(fine[one], np.concatenate([fine[[other]], others]))


def _turns(target: Target, fit: Fit, others: np.ndarray) -> bool:
    """Whether two columns both fall and rise by more than noise."""
    columns, curve = _columns(target, fit.background, fit.shape, others), target.curve
    weights = coefficients(curve, columns, fit.noise)
    smooth, residual = weights[1:3] @ columns[1:3], fit.noise.whitened(curve - weights @ columns)
    rise, fall = (smooth - np.minimum.accumulate(smooth)).max(), (np.maximum.accumulate(smooth) - smooth).max()
    deviation = np.sqrt((residual**2).sum() / max(len(curve) - 6 - len(others), 3))
    return bool(min(rise, fall) >= c.LEG * deviation)
