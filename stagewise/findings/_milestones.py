"""Milestones of models of different sizes: when the first of their heads did something."""

import dataclasses
from collections.abc import Sequence

import pandas as pd

from stagewise.event import Event
from stagewise.findings.stages import Stages
from stagewise.table import Quantities
from stagewise.words import _seeds as words


def milestones(stages: Stages) -> Stages:
    """Return stages in which one onset stands for heads that agree in all else: so other sizes are aligned."""
    onsets = stages.onsets
    if onsets.empty:
        return stages
    onsets = onsets[onsets["onset"]].sort_values("t50", kind="stable")
    ups = onsets["after"] >= onsets["before"]
    of_heads = onsets["head"].notna()
    axes = [name for name in onsets.columns[: onsets.columns.get_loc("verdict")] if name not in ("layer", "head")]
    first = onsets.assign(up=ups)[of_heads].drop_duplicates([*axes, "up"]).drop(columns="up")
    return dataclasses.replace(
        stages, onsets=pd.concat([onsets[~of_heads], first.assign(layer=0, head=0).astype(onsets.dtypes)])
    )


def names(catalogue: Sequence[Event], quantities: Quantities) -> list[str]:
    """Name the events of `milestones`."""
    return words.names(catalogue, quantities, lambda _: "the first head")
