"""Other searches for changes on the curves of a record; one whose package is not installed is said to be absent."""

import importlib.util
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from evidence.calibration.rivals import NOTHING, Times, logistic
from evidence.records.told import Answer, Change, Episode, names_of
from stagewise import read_log
from stagewise.findings.scores import followed, rows_of_evidence
from stagewise.statistics import noise
from stagewise.statistics._effects._pooling import Stretches

LONGEST = 160
"""Checkpoints of a curve that are searched; a longer one is averaged in as many stretches, as this library does."""

LEAST_NOISE = 1e-3
"""Part of a curve's range that its noise has at least: searches with a penalty in units of noise need some."""

RBF_PENALTY = 10.0
"""The penalty of the kernel search in ruptures' own example."""

LIKELY = 0.5
"""Posterior probability from which on a change of BEAST counts."""


class Search(NamedTuple):
    """A search of one curve, with the package that it needs; it takes log(1 + step) and values."""

    package: str
    of: Callable[[np.ndarray, np.ndarray], Times]


def pelt(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return jumps between levels by least squares, with the modified criterion's penalty at the noise of the curve.

    Source: Zhang and Siegmund (2007), A modified Bayes information criterion, Biometrics 63, 22.
    """
    import ruptures

    deviation = max(float(noise(curve)), LEAST_NOISE * float(np.ptp(curve)))
    found = ruptures.Pelt(model="l2", min_size=2, jump=1).fit(curve / deviation).predict(pen=3 * np.log(len(curve)))
    return _at_gaps(u, found[:-1])


def kernel(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return changes of the distribution by a Gaussian kernel."""
    import ruptures

    return _at_gaps(u, ruptures.Pelt(model="rbf", min_size=2, jump=1).fit(curve).predict(pen=RBF_PENALTY)[:-1])


def beast(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return the changes of trend that are likelier than not, over the number of the evaluation."""
    import Rbeast

    quiet = {"quiet": True, "print_progress": False, "print_param": False, "print_warning": False}
    trend = Rbeast.beast(curve, start=0, deltat=1, season="none", **quiet).trend
    likely = np.atleast_1d(np.nan_to_num(trend.cpPr)) >= LIKELY
    places = np.column_stack([np.atleast_1d(trend.cp), np.reshape(trend.cpCI, (-1, 2))])[likely]
    at = np.interp(places, np.arange(len(u)) + 1, np.append((u[1:] + u[:-1]) / 2, u[-1]))
    return np.asarray(at).reshape(-1, 3)


def forest(u: np.ndarray, curve: np.ndarray) -> Times:
    """Return the splits that a random forest can tell apart."""
    from changeforest import changeforest

    return _at_gaps(u, changeforest(curve[:, None], "random_forest", "bs").split_points())


SEARCHES = {
    "PELT, l2 (ruptures)": Search("ruptures", pelt),
    "PELT, rbf (ruptures)": Search("ruptures", kernel),
    "BEAST (Rbeast)": Search("Rbeast", beast),
    "changeforest": Search("changeforest", forest),
    "a line and a logistic, Schwarz's criterion": Search("scipy", logistic),
}
LINTER = "losslint"


def absent() -> list[str]:
    """Return the searches whose package is not installed."""
    packages = {name: search.package for name, search in SEARCHES.items()} | {LINTER: LINTER}
    return [name for name, package in packages.items() if importlib.util.find_spec(package) is None]


def answers_of(path: Path) -> dict[str, Answer | None]:
    """Return what each search tells of a record; None where the linter finds no loss in it."""
    try:
        curves = _curves(read_log(path))
    except ValueError:  # which this library's reader refuses: there are no curves to search
        return {}
    there = {name: search for name, search in SEARCHES.items() if name not in absent()}
    answers: dict[str, Answer | None] = {name: _answer(search.of, curves) for name, search in there.items()}
    return answers if LINTER in absent() else answers | {LINTER: linted(path)}


def linted(path: Path) -> Answer | None:
    """Return what losslint tells of a file: spikes, overfitting, and divergence, which has no time."""
    from losslint.checks import find_series, run_all_checks
    from losslint.parsing import load_run

    try:
        run = load_run(path)
    except (OSError, ValueError):
        return None
    if (train := find_series(run, "train")) is None:
        return None
    found = {one.check: one.details for one in run_all_checks(run)}
    episodes = [Episode((train[0],), "spike", at, at) for at in found.get("loss_spike", {}).get("steps", ())]
    loss = find_series(run, "eval")
    if loss and "overfit_onset" in found:
        episodes.append(Episode((loss[0],), "overfits", found["overfit_onset"]["since_step"], run.steps[-1]))
    ends = run.steps[0], run.steps[-1]
    changes = (Change((train[0],), *ends, sum(ends) / 2, "rises"),) if "divergence" in found else ()
    return Answer(changes, tuple(episodes), len(changes))


class _Curve(NamedTuple):
    names: tuple[str, ...]
    steps: np.ndarray
    values: np.ndarray


def _curves(table: pd.DataFrame) -> list[_Curve]:
    """Return the curves that this library searches, of all runs of a table."""
    curves = []
    for _, run in table.groupby("run", observed=True):
        for one in followed(rows_of_evidence(run)):
            steps, values = one.steps, one.raw
            if len(steps) > LONGEST:
                stretches = Stretches.of(steps, LONGEST)
                steps, values = stretches.steps, stretches.means(values[None])[0]
            if len(steps) > 3 and one.is_finite and np.ptp(values) > 0:
                curves.append(_Curve(names_of({"quantity": one.quantity, **one.labels}), steps, values))
    return curves


def _answer(search: Callable[[np.ndarray, np.ndarray], Times], curves: Sequence[_Curve]) -> Answer:
    """Return the changes of curves; those whose intervals overlap in turn are one event."""
    changes = tuple(change for curve in curves for change in _changes(search, curve))
    number, end = 0, -np.inf
    for change in sorted(changes, key=lambda each: each.lo):
        number, end = number + (change.lo > end), max(end, change.hi)
    return Answer(changes, (), number)


def _changes(search: Callable[[np.ndarray, np.ndarray], Times], curve: _Curve) -> list[Change]:
    """Return the changes that a search finds in a curve, each from the mean level before it to that after it."""
    times = np.asarray(search(np.log1p(curve.steps), curve.values))
    times = np.expm1(times[times[:, 0].argsort()])
    ends = [0, *np.searchsorted(curve.steps, times[:, 0]).clip(1, len(curve.steps) - 1), len(curve.steps)]
    levels = [curve.values[start : max(stop, start + 1)].mean() for start, stop in pairwise(ends)]
    return [
        Change(curve.names, lo, hi, half_way, "rises" if after > before else "falls")
        for (half_way, lo, hi), (before, after) in zip(times.tolist(), pairwise(levels), strict=True)
    ]


def _at_gaps(u: np.ndarray, firsts: Sequence[int]) -> Times:
    """Return changes between the checkpoints before each first one of a new level, and it."""
    places = np.asarray(firsts, int)
    return np.stack([(u[places] + u[places - 1]) / 2, u[places - 1], u[places]], 1) if len(places) else NOTHING
