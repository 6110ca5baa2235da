"""Backgrounds of two smooth columns, which a transition has to surpass: a fall and a slow rise, or of one way."""

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.residual import KINDS
from stagewise.statistics._scan import Bases, Fits, Squares, best_fits, coefficients, design, smooth_columns
from stagewise.statistics._transition import p_value


def superfluous(curve: np.ndarray, basis: Bases, floor: np.ndarray, full: Fits, rows: np.ndarray) -> list[float]:
    """Return of each transition how probable what it adds to two smooth columns is, by chance; 0 where below RIVAL."""
    p, rest, order = [0.0] * len(rows), list(range(len(rows))), list[int]()
    best = max(full, _pair(curve, basis, floor, full, rows), key=_likelihood)
    while rest:
        pairs = [_pair(curve, basis, floor, full, rows[[k for k in rest if k != j]]) for j in rest]
        order.append(rest.pop(int(np.argmax([_likelihood(pair) for pair in pairs]))))
        statistic = 2 * (_likelihood(best) - max(map(_likelihood, pairs))) / _ratio(len(order))
        probable = float(p_value(statistic, len(curve), best.correlation[0]))
        if probable >= c.RIVAL:
            for j in order:
                p[j] = max(p[j], probable)
    return p


def _likelihood(fits: Fits) -> float:
    return float(fits.likelihood[0])


def _ratio(number: int) -> float:
    """Return by how much more several transitions explain by chance than one."""
    return c.TOGETHER.get(number, 1.0 if number == 1 else max(c.TOGETHER.values()))


def _pair(curve: np.ndarray, basis: Bases, floor: np.ndarray, full: Fits, others: np.ndarray) -> Fits:
    """Fit a curve by the best two columns beside other transitions; a slight turn makes them less likely."""
    kind = int(full.kind[0])
    one_way, turning = (_fits(curve, basis, floor, kind, others, turning=turning) for turning in (False, True))
    slight = 0 if _turns(curve, basis, turning, others) else c.SLIGHT
    return max(one_way, turning._replace(likelihood=turning.likelihood - slight), key=_likelihood)


def _fits(curve: np.ndarray, basis: Bases, floor: np.ndarray, kind: int, others: np.ndarray, *, turning: bool) -> Fits:
    """Fit a curve by a column that falls and another one, which moves the other way or the same.

    Columns that rise do so as a power or a logarithm of the step, and those that fall are convex: of one direction they
    have no transition.
    """
    falls = basis.fine[:, 0] > basis.fine[:, -1]
    (first,) = np.nonzero(falls)
    sign = np.where(falls, 1, -1) * (-1 if turning else 1)

    def fit(part: np.ndarray, kind: int) -> Squares:
        columns = smooth_columns(basis.steps, basis.every, kind, fine=True).beside(others)
        values = KINDS[kind].whitened(part)
        along, between = values @ columns.own.T, columns.own[first] @ columns.own.T
        apart = 1 - between**2
        results = []
        for one in along:
            a, b = one[first, None] - between * one, one - between * one[first, None]
            fitted = (a * b * sign > 0) & (apart > c.COLLINEAR)
            gain = np.where(fitted, (a * one[first, None] + b * one) / np.where(fitted, apart, 1.0), 0.0)
            place = int(gain.argmax())
            results.append((gain.flat[place], *divmod(place, gain.shape[1])))
        gains, one, other = (np.array(column) for column in zip(*results, strict=True))
        shared = (values**2).sum(-1) - ((values @ columns.shared.T) ** 2).sum(-1)
        return (shared - gains).clip(min=0), first[one], other

    def fitted(one: int, other: int) -> np.ndarray:
        return _columns(basis, one, other, others)

    return best_fits(curve[None], floor, [np.array([kind])], 3, fit, fitted)


def _columns(basis: Bases, one: int, other: int, others: np.ndarray) -> np.ndarray:
    return design(basis.fine[one], np.concatenate([basis.fine[[other]], others]))


def _turns(curve: np.ndarray, basis: Bases, fits: Fits, others: np.ndarray) -> bool:
    """Whether two columns both fall and rise by more than noise."""
    columns, noise = _columns(basis, int(fits.background[0]), int(fits.shape[0]), others), KINDS[int(fits.kind[0])]
    weights = coefficients(curve, columns, noise)
    smooth, residual = weights[1:3] @ columns[1:3], noise.whitened(curve - weights @ columns)
    rise, fall = (smooth - np.minimum.accumulate(smooth)).max(), (np.maximum.accumulate(smooth) - smooth).max()
    deviation = np.sqrt((residual**2).sum() / max(len(curve) - 6 - len(others), 3))
    return bool(min(rise, fall) >= c.LEG * deviation)
