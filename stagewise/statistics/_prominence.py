"""How far a transition stands out: its speed, in value per step, over that of the curve before and after it."""

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._shapes import Shapes


def prominence(u: np.ndarray, background: np.ndarray, size: float, shape: Shapes) -> float:
    """Return the speed of a fit inside a transition over the faster of those before and after it.

    Of a transition that lasts to the end of the run the last part is what comes after it: a curve that grows faster and
    faster does not slow there.

    Args:
        u: log(1 + step) of the checkpoints.
        background: the smooth part of the fit at the checkpoints.
        size: of the transition.
        shape: one. Its own times count: between two checkpoints the medians of all likely shapes may lie beside it.
    """
    early, half, late = shape.times()[0]
    first, last = float(u[0]), float(u[-1])
    within = np.linspace(early, late, c.SPEED_POINTS).clip(first, last)
    dense = np.unique(np.concatenate([np.linspace(first, last, c.SPEED_POINTS), within]))
    t = np.expm1(dense)
    fit = np.sign(size) * (np.interp(dense, u, background) + size * shape.at(dense)[0])
    middles = (dense[1:] + dense[:-1]) / 2
    inside = (middles >= early) & (middles <= late)
    fastest = (np.diff(fit) / np.diff(t))[inside].max(initial=0.0)
    spacing = float(np.interp(half, (u[1:] + u[:-1]) / 2, np.diff(np.expm1(u))))
    start, middle, end = np.expm1([early, half, late])

    def speed(lo: float, hi: float) -> float:
        lo, hi = max(lo, t[0]), min(hi, t[-1])
        if hi - lo < spacing / 2:
            return 0.0
        return float(np.diff(np.interp([lo, hi], t, fit))[0] / (hi - lo))

    before = speed(start - max(middle - start, 2 * spacing), start)
    after = speed(min(end, t[-1] - 2 * spacing), end + max(end - middle, 2 * spacing))
    around = max(before, after, 0.0)
    return float(fastest / around) if around > 0 else float("inf")
