"""One model of a curve: changes of level and excursions, each a single effect, on a smooth process with noise.

    y = offset + sum over l of b_l s_l(step) + f(step) + e

Each s_l is one shape of a dictionary, with a posterior over place, width and shape (Wang, Sarkar, Carbonetto and
Stephens (2020), JRSS-B 82, 1273); f is a Gaussian process in the step or its logarithm, e is AR(1) noise beside the
errors that are given. `EffectSettings` has all numbers that decide.

It may take the place of the search in `stagewise.statistics`: `python -m evidence.calibration.effects` judges it by the
rows of that one.
"""

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import median_filter

from evidence.effects._atoms import atoms_of
from evidence.effects._covariances import covariances_of
from evidence.effects._fits import Problem
from evidence.effects._model import CurveModel as CurveModel
from evidence.effects._model import Effect as Effect
from evidence.effects._model import told
from evidence.effects._pooling import PooledCurve, averaged
from evidence.effects._selection import selected
from evidence.effects._settings import DEFAULT
from evidence.effects._settings import EffectSettings as EffectSettings


def find_effects(
    steps: np.ndarray,
    curves: np.ndarray,
    errors: np.ndarray | None = None,
    counts: np.ndarray | int | None = None,
    known: Sequence[float] = (),
    span: float = np.inf,
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
        settings: the numbers that decide.

    Raises:
        ValueError: steps do not ascend or are too few, a value is not finite, or an error is not positive.

    >>> steps, noise = np.arange(30.0), 0.02 * np.random.default_rng(0).standard_normal(30)
    >>> (model,) = find_effects(steps, (np.where(steps > 14, 0.9, 0.1) + noise)[None])
    >>> [(round(one.size, 1), one.within_gap, np.expm1(one.times[1, 1:]).round(6).tolist()) for one in model.effects]
    [(0.8, True, [14.0, 15.0])]
    """
    t, values = np.asarray(steps, float), np.asarray(curves, float)
    if counts is not None:
        errors = binomial_errors(values, counts)
    given = None if errors is None else np.broadcast_to(np.asarray(errors, float), values.shape)
    _check(t, values, given)
    if len(t) > settings.checkpoints:
        return [_of_averages(averaged(t, value, settings.checkpoints), known, span, settings) for value in values]
    if given is not None:
        pairs = zip(values, given, strict=True)
        return [_models(t, value[None], error, known, span, settings)[0] for value, error in pairs]
    return _models(t, values, None, known, span, settings)


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


def _of_averages(curve: PooledCurve, known: Sequence[float], span: float, settings: EffectSettings) -> CurveModel:
    (model,) = _models(curve.steps, curve.values[None], curve.errors, known, span, settings)
    return model._replace(effects=tuple(one._replace(times=curve.whole(one.times)) for one in model.effects))


def _models(
    t: np.ndarray, values: np.ndarray, errors: np.ndarray | None, known: Sequence[float], span: float,
    settings: EffectSettings,
) -> list[CurveModel]:  # fmt: skip
    key = tuple(t.tolist())
    # Outliers of up to two checkpoints are no part of the range in which sizes are measured.
    whole, smooth = (np.ptp(each, axis=1) for each in (values, median_filter(values, size=(1, 5), mode="nearest")))
    unit = np.where(smooth > 0, smooth, np.where(whole > 0, whole, 1.0))
    scaled = ((values - np.median(values, axis=1, keepdims=True)) / unit[:, None]).T.astype(np.float32)
    given = None if errors is None else tuple((errors / unit).tolist())
    covariances = covariances_of(key, tuple(known), given, settings)
    reach = ((whole / unit).clip(min=1) * settings.size).astype(np.float32) ** 2
    problem = Problem(scaled, reach, atoms_of(key, settings), covariances, settings)
    models = zip(selected(problem), unit, strict=True)
    return [told(problem, each, float(one), span, np.log1p(t)) for each, one in models]
