"""Does repetition that ends beat repetition that stays? The toy model by SGD, tested without repetition."""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import finish, panels
from stagewise.papers.emergence.toy_attention import check_toy, run_toy
from stagewise.papers.published import Result, number, over_seeds, table_of
from stagewise.papers.running import run_each
from stagewise.sweeping import parameter_grid
from stagewise.value_schedules import AbstractSchedule, Ramp, Steps

BUDGET = 600

_Schedules = Mapping[str, AbstractSchedule]

SHARES: _Schedules = {f".8 to 0 by {stop}": Ramp(0.8, 0.0, start=0, stop=stop) for stop in (100, 200)}
COPIES: _Schedules = {f"4 to 1 at {stop}": Steps((4, 1), (stop,)) for stop in (50, 100)}
"""Schedules of p and of B."""


def figure_schedules(request: FigureRequest) -> Result:
    """Train the toy model with each fixed p or B and each schedule from high to low; draw the steps of every seed.

    The steps are those to a test loss of .1 without repetition: p = 0, one copy. The best fixed value has the least
    steps in the mean over the same seeds; each schedule is compared with it seed by seed.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 2.1, the model. It holds p and B; the schedules are ours.
    """
    figure, axes = panels(2)
    rows = []
    for ax, (name, schedules) in zip(axes, {"p": SHARES, "B": COPIES}.items(), strict=True):
        fixed = {f"{value:g}": Steps((value,), ()) for value in request.axes[name]}
        every: _Schedules = fixed | dict(schedules)
        steps = _steps(request, name, every)
        for i, times in enumerate(steps.values()):
            ax.plot([i] * len(times), times, "o", alpha=0.6)
        ax.set_xticks(range(len(steps)), list(steps), rotation=30)
        finish(ax, f"{name}: fixed, then from high to low", ylabel="steps to test loss .1")
        best = min(fixed, key=lambda each: float(np.mean(steps[each])))
        rows += [_row(f"steps to loss .1, {name} = {label}", times) for label, times in steps.items()]
        rows.append(number(f"best fixed {name}", "-", best))
        for label in schedules:
            ratios = [a / b for a, b in zip(steps[best], steps[label], strict=True)]
            rows.append(_row(f"times faster than the best fixed {name}, {name} = {label}", ratios))
    return Result(figure, table_of(rows))


def _steps(request: FigureRequest, name: str, schedules: _Schedules) -> dict[str, list[float]]:
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


def _row(what: str, values: list[float]) -> dict[str, str]:
    if all(map(math.isfinite, values)):
        return over_seeds(what, "-", values)
    return number(what, "-", "never", remark=f"{sum(map(math.isinf, values))} of {len(values)} seeds")
