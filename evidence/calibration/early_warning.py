"""Early warning scored over seeds of the toy model and of recall: how early, how wide, how often right.

`python -m evidence.calibration.early_warning [words]`: cases whose names hold all the words. Runs that `runs/real/`
lacks
are trained and measured, one after the other. Seeds below those that are scored were looked at when the method and
`FORM_ERROR` were chosen.
"""

import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import TABLE, read_table
from stagewise.models.process import one_thread
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.emergence.toy_attention import run_toy_curve
from stagewise.papers.emergence_interval import emergence_interval
from stagewise.papers.forecast import Forecast, predict_onset
from stagewise.papers.theory.dynamics import solve
from stagewise.papers.theory.plateau_flow import THRESHOLD
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.probes import Accuracy, AttentionTo, Loss
from stagewise.schedules import linear
from stagewise.table import select
from stagewise.training import train

FOLDER = Path("runs/real")
PARTS = (0.2, 0.4, 0.6, 0.8)
"""Of the plateau, from whose checkpoints its end is forecast."""

TOY_SEEDS, RECALL_SEEDS = range(70, 110), range(20, 30)
FLOW = SparseAttention(64, 64)
ATTENTION, BY_FLOW = (0.25, 0.75), (0.75, 0.95)
"""Levels of attention at which a plateau ends: around a half; and around the flow's at a fifth of the loss, 0.87."""


class Plateau(NamedTuple):
    """Readings of a run, and the step at which its plateau ended."""

    readings: pd.DataFrame
    end: float


class Case(NamedTuple):
    """What is forecast from what: the plateaus of the scored seeds, and the arguments of `predict_onset`."""

    plateau: Callable[[int], Plateau | None]
    seeds: range
    how: Mapping[str, Any]


def toy(weights: Literal["zero", "random"], seed: int) -> Plateau:
    """Return the attention of the toy model, T = d = 64; its plateau ends at a fifth of the first loss."""
    path = FOLDER / f"toy-{weights}" / f"{seed}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run_toy_curve(64, 64, seed, 1100, 10, weights)), encoding="utf8")
    curve = json.loads(path.read_text(encoding="utf8"))
    ended = np.array(curve["losses"]) <= 2 * THRESHOLD * curve["losses"][0]
    readings = pd.DataFrame({"step": curve["steps"], "value": curve["attention"]})
    return Plateau(readings, float(curve["steps"][int(ended.argmax())]))


def recall(probe: str, quantity: str, seed: int) -> Plateau | None:
    """Return a reading of recall of 8 pairs among 64 tokens, the largest of any head; None where nothing emerged.

    Its plateau ends at an accuracy of a half.
    """
    table = recall_table(seed)
    accuracy = select(table, "Accuracy", "accuracy")
    time = emergence_interval(accuracy["step"].to_numpy(), accuracy["value"].to_numpy(), 0.5)
    rows = select(table, probe, quantity)
    if "relation" in rows and rows["relation"].notna().any():
        rows = rows[rows["relation"] == "query to value"]
    readings = rows.groupby("step")["value"].max().reset_index()
    return None if time.censored else Plateau(readings, (time.lo + time.hi) / 2)


@functools.cache
def recall_table(seed: int) -> pd.DataFrame:
    """Return the table of a recall run with a checkpoint every 25 steps, trained where it is not there."""
    recipe = recall_recipe(8, 64, seed=seed)
    plan = dataclasses.replace(recipe.plan, save=linear(25, recipe.plan.steps))
    recipe, folder = dataclasses.replace(recipe, plan=plan), FOLDER / "recall-plateau" / str(seed)
    if not (folder / TABLE).exists():
        train(recipe, folder, progress=False)
        measure_run(recipe, folder, probes=[Accuracy(), Loss(), AttentionTo()], progress=False)
    return read_table(folder)


def cases() -> dict[str, Case]:
    """Return every case by its name."""
    by_flow = {"level": BY_FLOW, "theory": solve(FLOW, range(0, 950, 5))}
    growing, exponential = {"level": ATTENTION}, {"level": ATTENTION, "growth": "exponential"}
    loss = {"level": (1.0, 3.0), "growth": "exponential", "direction": "down", "since": 100}
    zero, random = (functools.partial(toy, weights) for weights in ("zero", "random"))
    return {
        "toy, W = 0: theory": Case(zero, TOY_SEEDS, by_flow),
        "toy, random W: theory": Case(random, TOY_SEEDS, by_flow),
        "toy, W = 0: attention": Case(zero, TOY_SEEDS, growing),
        "toy, random W: attention": Case(random, TOY_SEEDS, growing),
        "toy, random W: exponential": Case(random, TOY_SEEDS, exponential),
        "recall: attention": Case(functools.partial(recall, "AttentionTo", "mass"), RECALL_SEEDS, growing),
        "recall: exponential": Case(functools.partial(recall, "AttentionTo", "mass"), RECALL_SEEDS, exponential),
        "recall: loss": Case(functools.partial(recall, "Loss", "cross_entropy"), RECALL_SEEDS, loss),
    }  # fmt: skip


def scored(case: Case) -> Iterator[str]:
    """Yield a row of the table a part of the plateau; steps are over those of the plateau."""
    plateaus = [one for seed in case.seeds if (one := case.plateau(seed)) is not None]
    for part in PARTS:
        forecasts = [(predict_onset(one.readings, until=part * one.end, **case.how), one.end) for one in plateaus]
        yield f"{part:g} | {_counted(forecasts)}"


def _counted(forecasts: list[tuple[Forecast, float]]) -> str:
    step, lo, hi = np.array([(each.step / end, each.lo / end, each.hi / end) for each, end in forecasts]).T
    least, middle, most = np.quantile(step, (0.1, 0.5, 0.9), method="nearest")
    covered = int(((lo <= 1) & (hi >= 1)).sum())
    width = np.quantile(hi, 0.5, method="nearest") - np.quantile(lo, 0.5, method="nearest")
    return f"{middle:.2f} ({least:.2f} to {most:.2f}) | {width:.2f} | {covered} of {len(forecasts)}"


def main(words: list[str]) -> None:
    """Run the cases and print the table."""
    one_thread()
    print("| forecast from | share of the plateau seen | forecast over true step | width of the interval | covers |")
    print("| --- | --- | --- | --- | --- |")
    for name, case in cases().items():
        if all(word in name for word in words):
            for row in scored(case):
                print(f"| {name} | {row} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
