"""How often a transition of a rare class of predictions is found, and how often one of noise: `LossByToken`.

`python -m evidence.calibration.hidden [PLANTED [NULLS]]` prints both, of so many tables a spacing. A table has the
mean loss and
the losses of twenty classes, smooth curves with correlated noise; in a planted one one class, of a share so small that
the mean hides it, falls by two nats at a time of its own.
"""

import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd

from evidence.calibration.cases import SMOOTH, checkpoints, correlated, logistic
from stagewise import answer
from stagewise.findings.stages import Stages, find_stages
from stagewise.probes import Loss, LossByToken
from stagewise.table import declare, tidy

CLASSES, NUMBER, SHARE, SIZE = 20, 60, 0.02, 2.0
"""Classes of predictions, checkpoints, the part of a rare class, and how far its loss falls, nats."""


def planted(seed: int, spacing: str, *, rare: bool) -> tuple[pd.DataFrame, float]:
    """Return the table of a run, and the step at which its rare class is half-way, if it has one."""
    g = np.random.default_rng(seed)
    steps = checkpoints(spacing, NUMBER)
    at = float(np.interp(g.uniform(0.3, 0.7) * NUMBER, np.arange(NUMBER), steps))
    shapes = [SMOOTH[name](g, steps) for name in g.choice([*SMOOTH], CLASSES)]
    noise = [correlated(g, NUMBER, g.choice([0.0, 0.5, 0.9]), 0.03) for _ in shapes]
    curves = np.array([4 - g.uniform(0.5, 2) * shape for shape in shapes]) + noise
    curves[0] -= rare * SIZE * logistic(steps, at, 0.15)
    shares = np.array([SHARE, *[(1 - SHARE) / (CLASSES - 1)] * (CLASSES - 1)])
    names = [f"of token {token}" for token in range(CLASSES)]
    blocks = [_rows(steps, shares @ curves, "Loss", None)]
    blocks += [_rows(steps, curve, "LossByToken", name) for curve, name in zip(curves, names, strict=True)]
    table = tidy(blocks)
    declare(table, {"Loss": Loss.quantities, "LossByToken": LossByToken.quantities})
    return table, at


def _rows(steps: np.ndarray, values: np.ndarray, probe: str, name: str | None) -> pd.DataFrame:
    same = {"run": "planted", "probe": probe, "quantity": "cross_entropy", "predictions": name}
    return pd.DataFrame({**same, "step": steps.astype(int), "value": values})


def found(stages: Stages) -> Iterator[tuple[str, float, float]]:
    """Yield the class and the interval of each hidden transition."""
    of_classes = stages.onsets[stages.onsets["onset"] & (stages.onsets["probe"] == "LossByToken")]
    for row in of_classes.to_dict("records"):
        yield row["predictions"], row["t50_lo"], row["t50_hi"]


def main(repetitions: int, tables: int) -> None:
    """Print the part of null tables with any, and of planted tables whose class is found at its time."""
    for spacing in ("lin", "log"):
        nulls = [any(True for _ in found(find_stages(planted(seed, spacing, rare=False)[0]))) for seed in range(tables)]
        print(f"{spacing}: of {tables} nulls {sum(nulls)} have an onset", flush=True)
        hit = told = others = 0
        for seed in range(repetitions):
            table, at = planted(seed, spacing, rare=True)
            onsets = [*found(stages := find_stages(table))]
            hit += any(name == "of token 0" and lo <= at <= hi for name, lo, hi in onsets)
            others += any(name != "of token 0" for name, *_ in onsets)
            told += "with no onset of the mean loss, predictions of token 0" in " ".join(answer(stages))
        print(
            f"{spacing}: of {repetitions} planted {hit} found within the interval, {told} told as hidden, {others} "
            "with another class",
            flush=True,
        )


if __name__ == "__main__":
    given = [*map(int, sys.argv[1:])] or [50]
    main(given[0], given[-1])
