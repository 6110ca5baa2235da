"""What stagewise told of a run, as events: read from the frames of `Stages`, never from its sentences."""

import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stagewise import Stages

SPIKE, DIVERGED, OVERFITTING, GROKKING = "spike", "diverges", "overfits", "groks"
CAUSE = "cause"
KINDS = frozenset({SPIKE, DIVERGED, OVERFITTING, GROKKING, CAUSE})
"""What is told of a run beside its transitions: kinds of episodes, and that something was done to the run."""

LOSSES = re.compile("loss|perplexity|ppl|cross_entropy|error", re.IGNORECASE)
"""Curves that are better the lower they are; of all others that are judged it is the other way round."""

JUDGED = "Logged", "Loss", "Accuracy", "AttentionTo", "Copying"
"""Probes whose curves show whether something is gained or lost."""

PART = 1 / 3
"""A head is named in a transition where it changes by this part of the largest change of a head, at least."""


class Told(NamedTuple):
    """A transition that was told: its interval, its heads, whether something was lost, and what was done then."""

    lo: float
    hi: float
    heads: frozenset[str]
    lost: bool
    cause: bool


def transitions(stages: Stages) -> list[Told]:
    """Return the transitions, in their order."""
    return [_transition(stages, row) for row in stages.table.iloc[1:].to_dict("records")]


def kinds(stages: Stages) -> frozenset[str]:
    """Return what else was told: the episodes, and whether what was done to the run explains any curve."""
    told = set(stages.episodes["kind"]) if len(stages.episodes) else set()
    if len(stages.onsets) and stages.onsets["cause"].ne("").any():
        told.add(CAUSE)
    return frozenset(told)


def _transition(stages: Stages, row: dict[Any, Any]) -> Told:
    onsets = stages.onsets
    mine = onsets[onsets["starts_stage"].eq(row["stage"]).fillna(False).astype(bool)] if len(onsets) else onsets
    points = stages.turning_points
    of_point = points["cause"].ne("") & points["reference"].eq(row["left"]) & bool(row["left"])
    cause = bool(of_point.any()) or (len(mine) > 0 and bool(mine["cause"].ne("").any()))
    heads = frozenset(_heads(mine)) | frozenset(_events(stages, row))
    return Told(float(row["start_lo"]), float(row["start_hi"]), heads, _lost(mine), cause)


def _heads(onsets: pd.DataFrame) -> list[str]:
    """Return the heads whose attention, or whose effect, changes by enough of the largest such change."""
    if not len(onsets) or "head" not in onsets:
        return []
    rows = onsets[onsets["head"].notna()]
    moved = (rows["after"] - rows["before"]).abs()
    large = rows[moved >= PART * moved.groupby(rows["quantity"]).transform("max")]
    return [f"L{layer}H{head}" for layer, head in zip(large["layer"], large["head"], strict=True)]


def _events(stages: Stages, row: dict[Any, Any]) -> list[str]:
    events, begins = stages.events, [*stages.table["begins"], np.inf]
    if not len(events):
        return []
    number = int(row["stage"])
    step = events["first_step_after"]
    during = events[step.gt(begins[number - 1]) & step.le(begins[number])]
    return [f"L{layer}H{head}" for layer, head in zip(during["layer"], during["head"], strict=True)]


def _lost(onsets: pd.DataFrame) -> bool:
    """Whether most curves of the whole model, or of heads where there are none, go the worse way: down, but for losses.

    A head that attends less to something is no loss of a model that gets better meanwhile.
    """
    judged = onsets[onsets["probe"].isin(JUDGED)] if len(onsets) else onsets
    whole = judged[judged["head"].isna()] if len(judged) else judged
    ways = []
    for row in (whole if len(whole) else judged).to_dict("records"):
        better = -1 if LOSSES.search(row["quantity"]) else 1
        ways.append(better * np.sign(row["after"] - row["before"]))
    return bool(len(ways) and np.mean(ways) < 0)
