"""One model of a curve: changes of level and excursions, each a single effect, on a smooth process with noise.

    y = offset + sum over l of b_l s_l(step) + f(step) + e

Each s_l is one shape of a dictionary, with a posterior over place, width and shape (Wang, Sarkar, Carbonetto and
Stephens (2020), JRSS-B 82, 1273); f is a Gaussian process in the step or its logarithm, e is AR(1) noise beside the
errors that are given. `EffectSettings` has all numbers that decide.
"""

from collections.abc import Sequence

import numpy as np
from threadpoolctl import ThreadpoolController

from stagewise.statistics._differences import running_median
from stagewise.statistics._effects._atoms import atoms_of
from stagewise.statistics._effects._covariances import covariances_of
from stagewise.statistics._effects._fits import Problem
from stagewise.statistics._effects._model import CurveModel as CurveModel
from stagewise.statistics._effects._model import Told
from stagewise.statistics._effects._pooling import Stretches
from stagewise.statistics._effects._selection import selected
from stagewise.statistics._effects._settings import DEFAULT, FINE
from stagewise.statistics._effects._settings import EffectSettings as EffectSettings
from stagewise.statistics._effects._signals import Signals as Signals
from stagewise.statistics._effects._signals import signals_of
from stagewise.statistics._effects._transition import Transition as Transition

FAR = 30.0
"""Ranges of the curve without outliers beyond which all values are as far: squares of larger ones lose the rest."""

BLAS = ThreadpoolController()
"""Products here are small: with a thread for each core they take several times as long where something else runs."""


def find_transitions(
    steps: np.ndarray,
    curves: np.ndarray,
    errors: np.ndarray | None = None,
    counts: np.ndarray | int | None = None,
    known: Sequence[float] = (),
    span: float = np.inf,
    resamples: Sequence[np.ndarray | None] | None = None,
    settings: EffectSettings = DEFAULT,
) -> list[CurveModel]:
    """Return the model of each curve [curve, step]; those without errors share the work on their steps.

    Args:
        steps: ascending, each once, four or more; more than `settings.checkpoints` are averaged in stretches.
        curves: finite.
        errors: their standard errors, [curve, step] or what broadcasts to it; a value exactly known has a small one.
        counts: of how many answers each value is the share; gives the errors.
        known: steps at which the level may change by a known cause, as a drop of the learning rate.
        span: of what the quantity can be, its highest value less its lowest: no size is larger.
        resamples: of each curve, what it would be on other draws of the data that it was measured on, [draw, step]:
            they widen the intervals of its times. None where there are none.
        settings: the numbers that decide.

    Raises:
        ValueError: steps do not ascend or are too few, a value is not finite, or an error is not positive.

    >>> steps, noise = np.arange(30.0), 0.02 * np.random.default_rng(0).standard_normal(30)
    >>> (model,) = find_transitions(steps, (np.where(steps > 14, 0.9, 0.1) + noise)[None])
    >>> (one,) = model.transitions
    >>> round(one.size, 1), one.within_gap, np.expm1(one.times[1, 1:]).round(6).tolist()
    (0.8, True, [14.0, 15.0])
    """
    t, values = np.asarray(steps, float), np.asarray(curves, float)
    if counts is not None:
        errors = binomial_errors(values, counts)
    given = None if errors is None else np.broadcast_to(np.asarray(errors, float), values.shape)
    _check(t, values, given)
    of, draws, models = Stretches.of(t, settings.checkpoints), resamples or [None] * len(values), list[CurveModel]()
    # Curves with errors each have noise of their own.
    parts = [slice(None)] if given is None else [slice(i, i + 1) for i in range(len(values))]
    with BLAS.limit(limits=1, user_api="blas"):
        for part in parts:
            problem = _problem(of, values[part], None if given is None else given[part][0], known, settings)
            for c, (selection, draw) in enumerate(zip(selected(problem), draws[part], strict=True)):
                model = Told(problem, selection, c, span, None if draw is None else of.means(draw)).model()
                told = (one._replace(times=of.whole(one.times)) if one.within_gap else one for one in model.transitions)
                models.append(model._replace(transitions=tuple(told)))
    return models


def binomial_errors(shares: np.ndarray, counts: np.ndarray | int) -> np.ndarray:
    """Return the standard errors of shares of so many answers, each as if two more were half right.

    >>> binomial_errors(np.array([0.0, 0.5]), 98).round(4).tolist()
    [0.0101, 0.0505]
    """
    n = np.asarray(counts, float)
    likely = (np.asarray(shares) * n + 1) / (n + 2)
    return np.asarray(np.sqrt(likely * (1 - likely) / n))


def _check(t: np.ndarray, values: np.ndarray, errors: np.ndarray | None) -> None:
    if values.ndim != 2 or values.shape[1:] != t.shape:
        raise ValueError(f"expected curves [curve, step] at {len(t)} steps, got shape {values.shape}")
    if len(t) < 4 or np.any(np.diff(t) <= 0) or t[0] < 0:
        raise ValueError(f"steps must be four or more, 0 or later, and ascend, got {t.tolist()[:10]}")
    if not np.isfinite(values).all():
        raise ValueError("curves must be finite: leave out what is not, or take them up to there")
    if errors is not None and not (np.isfinite(errors) & (errors > 0)).all():
        raise ValueError(f"errors must be positive and finite, got {float(np.min(errors))} among them")


def signals(
    steps: np.ndarray, values: np.ndarray, resamples: np.ndarray | None = None, number: int = 1000, seed: int = 0
) -> Signals:
    """Return draws of a curve [step] without its noise, as its model knows it; of a long one, of its averages.

    Args:
        steps: ascending, each once, four or more.
        values: finite.
        resamples: what the curve would be on other draws of the data that it was measured on, [draw, step].
        number: of draws.
        seed: of the draws.

    Raises:
        ValueError: as `find_transitions`.

    >>> steps, noise = np.arange(30.0), 0.02 * np.random.default_rng(0).standard_normal(30)
    >>> drawn = signals(steps, np.abs(steps - 12) / 10 + noise)
    >>> abs(int(drawn.draws.mean(0).argmin()) - 12) <= 1, drawn.draws.shape
    (True, (1000, 30))
    """
    t, curve = np.asarray(steps, float), np.asarray(values, float)
    _check(t, curve[None], None)
    of, generator = Stretches.of(t, FINE.checkpoints), np.random.default_rng(seed)
    with BLAS.limit(limits=1, user_api="blas"):
        problem = _problem(of, curve[None], None, (), FINE)
        draws = problem.centre[0] + problem.unit[0] * signals_of(problem, selected(problem)[0], number, seed)
    # The batch is one of many: what another one would add moves a minimum too.
    if resamples is not None:
        many = of.means(resamples)
        draws += generator.choice(many - many.mean(0), number)
    return Signals(of.steps, draws, t)


def _problem(
    of: Stretches, curves: np.ndarray, errors: np.ndarray | None, known: Sequence[float], settings: EffectSettings
) -> Problem:
    """Return curves, averaged over stretches, less their centres and in their units."""
    key, values = tuple(of.steps.tolist()), of.means(curves)
    # Outliers of up to two checkpoints are no part of the range in which sizes are measured.
    whole, smooth = (np.ptp(each, axis=1) for each in (values, running_median(values, 5)))
    unit, centre = np.where(smooth > 0, smooth, np.where(whole > 0, whole, 1.0)), np.median(values, axis=1)
    scaled = ((values - centre[:, None]) / unit[:, None]).clip(-FAR, FAR)
    given, relative = None, None if errors is not None else of.relative
    if errors is not None:
        given = tuple((np.sqrt(of.means(np.square(errors)[None])[0] / of.number) / unit).tolist())
    covariances = covariances_of(key, tuple(known), given, relative, settings)
    reach = ((whole / unit).clip(1, FAR) * settings.size) ** 2
    atoms = atoms_of(key, settings, errors is not None)
    return Problem(scaled, reach, atoms, covariances, settings, np.log1p(of.steps), centre, unit)
