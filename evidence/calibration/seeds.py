"""Seeds as replicates: means over seeds and what another seed has, the order of two events, heads by their roles."""

import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from evidence.calibration.cases import Generator, checkpoints, correlated, logistic
from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.findings._roles import head_roles
from stagewise.findings.replicates import find_replicates
from stagewise.statistics import pooled
from stagewise.words import event_names

BETWEEN = 0.3
"""Deviation of the log step of an event between seeds."""

MIDDLES = {"previous token": 150.0, "induction": 500.0}
"""Relation -> the step at which a head turns to it, in the mean over seeds."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for seeds in (3, 5, 10):
        yield f"seeds mean of {seeds}", functools.partial(_means, seeds)
    yield "seeds onsets of 5", _onsets
    yield "seeds roles", _roles


def _means(seeds: int, repetitions: int) -> list[Row]:
    """Errors of one seed from a tenth of the spread between seeds to twice that; ten times the repetitions."""
    g, covered, new = generator(f"means of {seeds}"), [], []
    for _ in range(10 * repetitions):
        errors = BETWEEN * np.exp(g.uniform(np.log(0.1), np.log(2), seeds + 1))
        values = BETWEEN * g.standard_normal(seeds + 1) + errors * g.standard_normal(seeds + 1)
        mean = pooled(values[:-1], errors[:-1])
        covered.append(mean.lo <= 0 <= mean.hi)
        new.append(mean.new_lo <= values[-1] <= mean.new_hi)
    return [
        share(f"means over {seeds} seeds covered, unequal errors", covered, 0.92, "higher"),
        share(f"one more seed covered by {seeds}, unequal errors", new, 0.92, "higher"),
    ]


def _run(g: Generator, name: str) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return a run of two heads, either of which may take either relation, and the steps at which they do."""
    steps, order = checkpoints("log", 60), g.permutation(2)
    at = {relation: middle * np.exp(BETWEEN * g.standard_normal()) for relation, middle in MIDDLES.items()}
    frames = [
        pd.DataFrame({"step": steps, "head": head, "relation": relation, "value": values})
        for i, head in enumerate(order)
        for j, relation in enumerate(MIDDLES)
        for values in [0.1 + 0.6 * (i == j) * logistic(steps, at[relation], 0.1) + correlated(g, len(steps), 0.5, 0.03)]
    ]
    return pd.concat(frames).assign(run=name, probe="AttentionTo", quantity="mass", layer=0), at


def _onsets(repetitions: int) -> list[Row]:
    g, covered, new, order, number = generator("onsets over seeds"), [], [], [], []
    for _ in range(max(repetitions // 2, 1)):
        runs, times = zip(*(_run(g, f"seed {i}") for i in range(6)), strict=True)
        found = find_replicates(pd.concat(runs[:5], ignore_index=True))
        names = event_names(found.catalogue, found.quantities)
        number.append(int(found.events["recurs"].sum()) == 2)
        for relation, middle in MIDDLES.items():
            of = found.events[[relation in names[event] for event in found.events["event"]]].nlargest(1, "seeds")
            for row in of.to_dict("records"):
                covered.append(row["lo"] <= middle <= row["hi"])
                new.append(row["new_lo"] <= times[5][relation] <= row["new_hi"])
        order += [
            row["p_value"] < 0.05 and "previous" in names[row["before"]] for row in found.order.to_dict("records")
        ]
    return [
        share("onsets over 5 seeds: two events recur, and no other", number, 0.9, "higher"),
        share("onsets over 5 seeds: the mean step covered", covered, 0.92, "higher"),
        share("onsets over 5 seeds: the step of a sixth seed covered", new, 0.92, "higher"),
        share("onsets over 5 seeds: which comes first is told, rightly", order, 0.9, "higher"),
    ]


def _roles(repetitions: int) -> list[Row]:
    """Eight heads with profiles of their own, at other indices in each of four runs."""
    g, right = generator("roles"), []
    steps = checkpoints("log", 20)
    for _ in range(repetitions):
        does = {run: g.permutation(8) for run in range(4)}
        frames = [
            pd.DataFrame({"step": steps, "run": str(run), "head": head, "relation": f"r{k}", "value": values})
            for run, order in does.items()
            for head, role in enumerate(order)
            for k in range(8)
            for values in [
                0.6 * (role == k) * logistic(steps, 30 * 1.5**k * np.exp(BETWEEN * g.standard_normal()), 0.2)
                + 0.05 * g.standard_normal(20)
            ]
        ]
        roles = head_roles(pd.concat(frames).assign(probe="AttentionTo", quantity="mass", layer=0))
        planted = [does[int(run)][head] for run, head in zip(roles["run"], roles["head"], strict=True)]
        by_role = roles.assign(does=planted).groupby("role")["does"].nunique()
        right += (by_role == 1).tolist()
    return [share("heads of four runs of eight by their roles", right, 0.95, "higher")]
