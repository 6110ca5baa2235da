"""When a plateau will end, with an interval: a form of growth, extrapolated from its checkpoints alone."""

from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import scipy

from stagewise.papers.plateau_noise import plateau_noise
from stagewise.papers.theory.early_time import blow_up_share
from stagewise.statistics import LEVEL, crossing
from stagewise.table import select

FEWEST_READINGS = 8
"""Checkpoints that a growth is fitted to at least."""

FARTHEST = 30.0
"""A plateau so many times as long as what was seen of it is not told from an endless one."""

DRAWS = 200
"""Draws of the noise; the growth is fitted to each anew."""

FORM_ERROR = {"theory": 0.1, "attention": 0.8, "exponential": 1.2}
"""By how much a form of growth is wrong: standard deviation of the log of the remaining steps, set on seeds which
`evidence.calibration.early_warning` does not score."""

TIME_ERROR = {"theory": 0.09, "attention": 0.14, "exponential": 0.0}
"""By how much the unit of time is wrong besides, where time counts from step 0: standard deviation of the log of all
steps. It stays as the end comes nearer: initial weights that a form does not know shift the whole course. Root mean
square error on the toy model, W = 0 and random, seeds 0 to 23: of a theory from all parts of the plateau, of attention
from four fifths, where what is left of `FORM_ERROR` is small."""

EDGE = 1e-6
"""Attention counts as no nearer to 0 and to 1."""

STARTS = np.linspace(-0.2, 0.2, 17)
"""Parts of a theory's time by which a run may be ahead of it or behind: its initial weights may point either way."""

GAPS = np.linspace(0.0, 5.0, 2000) ** 2
"""Log-odds above their start, at which the growth of attention is tabulated."""

FOLDS = np.linspace(0.0, 40.0, 4000)
"""E-foldings at which the exponential is tabulated."""

Direction = Literal["up", "down"]
Growth = Literal["attention", "exponential"]
Level = tuple[int | float, int | float]
"""The least and the largest value."""


class Forecast(NamedTuple):
    """When a curve reaches the level at which its plateau ends. Steps are optimiser updates.

    `step` is the forecast from the checkpoints up to step `until`, within [`lo`, `hi`] with 95 % confidence. Where
    nothing grows yet, `step` and `hi` are infinite; where that cannot be excluded, `hi` is.
    """

    until: int | float
    step: int | float
    lo: int | float
    hi: int | float

    def __str__(self) -> str:
        if np.isinf(self.step):
            return f"by step {self.until:.0f} nothing grows: no end of the plateau is foretold"
        hi = f"{self.hi:.0f}" if np.isfinite(self.hi) else "not known"
        return f"by step {self.until:.0f}: the plateau ends at step {self.step:.0f} [{self.lo:.0f}, {hi}]"


def predict_onset(
    readings: pd.DataFrame,
    level: Level,
    *,
    until: int | float,
    since: int | float = 0,
    growth: Growth = "attention",
    theory: pd.DataFrame | None = None,
    direction: Direction = "up",
    seed: int = 0,
) -> Forecast:
    """Extrapolate a quantity that grows on a plateau to the level at which the plateau ends.

    Fitted is a form of growth over time, whose unit in steps is what the readings decide:

    - a theory's attention, where there is one: its log-odds, from a start of their own, ahead or behind by up to
      a fifth of its time;
    - "attention": that of the flow of sparse attention while attention is small, of any size. The log-odds are
      Da = erfinv(t / T)^2 above their start, which is (rate t)^2 / 2 at first and infinite at T;
    - "exponential": of any reading, a + b exp(rate t), as a loss falls along a direction of negative curvature.

    The interval carries the noise of the readings, as correlated between checkpoints as what the fit leaves; the level;
    and how far the form and its unit of time are from how models grow (`FORM_ERROR`, `TIME_ERROR`), which no number of
    checkpoints makes smaller. It has no upper end where the form explains no larger part of the readings than of one in
    twenty curves of that noise alone.

    Args:
        readings: rows of one curve, one a step: `step`, `value`.
        level: the least and the largest value at which the plateau may end, equally likely in between.
        until: readings up to this step are used.
        since: readings from this step on are used; before it a loss falls from its initial value to the plateau, and a
            score may fall before it rises. The begin of a plateau does not matter to an exponential; attention and a
            theory count their time from step 0.
        growth: the form; attention lies between 0 and 1, anything else takes "exponential".
        theory: a table of attention to one relation, to take in its place, from before the plateau's end to beyond it.
        direction: "down" for what falls, as a loss.
        seed: of the draws.

    Raises:
        ValueError: several rows a step, too few of them, or values that are not finite; a level that is no two finite
            numbers in their order, or that the curve has passed; an unknown growth or direction; attention, or its
            level, that is not between 0 and 1 or falls.

    Source: attention's growth is `theory.early_time.blow_up_share`; the interval is a parametric bootstrap.

    >>> steps = np.arange(0, 300, 10)
    >>> readings = pd.DataFrame({"step": steps, "value": 0.01 * np.exp(steps / 100)})
    >>> round(predict_onset(readings, (0.5, 0.5), until=200, growth="exponential").step, -1)
    390.0
    """
    for name, choice, known in (("growth", growth, get_args(Growth)), ("direction", direction, get_args(Direction))):
        if choice not in known:
            raise ValueError(f"{name} is one of {', '.join(map(repr, known))}, got {choice!r}")
    form = "theory" if theory is not None else growth
    steps, values = _arrays(readings[readings["step"].between(since, until)])
    _check(steps, values, level)
    _check_short_of(form, steps, values, level, direction)
    generator = np.random.default_rng(seed)
    levels = np.concatenate([[np.mean(level)], generator.uniform(*level, DRAWS)])
    if form == "exponential":
        sign = 1.0 if direction == "up" else -1.0
        values, levels = sign * values, sign * levels
    else:
        values, levels = (scipy.special.logit(np.clip(part, EDGE, 1 - EDGE)) for part in (values, levels))
    course = None if theory is None else _arrays(select(theory, "AttentionTo", "mass"))
    return _extrapolated(_shape(growth, course), steps, values, levels, form, generator)


def _arrays(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    rows = rows.sort_values("step")
    return rows["step"].to_numpy(float), rows["value"].to_numpy(float)


def _extrapolated(
    shape: "_Shape",
    steps: np.ndarray,
    values: np.ndarray,
    levels: np.ndarray,
    form: str,
    generator: np.random.Generator,
) -> Forecast:
    """Return when a shape reaches the first level, and the interval of when it reaches the others, one a draw."""
    fit = _fit(shape, steps, values[None], levels[:1])
    noise = plateau_noise(steps, values - fit.curves[0], 2 + (shape.scaled or len(shape.starts) > 1), generator, DRAWS)
    ends, by_chance = _fit(shape, steps, fit.curves + noise, levels[1:]).ends, _fit(shape, steps, noise, levels[1:])
    last, tail = float(steps[-1]), (1 - LEVEL) / 2
    remaining = np.maximum(ends - last, 0.0) * np.exp(FORM_ERROR[form] * generator.standard_normal(DRAWS))
    ends = np.maximum((last + remaining) * np.exp(TIME_ERROR[form] * generator.standard_normal(DRAWS)), last)
    step, lo = max(float(fit.ends[0]), last), float(np.quantile(ends, tail, method="lower"))
    hi = float(np.quantile(ends, 1 - tail, method="higher"))
    grows = fit.explained[0] > np.quantile(by_chance.explained, LEVEL, method="higher")
    return Forecast(last, step, min(lo, step), max(hi, step) if grows else np.inf)


def _check(steps: np.ndarray, values: np.ndarray, level: Level) -> None:
    if (np.diff(steps) == 0).any():
        raise ValueError("a forecast is of one curve, with one row a step: choose a layer, a head and a relation")
    if len(steps) < FEWEST_READINGS:
        until = f" up to step {steps[-1]:g}" if len(steps) else ""
        raise ValueError(f"a forecast needs {FEWEST_READINGS} checkpoints, there are {len(steps)}{until}")
    if not np.isfinite(values).all():
        raise ValueError(f"the curve is not finite at step {steps[~np.isfinite(values)][0]:g}")
    if np.shape(level) != (2,) or not np.isfinite(level).all() or level[0] > level[1]:
        raise ValueError(f"the level goes from its least to its largest value, as in (0.75, 0.95), got {level}")


def _check_short_of(form: str, steps: np.ndarray, values: np.ndarray, level: Level, direction: Direction) -> None:
    within = values.min() >= 0 and values.max() <= 1 and level[0] > 0 and level[1] < 1
    if form != "exponential" and not (within and direction == "up"):
        raise ValueError(
            f"attention lies between 0 and 1 and rises, got {values.min():g} to {values.max():g}, the level {level}, "
            f'direction="{direction}": take growth="exponential" for anything else'
        )
    farther = float(level[1] if direction == "up" else level[0])
    passed = crossing(steps, values, farther, direction, for_good=True)
    if not passed.censored:
        raise ValueError(
            f"the curve has passed the level {level} by step {passed.hi:g}, where it is "
            f"{values[steps == passed.hi][0]:g}: there is no end left to foretell. Take readings `until` an earlier "
            "step, or a level on its other side"
        )


class _Shape(NamedTuple):
    """How a curve rises over a time of its own, whose unit is fitted; its height too where it is `scaled`."""

    time: np.ndarray
    height: np.ndarray
    scaled: bool = False
    starts: np.ndarray = np.zeros(1)


class _Fit(NamedTuple):
    """The closest curves [draw, step], the step at which each reaches its level, and what part it explains."""

    curves: np.ndarray
    ends: np.ndarray
    explained: np.ndarray


def _shape(growth: Growth, theory: tuple[np.ndarray, np.ndarray] | None) -> _Shape:
    if theory is not None:
        steps, mass = theory
        odds, time = scipy.special.logit(np.clip(mass, EDGE, 1 - EDGE)), steps / float(steps.max())
        return _Shape(time, np.maximum.accumulate(odds - odds[0]), starts=STARTS)
    if growth == "attention":
        return _Shape(blow_up_share(GAPS), GAPS)
    return _Shape(FOLDS, np.expm1(FOLDS), scaled=True)


def _fit(shape: _Shape, steps: np.ndarray, values: np.ndarray, levels: np.ndarray) -> _Fit:
    """Fit a shape to curves [draw, step] by least squares, over a grid of units and starts."""
    units, starts = (each.ravel() for each in np.meshgrid(_units(shape, steps), shape.starts, indexing="ij"))
    origin = steps[0] if shape.scaled else 0.0
    shapes = np.interp((steps - origin) / units[:, None] - starts[:, None], shape.time, shape.height)
    means = shapes.mean(1)
    rising = shapes - means[:, None]
    varies = np.ptp(values, axis=1, keepdims=True) > 0  # what rounding leaves of a constant does not grow
    along, size = varies * (values @ rising.T), np.maximum((rising**2).sum(1), np.finfo(float).tiny)
    scales = np.maximum(along / size, 0.0) if shape.scaled else np.ones_like(along)
    gains = 2 * scales * along - scales**2 * size
    best, each = gains.argmax(1), np.arange(len(values))
    scale = scales[each, best]
    offset = values.mean(1) - scale * means[best]
    height = np.divide(levels - offset, scale, out=np.full(len(values), np.inf), where=scale > 0)
    ends = origin + units[best] * (np.interp(height, shape.height, shape.time, right=np.inf) + starts[best])
    if not shape.scaled:  # the slowest of all rises is none
        ends = np.where(units[best] == units.max(), np.inf, ends)
    spread = np.maximum(((values - values.mean(1, keepdims=True)) ** 2).sum(1), np.finfo(float).tiny)
    return _Fit(offset[:, None] + scale[:, None] * shapes[best], ends, gains[each, best] / spread)


def _units(shape: _Shape, steps: np.ndarray) -> np.ndarray:
    """Return the units of time that are tried, steps: from a curve that has risen by now to one that hardly begins."""
    if shape.scaled:
        return np.asarray((steps[-1] - steps[0]) / np.geomspace(0.05, 40, 300))
    return np.asarray(steps[-1] * np.geomspace(1, FARTHEST, 400))
