"""The best checkpoint of a run, its stage, and how many stages were complete: by hand."""

import pandas as pd
import pytest

from stagewise.experiments.incremental._early_stopping import early_stop
from stagewise.findings.stages import Stages

EXCESS = {0: 3.0, 100: 1.0, 200: 0.4, 300: 0.7}


def table(trained: dict[int, float]) -> pd.DataFrame:
    loss = pd.DataFrame({"step": EXCESS.keys(), "value": EXCESS.values()}).assign(probe="Loss", quantity="excess")
    kl = pd.DataFrame({"context": trained.keys(), "value": trained.values()}).assign(
        probe="KLToReference", quantity="kl", step=200, reference="trained"
    )
    return pd.concat([loss, kl], ignore_index=True).assign(run="run")


def stages(end_hi: list[int]) -> Stages:
    rows = pd.DataFrame({"stage": range(1, 1 + len(end_hi)), "end_hi": end_hi})
    return Stages("run", rows, pd.DataFrame(), pd.DataFrame())


@pytest.mark.parametrize(("end_hi", "stage"), [([150, 300], 2), ([200, 300], 1), ([120, 180, 300], 3), ([300], 1)])
def test_the_best_step_falls_in_a_stage_the_earlier_one_at_a_boundary(end_hi: list[int], stage: int) -> None:
    best = early_stop(table({}), stages(end_hi))
    assert (best.best_step, best.best_excess, best.stage) == (200, 0.4, stage)


@pytest.mark.parametrize(
    ("trained", "completed"), [({2: 0.1, 4: 0.3, 6: 0.5}, 1), ({6: 0.1, 2: 0.3, 4: 0.5}, 3), ({}, 0)]
)
def test_the_closest_context_counts_the_completed_stages(trained: dict[int, float], completed: int) -> None:
    assert early_stop(table(trained), stages([300])).completed == completed
