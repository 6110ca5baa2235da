"""Checkpoints of one series compared: what they represent alike, and which subspaces their heads use."""

import concurrent.futures
from collections.abc import Sequence

import pandas as pd

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._along import Along, Seen
from stagewise.measurement._rows import measured_table
from stagewise.table import Quantity
from stagewise.task import Batch

POSITIONS = 4096
"""Scored positions that are compared, at most."""

_QUANTITIES = {
    "LinearCKA": {"alignment": Quantity("linear CKA of the residual stream", range=(None, 1))},
    "PrincipalAngles": {
        "mean_angle": Quantity("mean principal angle", "degrees", (0, 90)),
        "largest_angle": Quantity("largest principal angle", "degrees", (0, 90)),
    },
}
"""Quantities of `compare_checkpoints`, by the name that stands in the column `probe`."""


def compare_checkpoints(
    series: CheckpointSeries,
    batch: Batch,
    *,
    positions: int = POSITIONS,
    device: str = "cpu",
    executor: concurrent.futures.Executor | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Compare every checkpoint with the one before it and with the last one; return a tidy table.

    `LinearCKA`, `alignment`: of the residual stream in front of layer l, l = n_layers behind the last one, at scored
    positions; without bias, its interval leaves out groups of sequences. `PrincipalAngles`, `mean_angle` and
    `largest_angle`, degrees: between the subspaces that a head uses, the column and row spaces of W_Q W_K^T and of
    W_V W_O; without norms, biases and rotary positions. Random subspaces of d_head among many more dimensions are near
    90 degrees apart, those of d_head = d_model are always the same.

    The column `compared` says with which. Three checkpoints at most are in memory.

    Args:
        series: the checkpoints.
        batch: the fixed probe batch.
        positions: scored positions that are compared, at most, spread evenly over the batch.
        device: where to run the model.
        executor: whose workers compare a few checkpoints each; None compares here. The rows are the same.
        progress: show a bar.

    Raises:
        ValueError: no checkpoint whose weights are finite, or a batch that the models cannot read.

    Source: Kornblith et al. (2019), arXiv:1905.00414; Björck & Golub (1973); see `similarity`.
    """
    return comparisons(Along(series, batch, compared=positions, device=device).seen(executor, progress, "compared"))


def comparisons(seen: Sequence[Seen]) -> pd.DataFrame:
    """Return the table of `compare_checkpoints` from what is seen of each checkpoint."""
    return measured_table([block for one in seen for block in one.rows], _QUANTITIES)
