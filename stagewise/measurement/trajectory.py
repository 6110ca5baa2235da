"""Checkpoints of a series compared: what they represent alike, and the way of the run in a few directions."""

import concurrent.futures
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._along import Along, Seen
from stagewise.measurement._rows import checkpoint_labels, measured_table
from stagewise.table import Quantity
from stagewise.task import Batch

POSITIONS = 4096
"""Scored positions that are compared, at most."""

_COMPARED = {
    "LinearCKA": {"alignment": Quantity("linear CKA of the residual stream", range=(None, 1))},
}
"""Quantities of `compare_checkpoints`, by the name that stands in the column `probe`."""

_NUMBERS = 5 * 10**7
"""Numbers of all checkpoints together that are in memory at once."""

_COMPONENTS = 3

_QUANTITIES = {
    "Trajectory": {
        "position": Quantity("position on a principal component"),
        "explained": Quantity("share of the variance of the run", range=(0, 1)),
    }
}
"""Quantities of `measure_trajectory`, by the name that stands in the column `probe`."""


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
    positions; without bias, its interval leaves out groups of sequences. The column `compared` says with which. Three
    checkpoints at most are in memory.

    Args:
        series: the checkpoints.
        batch: the fixed probe batch.
        positions: scored positions that are compared, at most, spread evenly over the batch.
        device: where to run the model.
        executor: whose workers compare a few checkpoints each; None compares here. The rows are the same.
        progress: show a bar.

    Raises:
        ValueError: no checkpoint whose weights are finite, or a batch that the models cannot read.

    Source: Kornblith et al. (2019), arXiv:1905.00414; see `_along`.
    """
    return _comparisons(Along(series, batch, compared=positions, device=device).seen(executor, progress, "compared"))


def _comparisons(seen: Sequence[Seen]) -> pd.DataFrame:
    """Return the table of `compare_checkpoints` from what is seen of each checkpoint."""
    return measured_table([block for one in seen for block in one.rows], _COMPARED)


def measure_trajectory(
    series: CheckpointSeries,
    batch: Batch | None = None,
    *,
    components: int = _COMPONENTS,
    device: str = "cpu",
    executor: concurrent.futures.Executor | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Return where each checkpoint lies on the first principal components of all checkpoints, as a tidy table.

    With a batch, of the predictions at its scored positions: log-probabilities (nats), or the outputs of a regression.
    Without one, of the weights. `position` by `component`, "PC1" first: distances are Euclidean, of weights, or of the
    predictions of a position, the root of the mean square over positions. `explained`, the share of the variance, is of
    the whole run and stands at its last step. The sign is such that a run ends at the larger number. Checkpoints count
    alike: where they are dense in time they weigh more.

    Few components explain much of any smooth way. A random walk has 61 %, 15 % and 7 % of its variance on the first
    three, and cosine waves of a half, a whole and three halves of a period there (Antognini & Sohl-Dickstein 2018):
    turns alone are no stages.

    Args:
        series: the checkpoints; those that hold nan or infinity are left out with a warning.
        batch: the fixed probe batch; where its predictions are more than `_NUMBERS` in all, some scored positions.
        components: how many, at most; there are fewer than checkpoints.
        device: where to run the model.
        executor: whose workers read a few checkpoints each; None reads them here. The numbers are the same.
        progress: show a bar.

    Raises:
        ValueError: less than two checkpoints with finite weights, or less than one component.

    Source: Hoogland et al. (2024), Loss Landscape Degeneracy Drives Stagewise Development in Transformers,
    arXiv:2402.02364, the principal components of the trajectory; Antognini & Sohl-Dickstein (2018), PCA of high
    dimensional random walks with comparison to neural network training, arXiv:1806.08805. Deviation: log-probabilities
    in place of logits; weights beyond `_NUMBERS` are sketched, which changes squared distances by a few per cent.
    """
    if components < 1:
        raise ValueError(f"a trajectory is seen in at least one component, got {components}")
    along = Along(series, batch, placed=_NUMBERS, device=device)
    return _placed(series, along.seen(executor, progress, "trajectory"), components)


def compare_on_trajectory(
    series: CheckpointSeries,
    batch: Batch,
    *,
    device: str = "cpu",
    executor: concurrent.futures.Executor | None = None,
    progress: bool = True,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of `compare_checkpoints` and of `measure_trajectory`; each checkpoint is read once for both."""
    along = Along(series, batch, POSITIONS, _NUMBERS, device)
    seen = along.seen(executor, progress, "compared")
    return _comparisons(seen), _placed(series, seen, _COMPONENTS)


def _placed(series: CheckpointSeries, seen: Sequence[Seen], components: int) -> pd.DataFrame:
    if len(seen) < 2:
        raise ValueError(f"a trajectory is of two checkpoints or more, {series.name!r} has {len(seen)} to read")
    steps = [one.step for one in seen]
    positions, explained = _principal_components(np.stack([one.place for one in seen]), components)
    names = [f"PC{number}" for number in range(1, positions.shape[1] + 1)]
    quantity = {"probe": "Trajectory", "component": names}
    blocks = [
        {**checkpoint_labels(series, step), **quantity, "quantity": "position", "value": row}
        for step, row in zip(steps, positions, strict=True)
    ]
    blocks.append({**checkpoint_labels(series, steps[-1]), **quantity, "quantity": "explained", "value": explained})
    return measured_table(blocks, _QUANTITIES)


def _principal_components(
    vectors: Float[np.ndarray, "checkpoint number"], components: int
) -> tuple[Float[np.ndarray, "checkpoint component"], Float[np.ndarray, " component"]]:
    """Return the positions of vectors on their first principal components, and the share of variance of each."""
    centred = vectors.astype(float) - vectors.mean(0, dtype=float)
    squares, directions = np.linalg.eigh(centred @ centred.T)  # of few checkpoints, not of their many numbers
    squares, directions = squares[::-1].clip(min=0), directions[:, ::-1]
    number = min(components, len(vectors) - 1)
    positions = directions[:, :number] * np.sqrt(squares[:number])
    positions = positions * np.where(positions[-1] < positions[0], -1.0, 1.0)
    return positions, squares[:number] / max(squares.sum(), np.finfo(float).tiny)
