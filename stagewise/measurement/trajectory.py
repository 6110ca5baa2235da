"""The way of a whole run, seen in the few directions in which its checkpoints differ most."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Float
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints._sketches import project
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement._inputs import check_batch, check_series, finite_states
from stagewise.measurement._positions import Positions
from stagewise.measurement._rows import checkpoint_labels, measured_table
from stagewise.table import Quantity
from stagewise.task import Batch

_NUMBERS = 5 * 10**7
"""Numbers of all checkpoints together that are in memory at once."""

_QUANTITIES = {
    "Trajectory": {
        "position": Quantity("position on a principal component"),
        "explained": Quantity("share of the variance of the run", range=(0, 1)),
    },
}
"""Quantities of `measure_trajectory`, by the name that stands in the column `probe`."""


def measure_trajectory(
    series: CheckpointSeries,
    batch: Batch | None = None,
    *,
    components: int = 3,
    device: str = "cpu",
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
        progress: show a bar.

    Raises:
        ValueError: less than two checkpoints with finite weights, or less than one component.

    Source: Hoogland et al. (2024), Loss Landscape Degeneracy Drives Stagewise Development in Transformers,
    arXiv:2402.02364, the principal components of the trajectory; Antognini & Sohl-Dickstein (2018), PCA of high
    dimensional random walks with comparison to neural network training, arXiv:1806.08805. Deviation: log-probabilities
    in place of logits; weights beyond `_NUMBERS` are sketched, which changes squared distances by a few per cent.
    """
    check_series(series)
    if components < 1:
        raise ValueError(f"a trajectory is seen in at least one component, got {components}")
    found = list(_in_weights(series, progress) if batch is None else _in_predictions(series, batch, device, progress))
    if len(found) < 2:
        raise ValueError(f"a trajectory is of two checkpoints or more, {series.name!r} has {len(found)} to read")
    steps, vectors = zip(*found, strict=True)
    positions, explained = _principal_components(np.stack(vectors), components)
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
    """Return the positions of vectors on their first principal components, and the share of variance of each.

    >>> positions, explained = _principal_components(np.array([[0.0, 0.0], [3.0, 4.0]]), 3)
    >>> positions.round(6).tolist(), explained.tolist()
    ([[-2.5], [2.5]], [1.0])
    """
    centred = vectors.astype(float) - vectors.mean(0, dtype=float)
    squares, directions = np.linalg.eigh(centred @ centred.T)  # of few checkpoints, not of their many numbers
    squares, directions = squares[::-1].clip(min=0), directions[:, ::-1]
    number = min(components, len(vectors) - 1)
    positions = directions[:, :number] * np.sqrt(squares[:number])
    positions = positions * np.where(positions[-1] < positions[0], -1.0, 1.0)
    return positions, squares[:number] / max(squares.sum(), np.finfo(float).tiny)


def _in_predictions(
    series: CheckpointSeries, batch: Batch, device: str, progress: bool
) -> Iterator[tuple[int, Float[np.ndarray, " number"]]]:
    check_batch(batch, series.architecture, (), f"the series {series.name}")
    chosen = Positions.of(batch, max(1, _NUMBERS // (series.architecture.n_outputs * len(series))))
    model = models.unloaded(series.architecture, device=device)
    for step, state in _finite(series, progress):
        models.load(model, state)
        predictions, _ = chosen.read(model, series.architecture, batch)
        yield step, predictions.flatten().numpy() / len(chosen) ** 0.5


def _in_weights(series: CheckpointSeries, progress: bool) -> Iterator[tuple[int, Float[np.ndarray, " number"]]]:
    for step, state in _finite(series, progress):
        weights = models.without_constants(state)
        flat = [weights[name].float().flatten().cpu() for name in sorted(weights) if weights[name].is_floating_point()]
        many = sum(map(len, flat)) * len(series) > _NUMBERS
        yield step, np.concatenate([project(each) if many else each.numpy() for each in flat])


def _finite(series: CheckpointSeries, progress: bool) -> Iterator[tuple[int, State]]:
    bar = tqdm(series, disable=not progress, desc=f"{series.name}: trajectory", unit="checkpoint")
    return finite_states(series, bar)
