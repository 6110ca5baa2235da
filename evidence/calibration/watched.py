"""Forecasts that `stagewise watch` tells, scored: every look at runs whose ends are known.

`python -m evidence.calibration.watched FOLDER 10 15 MarkovChain` trains the presets of tasks with seeds 10 to 14,
and asks at
each checkpoint. What is there in the folder is not trained again. The rule was chosen on seeds 0 to 2 of the demo.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from stagewise import tasks
from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import TABLE, read_table
from stagewise.findings.delays import arrivals
from stagewise.findings.early_warning import foretell
from stagewise.models._process import one_thread
from stagewise.presets import recipe_for
from stagewise.probes import AttentionTo, Loss
from stagewise.training import train


def measured(folder: Path, task: str, seed: int) -> pd.DataFrame:
    """Return the table of a preset's run, trained and measured where it is not there."""
    recipe = recipe_for(getattr(tasks, task), seed=seed)
    if not (folder / TABLE).exists():
        train(recipe, folder, progress=False)
        measure_run(recipe, folder, probes=[AttentionTo(), Loss()], progress=False)
    return read_table(folder)


def looks(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a forecast at each checkpoint of a run, with when its relation `comes`: never is infinite."""
    comes = {each.what.removeprefix("attention to "): each.comes for each in arrivals(table)}
    rows = [
        {"relation": each.relation, **each.forecast._asdict(), "comes": comes.get(each.relation, np.inf)}
        for last in np.sort(table["step"].unique())
        for each in foretell(table[table["step"] <= last])
    ]
    return pd.DataFrame(rows, columns=["relation", "until", "step", "lo", "hi", "comes"])


def main(folder: Path, seeds: range, names: Sequence[str]) -> None:
    """Print each relation's first forecast and how many are right, then how many are over all runs."""
    told = []
    for name in names:
        for seed in seeds:
            table = measured(folder / f"{name}-{seed}", name, seed)
            rows = looks(table).assign(run=f"{name} {seed}", task=name)
            # A relation that never comes is too early where it was to come within the run, else not decided.
            rows["right"] = rows["comes"].between(rows["lo"], rows["hi"])
            rows["decided"] = (rows["comes"] < np.inf) | (rows["hi"] < table["step"].max())
            for relation, of in rows.groupby("relation"):
                until, step, lo, hi, comes = of[["until", "step", "lo", "hi", "comes"]].iloc[0].tolist()
                words = f"from {until:.0f}: {step:.0f} [{lo:.0f}, {hi:.0f}], comes {comes:.0f}"
                print(f"{name} {seed} | {relation} | {words} | {of['right'].sum()} of {len(of)}", flush=True)
            told.append(rows)
    for task, of_task in pd.concat(told).groupby("task"):
        decided = of_task[of_task["decided"]]
        first = decided.drop_duplicates(["run", "relation"])
        print(
            f"{task} | {of_task['run'].nunique()} of {len(seeds)} runs foretold | first {first['right'].sum()} of "
            f"{len(first)} right | all {decided['right'].sum()} of {len(decided)} | "
            f"{len(of_task) - len(decided)} not decided"
        )


if __name__ == "__main__":
    one_thread()
    main(Path(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3])), sys.argv[4:])
