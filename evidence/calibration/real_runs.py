"""Real runs over seeds: boundaries against what the heads do and where KL is lowest; runs that have no stages.

`python -m evidence.calibration.real_runs [words]`: cases whose names hold all the words. Runs that `runs/real/`
lacks are
trained and measured, two at a time.
"""

import functools
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from stagewise.analysis import measure_run
from stagewise.architectures import OneHotInit
from stagewise.checkpoints.run_folder import TABLE, read_table
from stagewise.findings._from_references import nested_references
from stagewise.findings.onsets import find_onsets
from stagewise.findings.stages import Stages, find_stages
from stagewise.models.process import one_thread
from stagewise.papers.emergence._runs import recall_probes
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.emergence_times import find_emergence_times
from stagewise.papers.incremental import markov
from stagewise.probe import AbstractProbe
from stagewise.recipe import Recipe
from stagewise.table import select
from stagewise.tasks import MarkovChain
from stagewise.training import train

FOLDER = Path("runs/real")
EMERGED = 0.5
"""Accuracy that counts as emergence."""

Case = Callable[[int], tuple[Recipe, list[AbstractProbe]]]


def of_markov(seed: int, **parameters: Any) -> tuple[Recipe, list[AbstractProbe]]:
    """Return the demo's run with other parameters, and what its stages are found in."""
    recipe = markov.recipe("minimal", seed, **parameters)
    assert isinstance(recipe.task, MarkovChain)
    return recipe, markov.few_probes(recipe.task, recipe.architecture)


def of_recall(seed: int) -> tuple[Recipe, list[AbstractProbe]]:
    """Return associative recall of eight pairs among 64 tokens."""
    recipe = recall_recipe(8, 64, seed=seed)
    return recipe, recall_probes(recipe)


CASES: Mapping[str, tuple[int, Case]] = {
    "markov": (10, of_markov),
    "m = 1": (5, functools.partial(of_markov, importance=1.0)),
    "W_V = 0 and W_Q = 0": (5, functools.partial(of_markov, model={"init": OneHotInit(query_scale=0.0)})),
    "recall": (5, of_recall),
}
"""Name -> how many seeds, and the run of a seed."""


def measured(name: str, seed: int) -> pd.DataFrame:
    """Return the table of a run, trained and measured where it is not there."""
    one_thread()
    recipe, probes = CASES[name][1](seed)
    folder = FOLDER / name.replace(" ", "") / str(seed)
    if not (folder / TABLE).exists():
        train(recipe, folder, progress=False)
        measure_run(recipe, folder, probes=probes, progress=False)
    return read_table(folder)


def differences(table: pd.DataFrame, stages: Stages) -> list[dict[str, Any]]:
    """Compare each boundary with the checkpoint where its KL is lowest, and with the first head that turns next."""
    points, rows = stages.turning_points.set_index("reference"), []
    for number, reference in enumerate(nested_references(select(table, "KLToReference", "kl"))[:-1], start=1):
        kl = select(table, "KLToReference", "kl", reference=reference)
        turned = stages.events.query(f"after == 'I({number + 1})'")["first_step_after"]
        found = reference in points.index and bool(points["boundary"][reference])
        step = points["step"][reference] if found else np.nan
        width = points["hi"][reference] - points["lo"][reference] if found else np.nan
        lowest = kl["step"].to_numpy()[kl["value"].argmin()]
        head = turned.min() if len(turned) else np.nan
        rows.append({"reference": reference, "boundary": step, "width": width, "lowest": lowest, "head": head})
    return rows


def told(name: str, tables: list[pd.DataFrame]) -> list[str]:
    """Return what the runs of a case showed, a line each."""
    if name == "recall":
        return _recall(tables)
    stages = [find_stages(table) for table in tables]
    lines = [f"{name}: stages of {len(tables)} seeds: {', '.join(str(len(one)) for one in stages)}"]
    if name != "markov":
        return lines
    rows = pd.DataFrame([row for pair in zip(tables, stages, strict=True) for row in differences(*pair)])
    for reference, each in rows.groupby("reference"):
        found, lowest, head = each["boundary"], each["boundary"] - each["lowest"], each["head"] - each["boundary"]
        lines += [
            f"  {reference}: boundary found in {found.count()} of {len(each)}, at {found.median():.0f} in the median, "
            f"its interval {each['width'].median():.0f} wide",
            f"    minus the checkpoint where KL is lowest: {_spread(lowest)}",
            f"    the next head turns after it by {_spread(head)}",
        ]
    return lines


def _spread(values: pd.Series) -> str:
    return f"{values.median():+.0f} ({values.min():+.0f} to {values.max():+.0f})"


def _recall(tables: list[pd.DataFrame]) -> list[str]:
    lines = []
    for seed, table in enumerate(tables):
        time = find_emergence_times(table, "Accuracy", "accuracy", EMERGED).iloc[0]
        onsets = find_onsets(table).query("probe == 'Accuracy' and onset")
        spans = [f"{row.t50:.0f} [{row.t50_lo:.0f}, {row.t50_hi:.0f}]" for row in onsets.itertuples()]
        lines.append(
            f"recall, seed {seed}: accuracy {EMERGED} in ({time.lo:.0f}, {time.hi:.0f}]; onsets of accuracy, t50: "
            f"{', '.join(spans) or 'none'}"
        )
    return lines


def main(words: list[str]) -> None:
    """Run the cases, print what they showed, and write it beside them."""
    names = [name for name in CASES if all(word in name for word in words)]
    with ProcessPoolExecutor(2) as pool:
        jobs = {name: [pool.submit(measured, name, seed) for seed in range(CASES[name][0])] for name in names}
        lines = []
        for name, of in jobs.items():
            new = told(name, [job.result() for job in of])
            print("\n".join(new), flush=True)
            lines += new
    (FOLDER / "real_runs.json").write_text(json.dumps(lines, indent=1), encoding="utf8")


if __name__ == "__main__":
    main(sys.argv[1:])
