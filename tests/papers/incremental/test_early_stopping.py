"""The best checkpoint of a run, and how many stages were complete: by hand."""

import pandas as pd
import pytest

from stagewise.papers.incremental._early_stopping import early_stop

EXCESS = {0: 3.0, 100: 1.0, 200: 0.4, 300: 0.7}


def table(trained: dict[int, float]) -> pd.DataFrame:
    loss = pd.DataFrame({"step": EXCESS.keys(), "value": EXCESS.values()}).assign(probe="Loss", quantity="excess")
    kl = pd.DataFrame({"context": trained.keys(), "value": trained.values()}).assign(
        probe="KLToReference", quantity="kl", step=200, reference="trained"
    )
    return pd.concat([loss, kl], ignore_index=True).assign(run="run")


def test_the_best_step_is_that_of_the_lowest_excess() -> None:
    best = early_stop(table({}))
    assert (best.best_step, best.best_excess) == (200, 0.4)


@pytest.mark.parametrize(
    ("trained", "completed"), [({2: 0.1, 4: 0.3, 6: 0.5}, 1), ({6: 0.1, 2: 0.3, 4: 0.5}, 3), ({}, 0)]
)
def test_the_closest_context_counts_the_completed_stages(trained: dict[int, float], completed: int) -> None:
    assert early_stop(table(trained)).completed == completed
