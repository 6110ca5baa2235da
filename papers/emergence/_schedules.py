"""Does repetition that ends beat repetition that stays? The toy model by SGD, tested without repetition, and recall."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import finish, panels
from stagewise.papers.emergence._recall_accuracy import Named, accuracies, steps_to
from stagewise.papers.emergence._runs import until_learned
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.emergence.toy_attention import check_toy, run_toy
from stagewise.papers.published import Result, number, over_some, table_of
from stagewise.papers.running import run_each
from stagewise.recipe import Recipe
from stagewise.sweeping import parameter_grid
from stagewise.training import Log, Metrics
from stagewise.value_schedules import AbstractSchedule, Ramp, Steps

BUDGET, RECALL_BUDGET = 600, 2500

_Schedules = Mapping[str, AbstractSchedule]

SHARES: _Schedules = {f".8 to 0 by {stop}": Ramp(0.8, 0.0, start=0, stop=stop) for stop in (100, 200)}
COPIES: _Schedules = {f"4 to 1 at {stop}": Steps((4, 1), (stop,)) for stop in (50, 100)}
"""Schedules of p and of B in the toy model."""

RECALL_SHARES: _Schedules = {".8 to 0 by 800": Ramp(0.8, 0.0, start=0, stop=800)}
RECALL_COPIES: _Schedules = {f"4 to 1 at {stop}": Steps((4, 1), (stop,)) for stop in (400, 800)}
"""Those in recall."""

_FIELDS = {"p": "task.p", "B": "task.n_copies"}

_NONE = {"p": "0", "B": "1"}
"""The values without repetition."""

_LEARNED = 0.8
"""The test accuracy to which steps of recall are counted: training ends soon after it."""

_StepsOf = Callable[[str, _Schedules], dict[str, list[float]]]
"""The steps of every seed by schedule, of p or B."""


def figure_schedules(request: FigureRequest) -> Result:
    """Train the toy model with each fixed p or B and each schedule from high to low; draw the steps of every seed.

    The steps are those to a test loss of .1 without repetition: p = 0, one copy. The best fixed value has the least
    steps in the mean over the same seeds; each schedule is compared with it seed by seed.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 2.1, the model. It holds p and B; the schedules are ours.
    """
    schedules = {"p": SHARES, "B": COPIES}
    return _compared(request, schedules, functools.partial(_toy_steps, request), "loss .1")


def figure_repetition(request: FigureRequest) -> Result:
    """Train recall with each fixed p or B and each schedule from high to low, as in `figure_schedules`.

    The steps are those to a test accuracy of .8 on sequences without repetition.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 3.2 and Figure 5. It holds p and B; the schedules are ours.
    """
    schedules = {"p": RECALL_SHARES, "B": RECALL_COPIES}
    return _compared(request, schedules, functools.partial(_recall_steps, request), "accuracy .8")


def _compared(request: FigureRequest, schedules: Mapping[str, _Schedules], steps_of: _StepsOf, level: str) -> Result:
    figure, axes = panels(len(schedules))
    rows = []
    for ax, (name, from_high) in zip(axes, schedules.items(), strict=True):
        fixed = {f"{value:g}": Steps((value,), ()) for value in request.axes[name]}
        steps = steps_of(name, fixed | dict(from_high))
        for i, times in enumerate(steps.values()):
            ax.plot([i] * len(times), times, "o", alpha=0.6)
        ax.set_xticks(range(len(steps)), list(steps), rotation=30)
        finish(ax, f"{name}: fixed, then from high to low", ylabel=f"steps to test {level}")
        best = min(fixed, key=lambda each: float(np.mean(steps[each])))
        rows += [over_some(f"steps to {level}, {name} = {label}", "-", times) for label, times in steps.items()]
        rows.append(number(f"best fixed {name}", "-", best))
        for label in from_high:
            ratios = [a / b if math.isfinite(b) else 0.0 for a, b in zip(steps[best], steps[label], strict=True)]
            rows.append(over_some(f"times faster than the best fixed {name}, {name} = {label}", "-", ratios))
    return Result(figure, table_of(rows))


def _toy_steps(request: FigureRequest, name: str, schedules: _Schedules) -> dict[str, list[float]]:
    """Return the steps of every seed by schedule; inf where the budget ends before."""
    (size,) = parameter_grid(T=request.axes["T"], d=request.axes["d"])
    seeds, budget = request.axes["seed"], request.budget or BUDGET
    check_toy(**size, budget=budget)
    cases = [{**size, name: schedule, "seed": seed} for schedule in schedules.values() for seed in seeds]
    one = functools.partial(_time, budget=budget)
    times = iter(run_each(one, cases, request.workers, progress=request.progress))
    return {label: [next(times) for _ in seeds] for label in schedules}


def _time(case: Mapping[str, Any], budget: int, progress: bool) -> float:
    return run_toy(**case, budget=budget)["hi"]


def _recall_steps(request: FigureRequest, name: str, schedules: _Schedules) -> dict[str, list[float]]:
    """Return the steps of every seed by schedule; inf where the budget ends before."""
    (size,) = parameter_grid(n_pairs=request.axes["N_pairs"], n_tokens=request.axes["N_tokens"])
    seeds, budget = request.axes["seed"], request.budget or RECALL_BUDGET
    runs: list[Named] = []
    for (label, schedule), seed in itertools.product(schedules.items(), seeds):
        base = recall_recipe(**size, seed=int(seed), budget=budget)
        recipe = dataclasses.replace(base, schedules={_FIELDS[name]: schedule})
        # Both have the runs without repetition, which are one folder each.
        named = {name: label.replace(" ", "-")} if label != _NONE[name] else {"none": 1}
        runs.append(({**size, **named, "seed": seed}, recipe if label != _NONE[name] else base))
    tables = accuracies("schedule", runs, request, _until_learned)
    times = iter([steps_to(_LEARNED, table) for table in tables])
    return {label: [next(times) for _ in seeds] for label in schedules}


def _until_learned(recipe: Recipe) -> Log | None:
    """Return a log that ends training once recall is learned without repetition; None where repetition stays."""
    if not recipe.schedules:
        return until_learned(recipe)
    ((field, schedule),) = recipe.schedules.items()
    if schedule.at(recipe.plan.steps) != (0 if field == _FIELDS["p"] else 1):
        return None
    inner, stop = until_learned(recipe), max(schedule.breakpoints())

    def log(metrics: Metrics) -> None:
        if metrics["step"] > stop:
            inner(metrics)

    return log
