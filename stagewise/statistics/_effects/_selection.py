"""How many changes a curve has: fits of each number, the weakest removed, and an exact test of those that stay."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics._effects._ascent import ascended
from stagewise.statistics._effects._covariances import Setting
from stagewise.statistics._effects._fits import Fits, Problem, blank, joined
from stagewise.statistics._effects._search import evidence_of, leading, levels, screened, suited

FIRST, FURTHER = 4, 6
"""Sweeps from a start, and from a fit under another setting."""

SETTINGS = 6
"""Settings of process and noise over which the posterior is averaged: the best ones."""

EACH = 2
"""Settings under which the best fit of each number is followed."""

PLAIN = (
    Setting(), Setting(0.6), Setting(0, 0, 30, False, 0.7), Setting(0, 0, 30, True, 0.35),
    Setting(0, 0, 3e4, True, 0.7),
)  # fmt: skip
FEW = 2
"""Of these, those for one change, which the fits of two lead to; jumps between levels begin under the first."""

BEHIND = 20.0
"""Nats, under white noise alone, by which levels of three jumps or more may be behind two changes to be followed:
planted staircases are 19 ahead, curves without a change mostly 12 to 30 behind; at 10 a slow fall was missed."""

MOST = 6
"""Changes that are fitted together at first: planted staircases have six steps."""


class Selection(NamedTuple):
    """The fits of a curve with the changes that it has, and the log Bayes factor of each change."""

    fits: Fits
    bayes: np.ndarray


def selected(problem: Problem) -> list[Selection]:
    """Return each curve's selection: the number of changes of most evidence, less the threshold for any, then without
    the weakest one as long as that brings less than the threshold beside the others.
    """
    by_number, s, curves = _followed(problem), problem.settings, len(problem.curves)
    evidence = np.stack([evidence_of(by_number[k], by_number[k].curve, curves) for k in range(len(by_number))], axis=1)
    number = (evidence - problem.asked(s.threshold) * (np.arange(evidence.shape[1]) > 0)).argmax(1)
    fewer, result = list[Fits](), dict[int, Selection]()
    for changes in range(evidence.shape[1] - 1, 0, -1):
        fits = by_number[changes].take(number[by_number[changes].curve] == changes)
        fits = joined([*fewer, fits])
        fewer, here = [], np.unique(fits.curve)
        if not len(here):
            continue
        fits = _tested(problem, fits.take(leading(fits, 1)))
        best, whole = fits.take(leading(fits, 1)), evidence_of(fits, fits.curve, curves)[here]
        without = [best.without(np.full(len(here), effect)) for effect in range(changes)]
        if changes == 1:
            none = by_number[0].take(leading(by_number[0], 1))
            without.append(none.take(np.isin(none.curve, here)))
        each, others = len(here) * changes, _tested(problem, joined(without))
        group = np.arange(len(others)) // SETTINGS % each
        bayes, asked = whole - evidence_of(others, group, each).reshape(changes, -1), _thresholds(problem, best)
        for i, (c, weakest) in enumerate(zip(here.tolist(), bayes.argmin(0), strict=True)):
            if bayes[weakest, i] >= asked[i]:
                result[c] = Selection(fits.take(fits.curve == c), bayes[:, i])
            else:
                fewer.append(others.take(group == weakest * len(here) + i))
    for fits in (by_number[0].take(number[by_number[0].curve] == 0), *fewer):
        result |= {c: Selection(fits.take(fits.curve == c), np.zeros(0)) for c in np.unique(fits.curve).tolist()}
    return [result[c] for c in range(curves)]


def _thresholds(problem: Problem, fits: Fits) -> np.ndarray:
    """Return the log Bayes factor asked of each change: another one of an only, abrupt one beside given errors."""
    u, s, times = problem.u, problem.settings, problem.atoms.times[fits.atoms]
    between = np.searchsorted(u, times[..., -1]) - np.searchsorted(u, times[..., 0])
    abrupt = (between <= min(s.brief, 1 + round(len(u) / s.each[0]))) & (times[..., -1] <= u[-1]) & (fits.changes == 1)
    return np.where((fits.shape[:, 0] * abrupt).sum(1) > 0.5, problem.asked(s.threshold), s.threshold[0])


def _followed(problem: Problem) -> dict[int, Fits]:
    """Return fits of every number of changes: from starts, and from those of one more without the weakest."""
    starts = _starts(problem)
    result, children = dict[int, Fits](), list[Fits]()
    for changes in range(max(starts), -1, -1):
        sources = [starts[changes], *children]
        pool = joined([*sources, *(_around(problem, fits.take(leading(fits, 1))) for fits in sources)])
        if changes > 1:
            best = pool.take(leading(pool, 1))
            best = best.take(best.gains[:, :changes].min(1) > 0)
            pool = joined([pool, _around(problem, best.take(slice(None), alike=np.ones(len(best), bool)))])
        result[changes], children = pool, _reduced(problem, pool) if changes else []
    return result


def _starts(problem: Problem) -> dict[int, Fits]:
    """Return fits of each number of changes from nothing, and from levels: of three and more those of staircases."""
    s, plain, every = problem.settings, _places(problem), np.arange(len(problem.curves))
    most = min(MOST, max(1, int(problem.curves.shape[1] // problem.asked(s.each))))
    seeds = _seeded(problem, int(plain[0]), most)
    starts, best = dict[int, Fits](), np.full(len(every), -np.inf)
    for changes in range(min(most, 2) + 1):
        settings = plain[:FEW] if changes == 1 else plain
        empty = blank(problem, np.repeat(every, len(settings)), np.tile(settings, len(every)), changes)
        fits = _settled(problem, empty)
        starts[changes] = joined([seeds.pop(changes), fits]) if changes in seeds else fits
        alike = starts[changes].take(starts[changes].setting == plain[0])
        np.maximum.at(best, alike.curve, alike.evidence)
    near = {k: fits.take(fits.evidence > best[fits.curve] - BEHIND) for k, fits in seeds.items()}
    return starts | {k: _settled(problem, fits) for k, fits in near.items()}


def _settled(problem: Problem, fits: Fits, rounds: int = 2) -> Fits:
    for _ in range(rounds):
        fits = ascended(problem, screened(problem, fits), FIRST)
    return fits


def _places(problem: Problem) -> np.ndarray:
    """Return the plain settings; beside given errors there is further noise only where it is correlated."""
    scaled, settings = problem.covariances.scaled, problem.covariances.settings
    chosen = [one if scaled else one._replace(noise=float(one.correlation > 0)) for one in PLAIN]
    return np.array([settings.index(one) for one in chosen])


def _seeded(problem: Problem, setting: int, most: int) -> dict[int, Fits]:
    """Return fits of each number of changes that begin with the jumps of the closest curve of levels."""
    every, closest = np.arange(len(problem.curves)), [levels(curve, most) for curve in problem.curves]
    seeds = dict[int, Fits]()
    for changes in range(2, most + 1):
        fits, effects = blank(problem, every, np.full(len(every), setting), changes), np.arange(changes)
        for c, of in enumerate(closest):
            gaps, sizes = of[changes - 1]
            fits.atoms[c, effects] = problem.atoms.jumps[gaps]
            fits.shape[c, effects, effects], fits.size[c, effects, effects] = 1, sizes
        seeds[changes] = _settled(problem, fits, 1)
    return seeds


def _around(problem: Problem, fits: Fits) -> Fits:
    """Return fits under the settings that suit them."""
    return ascended(problem, suited(problem, fits, EACH), FURTHER)


def _reduced(problem: Problem, fits: Fits) -> list[Fits]:
    """Return the best fit of each curve without its weakest change, and without the next."""
    best = fits.take(leading(fits, 1))
    order = np.argsort(best.gains[:, : best.changes], axis=1, kind="stable")
    parts = [best.without(order[:, k]) for k in range(min(2, best.changes))]
    return [ascended(problem, screened(problem, joined(parts)), FIRST)]


def _tested(problem: Problem, fits: Fits) -> Fits:
    return ascended(problem, screened(problem, suited(problem, fits, SETTINGS)), FURTHER)
