"""How many changes a curve has: fits of each number, the weakest removed, and an exact test of those that stay."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics._effects._ascent import ascended
from stagewise.statistics._effects._covariances import Setting
from stagewise.statistics._effects._fits import Fits, Problem, blank, joined
from stagewise.statistics._effects._search import evidence_of, leading, levels, screened, suited

FIRST, FURTHER = 4, 6
"""Sweeps from a start, and from a fit under another setting."""

EACH = 2
"""Settings under which the best fit of each number is followed."""

PLAIN = (
    Setting(), Setting(0.6), Setting(0, 0, 30, False, 0.7), Setting(0, 0, 30, True, 0.35),
    Setting(0, 0, 3e4, True, 0.7),
)  # fmt: skip
FEW = 2
"""Of these, those for one change, which the fits of two lead to; jumps between levels begin under the first."""

CLEAR = 2.0
"""Log Bayes factor of a jump beside the others, from which it may be a step of a staircase."""


class Selection(NamedTuple):
    """The fits of a curve with the changes that it has; the log Bayes factor of each change; the evidence by number."""

    fits: Fits
    bayes: np.ndarray
    evidence: dict[int, float]


def selected(problem: Problem) -> list[Selection]:
    """Return each curve's selection."""
    by_number = _followed(problem)
    curves = range(len(problem.curves))
    of = [
        {number: fits.take(fits.curve == c) for number, fits in by_number.items() if (fits.curve == c).any()}
        for c in curves
    ]
    return [_chosen(problem, each) for each in of]


def _followed(problem: Problem) -> dict[int, Fits]:
    """Return fits of every number of changes: from starts, and from those of one more without the weakest."""
    s, number = problem.settings, len(problem.curves)
    plain = _places(problem)
    every, most = np.arange(number), min(s.most, max(1, problem.curves.shape[1] // s.each))
    seeds = {k: _settled(problem, _seeded(problem, *_pairs(every, plain[:1]), k), 1) for k in range(2, most + 1)}
    # Staircases: where three jumps or more between levels each say something beside the others.
    clear = [fits.curve[fits.gains[:, :changes].min(1) > CLEAR] for changes, fits in seeds.items() if changes > 2]
    stairs = np.unique(np.concatenate([*clear, every[:0]]))
    result, children = dict[int, Fits](), list[Fits]()
    for changes in range(most, -1, -1):
        several = changes > 2
        starts = [seeds[changes]] if changes in seeds else []
        if several:
            starts = [_settled(problem, each.take(np.isin(each.curve, stairs))) for each in starts]
        else:
            settings = plain[:FEW] if changes == 1 else plain
            starts.append(_settled(problem, blank(problem, *_pairs(every, settings), changes)))
        fits = joined([*starts, *children])
        if not len(fits):
            continue
        pool = joined([fits, _around(problem, fits.take(leading(fits, 1)))])
        if changes > 1:
            best = pool.take(leading(pool, 1))
            best = best.take(best.gains[:, :changes].min(1) > 0)
            pool = joined([pool, _around(problem, best.take(slice(None), alike=np.ones(len(best), bool)))])
        result[changes], children = pool, _reduced(problem, pool) if changes else []
    return result


def _pairs(curves: np.ndarray, settings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(curves, len(settings)), np.tile(settings, len(curves))


def _settled(problem: Problem, fits: Fits, rounds: int = 2) -> Fits:
    for _ in range(rounds):
        fits = ascended(problem, screened(problem, fits), FIRST)
    return fits


def _places(problem: Problem) -> np.ndarray:
    """Return the plain settings; beside given errors there is further noise only where it is correlated."""
    scaled, settings = problem.covariances.scaled, problem.covariances.settings
    chosen = [one if scaled else one._replace(noise=float(one.correlation > 0)) for one in PLAIN]
    return np.array([settings.index(one) for one in chosen])


def _seeded(problem: Problem, curve: np.ndarray, setting: np.ndarray, changes: int) -> Fits:
    """Return fits that begin with the jumps of the closest curve of levels."""
    fits = blank(problem, curve, setting, changes)
    for c in np.unique(curve):
        gaps, sizes = levels(problem.curves[c], changes)
        for effect, (gap, size) in enumerate(zip(gaps, sizes, strict=True)):
            fits.atoms[curve == c, effect] = problem.atoms.jumps[gap]
            fits.shape[curve == c, effect, effect], fits.size[curve == c, effect, effect] = 1, size
    return fits


def _around(problem: Problem, fits: Fits) -> Fits:
    """Return fits under the settings that suit them."""
    return ascended(problem, suited(problem, fits, EACH), FURTHER)


def _reduced(problem: Problem, fits: Fits) -> list[Fits]:
    """Return the best fit of each curve without its weakest change, and without the next."""
    best = fits.take(leading(fits, 1))
    order = np.argsort(best.gains[:, : best.changes], axis=1)
    parts = [best.without(order[:, k]) for k in range(min(2, best.changes))]
    return [ascended(problem, screened(problem, joined(parts)), FIRST)]


def _chosen(problem: Problem, by_number: dict[int, Fits]) -> Selection:
    """Return the number of changes of most evidence, less the threshold for any, once each of them is tested."""
    s = problem.settings
    evidence = {number: evidence_of(fits) for number, fits in by_number.items()}
    number = max(evidence, key=lambda each: evidence[each] - s.threshold * (each > 0))
    fits = by_number[number]
    while number:
        fits = _tested(problem, fits.take(leading(fits, 1)))
        evidence[number] = max(evidence[number], evidence_of(fits))
        best = fits.take(leading(fits, 1))
        others = [_tested(problem, best.without(np.array([effect]))) for effect in range(number)]
        if number == 1:
            others = [joined([*others, _tested(problem, by_number[0].take(leading(by_number[0], 1)))])]
        values = np.array([evidence_of(each) for each in others])
        bayes = evidence_of(fits) - values
        if bayes.min() >= s.threshold:
            return Selection(fits, bayes, evidence)
        fits, number = others[int(bayes.argmin())], number - 1
    return Selection(fits, np.zeros(0), evidence)


def _tested(problem: Problem, fits: Fits) -> Fits:
    return ascended(problem, screened(problem, suited(problem, fits, problem.settings.settings)), FURTHER)
