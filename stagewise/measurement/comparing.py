"""Checkpoints of one series compared: what they represent alike, and which subspaces their heads use."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import Circuits, residual_hooks_of
from stagewise.checkpoints._weight_files import not_finite
from stagewise.checkpoints.series import CheckpointSeries, State
from stagewise.measurement._inputs import check_batch, check_series, finite_states
from stagewise.measurement._positions import Positions
from stagewise.measurement._rows import checkpoint_labels, measured_table
from stagewise.measurement._similarity import linear_cka, principal_angles
from stagewise.models import Model
from stagewise.table import Columns, Quantity
from stagewise.task import Batch

_SUBSPACES = "QK queries", "QK keys", "OV reads", "OV writes"
"""Subspaces that a head uses: column and row space of W_Q W_K^T, column and row space of W_V W_O."""

_GROUPS = 20
"""Groups of sequences, one of which at a time is left out for an interval."""

_QUANTITIES = {
    "LinearCKA": {"alignment": Quantity("linear CKA of the residual stream", range=(None, 1))},
    "PrincipalAngles": {
        "mean_angle": Quantity("mean principal angle", "degrees", (0, 90)),
        "largest_angle": Quantity("largest principal angle", "degrees", (0, 90)),
    },
}
"""Quantities of `compare_checkpoints`, by the name that stands in the column `probe`."""

_Subspaces = dict[tuple[int, int, str], np.ndarray]
"""Layer, head and name of a subspace -> an orthonormal basis of it, [model dimension]."""


class _Represented(NamedTuple):
    """The compared parts of a checkpoint: the residual stream at the chosen positions, and the heads' subspaces."""

    streams: Float[Tensor, "layer position model"]
    subspaces: _Subspaces


def compare_checkpoints(
    series: CheckpointSeries, batch: Batch, *, positions: int = 4096, device: str = "cpu", progress: bool = True
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
        progress: show a bar.

    Raises:
        ValueError: no checkpoint whose weights are finite, or a batch that the models cannot read.

    Source: Kornblith et al. (2019), arXiv:1905.00414; Björck & Golub (1973); see `similarity`.
    """
    check_series(series)
    check_batch(batch, series.architecture, (), f"the series {series.name}")
    chosen = Positions.of(batch, positions)
    model = models.unloaded(series.architecture, device=device)
    end = _last_finite(series)
    previous, last = None, _represented(model, series.architecture, series.load(end), batch, chosen)
    blocks = list[Columns]()
    bar = tqdm(series, disable=not progress, desc=f"{series.name}: compared", unit="checkpoint")
    for step, state in finite_states(series, bar):
        current = _represented(model, series.architecture, state, batch, chosen)
        for compared, other in (("previous checkpoint", previous), ("last checkpoint", last)):
            if other is not None:
                labels = {**checkpoint_labels(series, step), "compared": compared}
                blocks += [
                    {**labels, **block}
                    for block in (*_alignments(current, other, chosen.sequence), *_angles(current, other))
                ]
        previous = current
    return measured_table(blocks, _QUANTITIES)


def _last_finite(series: CheckpointSeries) -> int:
    """Return the last step whose weights are finite."""
    for step in reversed(series.steps):
        if not not_finite(series.load(step)):
            return step
    raise ValueError(f"all checkpoints of {series.name!r} hold nan or infinity: there is nothing to compare")


def _represented(
    model: Model, architecture: Architecture, state: State, batch: Batch, chosen: Positions
) -> _Represented:
    models.load(model, state)
    _, streams = chosen.read(model, architecture, batch, residual_hooks_of(architecture.n_layers))
    return _Represented(torch.stack(list(streams.values())), _subspaces(models.circuits(model)))


def _subspaces(circuits: Circuits) -> _Subspaces:
    """Return a basis of each subspace that the heads use; a matrix of zeros has none."""
    found: _Subspaces = {}
    for matrices, names in ((circuits.QK, _SUBSPACES[:2]), (circuits.OV, _SUBSPACES[2:])):
        U, S, V = (part.detach().cpu() for part in matrices.svd())
        ranks = (S / S[..., :1] > torch.finfo(S.dtype).eps * U.shape[-2]).sum(-1)  # 0 / 0 is not larger
        for layer, head in np.ndindex(*ranks.shape):
            for name, basis in zip(names, (U, V), strict=True):
                if rank := int(ranks[layer, head]):
                    found[layer, head, name] = basis[layer, head, :, :rank].double().numpy()
    return found


def _alignments(one: _Represented, other: _Represented, sequence: Tensor) -> Iterator[Columns]:
    """Yield the rows of the residual stream of each layer; none where it does not vary."""
    n = int(sequence.max()) + 1
    group = sequence.cpu() * min(_GROUPS, n) // n
    for layer, streams in enumerate(zip(one.streams, other.streams, strict=True)):
        if (estimate := linear_cka(*streams, group)) is not None:
            value, lo, hi = estimate
            numbers = {"value": [value], "lo": [lo], "hi": [hi], "n": [n]}
            yield {"probe": "LinearCKA", "quantity": "alignment", "layer": layer, **numbers}


def _angles(one: _Represented, other: _Represented) -> Iterator[Columns]:
    """Yield the rows of the subspaces that both have."""
    both = [key for key in one.subspaces if key in other.subspaces]
    angles = [principal_angles(one.subspaces[key], other.subspaces[key]) for key in both]
    layer, head, subspace = (list(part) for part in zip(*both, strict=True)) if both else ([], [], [])
    axes = {"probe": "PrincipalAngles", "layer": layer, "head": head, "subspace": subspace}
    for quantity, values in (("mean_angle", [a.mean() for a in angles]), ("largest_angle", [a.max() for a in angles])):
        yield {**axes, "quantity": quantity, "value": values}
