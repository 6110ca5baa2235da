"""Simpler searches for transitions beside the one of this library, on drawn runs that none was fitted to.

`python -m evidence.calibration.rivals [runs]` prints the table of docs/records/statistics.md: so many runs without a
transition
and so many with one (`evidence.calibration.drawn`), of a seed of their own.
"""

import sys
from collections.abc import Callable

import numpy as np
from scipy.interpolate import make_smoothing_spline
from scipy.optimize import OptimizeWarning, curve_fit

from evidence.calibration.cases import Generator
from evidence.calibration.drawn import CLEAR, FIXED, Drawn, draw, near
from evidence.calibration.onsets import alone
from stagewise.models.process import one_thread
from stagewise.statistics._constants import QUANTILE
from stagewise.statistics._effects._search import levels as best_levels

MOST, DRAWS = 8, 60
"""Jumps that are tried, and draws of a bootstrap."""

Times = np.ndarray
"""What a search found: log(1 + step) half-way with its interval, [transition, (t50, lo, hi)]."""

NOTHING = np.empty((0, 3))


def of_this_library(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return the onsets."""
    (found,) = alone(np.expm1(u).round(), curve[None])
    return np.asarray(np.log1p(found[["t50", "t50_lo", "t50_hi"]].to_numpy(float)))


def levels(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return the jumps between levels that Schwarz's criterion counts: all least squares, as PELT finds them."""
    n = len(curve)

    def cost(ends: np.ndarray) -> float:
        left = sum(((part - part.mean()) ** 2).sum() for part in np.split(curve, ends + 1))
        return float(n * np.log(left / n + 1e-12) + 2 * len(ends) * np.log(n))

    ends = min((np.zeros(0, int), *(gaps for gaps, _ in best_levels(curve, MOST))), key=cost)
    return np.stack([(u[ends] + u[ends + 1]) / 2, u[ends], u[ends + 1]], axis=1)


def logistic(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return the middle of a logistic on a line in log(1 + step) where Schwarz's criterion prefers it to the line."""
    n, spacing = len(curve), float(np.median(np.diff(u)))

    def model(u: np.ndarray, *known: float) -> np.ndarray:
        a, b, change, middle, width = known
        return np.asarray(a + b * u + change / (1 + np.exp(-np.clip((u - middle) / width, -500, 500))))

    line = np.polynomial.Polynomial.fit(u, curve, 1)
    least, best = ((line(u) - curve) ** 2).sum() * n ** (-3 / n), NOTHING
    bounds = ([-np.inf, -np.inf, -np.inf, u[1], spacing / 10], [np.inf, np.inf, np.inf, u[-2], 2.0])
    for middle in np.quantile(u[1:-1], np.linspace(0.1, 0.9, 9)):
        start = [curve[0], 0.0, np.ptp(curve) / 2, middle, min(2 * spacing, 1.9)]
        try:
            found, covariance = curve_fit(model, u, curve, start, bounds=bounds, maxfev=2000)
        except (RuntimeError, OptimizeWarning):
            continue
        if (squares := float(((model(u, *found) - curve) ** 2).sum())) < least:
            error = QUANTILE * np.sqrt(covariance[3, 3])
            least, best = squares, np.array([[found[3], found[3] - error, found[3] + error]])
    return best


def spline(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return where the slope of a smoothing spline leaves its mean by more than in 95 % of draws of the noise."""
    smooth = make_smoothing_spline(u, curve)
    fine = np.linspace(u[0], u[-1], 400)
    slope, residual = smooth.derivative()(fine), curve - smooth(u)
    g = np.random.default_rng(0)
    drawn = np.stack(
        [make_smoothing_spline(u, smooth(u) + g.choice(residual, len(u))).derivative()(fine) for _ in range(DRAWS)]
    )
    deviation = drawn.std(0) + 1e-12
    band = np.quantile((abs(drawn - drawn.mean(0)) / deviation).max(1), 0.95)
    away = (slope - slope.mean()) * np.sign(curve[-1] - curve[0]) > np.maximum(band * deviation, abs(slope.mean()))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], away.astype(int), [0]])))
    rows = []
    for start, stop in edges.reshape(-1, 2):
        peaks = fine[start + abs(drawn[:, start:stop]).argmax(1)]
        rows.append([fine[start + abs(slope[start:stop]).argmax()], *np.quantile(peaks, (0.025, 0.975))])
    return np.array(rows).reshape(-1, 3)


def posterior(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return the middle of a logistic on a line where its posterior probability is .95, over all middles and widths."""
    n, spacing = len(curve), float(np.median(np.diff(u)))
    middles, widths = np.linspace(u[1], u[-2], 200), np.geomspace(spacing / 4, 1.0, 12)
    rows = 1 / (1 + np.exp(-np.clip((u - middles[:, None, None]) / widths[:, None], -500, 500)))
    line = np.linalg.qr(np.stack([np.ones(n), u], axis=1))[0]
    values, rows = curve - line @ (line.T @ curve), rows - (rows @ line) @ line.T
    squares = (values**2).sum()
    left = squares - (rows @ values) ** 2 / ((rows**2).sum(-1) + 1e-9)
    logs = -0.5 * n * np.log(left / squares) - 0.5 * np.log(n)
    weights = np.exp(logs - logs.max())
    odds = np.exp(min(float(logs.max()), 500.0)) * weights.mean()
    if odds < 19:
        return NOTHING
    steps = np.cumsum(weights.sum(1)) / weights.sum()
    return np.interp([[0.5, 0.025, 0.975]], steps, middles)


SEARCHES: dict[str, Callable[[np.ndarray, np.ndarray], Times]] = {
    "this library's": of_this_library,
    "levels, Schwarz's criterion (PELT, l2)": levels,
    "a line and a logistic, Schwarz's criterion": logistic,
    "a line and a logistic, posterior of all of them": posterior,
    "a smoothing spline, bootstrap of its slope": spline,
}


def row(name: str, nulls: list[Drawn], planted: list[Drawn]) -> str:
    """Return the row of a search."""
    search = SEARCHES[name]
    false = np.mean([len(search(np.log1p(one.steps), one.curve)) > 0 for one in nulls])
    found, more, covered = list[bool](), list[bool](), list[bool]()
    for one in planted:
        times = search(np.log1p(one.steps), one.curve)
        closest = near(one, times[:, 0])
        more.append(len(times) > 1)
        if one.size >= CLEAR:
            found.append(closest is not None)
        if closest is not None:
            covered.append(bool(times[closest, 1] <= np.log1p(one.times[1]) <= times[closest, 2]))
    shares = (false, np.mean(found), np.mean(more), np.mean(covered))
    return f"| {name} | {' | '.join(f'{share:.2f}' for share in shares)} |"


def runs(g: Generator, number: int, *, planted: bool) -> list[Drawn]:
    """Draw so many runs."""
    return [draw(g, planted=planted) for _ in range(number)]


def main(number: int) -> None:
    """Print the table."""
    one_thread()
    generator = np.random.default_rng([FIXED, 3])
    nulls, planted = (runs(generator, number, planted=with_one) for with_one in (False, True))
    print("| search | false | clear ones found | more than planted | t50 covered |")
    print("| --- | --- | --- | --- | --- |")
    for name in SEARCHES:
        print(row(name, nulls, planted), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
