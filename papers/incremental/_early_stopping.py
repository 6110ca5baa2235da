"""Early stopping as a result: where the held-out loss is lowest, and how many stages were complete by then."""

from typing import NamedTuple

import pandas as pd

from stagewise.table import select


class _EarlyStop(NamedTuple):
    """The best checkpoint of a run.

    Args:
        best_step: optimiser step of the lowest excess loss on the probe batch, which never trains.
        best_excess: that loss, nats above the full reference's.
        completed: which restricted-context model is closest then: 1 for the smallest context, 2 for the next, ...;
            0 where the table has none.
    """

    best_step: int
    best_excess: float
    completed: int


def early_stop(table: pd.DataFrame) -> _EarlyStop:
    """Return the best checkpoint of a run.

    Args:
        table: with the rows of `Loss`, and of `KLToReference` to models trained on a restricted context where there are
            any.

    Raises:
        ValueError: the table has no excess loss.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 5: fewer data, fewer completed stages.
    """
    excess = select(table, "Loss", "excess")
    steps, values = excess["step"].to_numpy(), excess["value"].to_numpy()
    best = int(steps[values.argmin()])
    return _EarlyStop(best, float(values.min()), _closest(table, best))


def _closest(table: pd.DataFrame, step: int) -> int:
    kl = table[(table["probe"] == "KLToReference") & (table["quantity"] == "kl") & (table["step"] == step)]
    trained = kl.dropna(subset="context").sort_values("context", ignore_index=True) if "context" in kl else kl.iloc[:0]
    return 0 if trained.empty else 1 + int(trained["value"].argmin())
