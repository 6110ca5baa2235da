"""Separately trained restricted-context models as references to compare with."""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.checkpoints import run_folder
from stagewise.checkpoints._data_files import read_json
from stagewise.checkpoints.run_folder import RESTRICTED, SHARED
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.task import Batch
from stagewise.tasks.windows import window_positions, window_scored

_NUMBERS = 5 * 10**7
"""Log-probabilities of windows that are in memory at once."""


def _restricted_log_probs(series: CheckpointSeries, batch: Batch) -> Float[Tensor, "batch pos token"]:
    """Return the last restricted-context checkpoint's log-probabilities, nats; uniform ones at unscored positions."""
    context, d_vocab = series.architecture.config["n_ctx"], series.architecture.config["d_vocab"]
    model = models.unloaded(series.architecture)
    models.load(model, series.weights(series.steps[-1]))
    log_probs = torch.full((*batch.tokens.shape, d_vocab), -math.log(d_vocab))
    at_once = max(1, _NUMBERS // (batch.tokens.shape[1] * context * d_vocab))
    for rows in torch.split(torch.arange(len(batch)), at_once):
        part = batch[rows]
        positions, scored = window_positions(part, context), window_scored(part, window_positions(part, context))
        sequence = positions.sequence[:, None].expand_as(positions.position)
        predicted, _ = models.clean_pass(model, part.tokens[sequence, positions.position], hooks=())
        log_probs[rows[sequence[scored]], positions.position[scored]] = predicted[scored]
    return log_probs


def with_baselines(batch: Batch, folders: Mapping[int, Path]) -> Batch:
    """Return the batch with the trained baselines, by context, among its references as "trained c=2", ..."""
    contexts = {f"trained c={c}": c for c in folders}
    trained = {name: _restricted_log_probs(open_series(folders[c]), batch) for name, c in contexts.items()}
    return batch.with_references(trained, contexts)


def trained_baselines(folder: Path) -> dict[int, Path]:
    """Return, by context, a run folder's baselines that are trained to the end: its own, and the shared ones."""
    unshared = {int(path.name): path for path in (folder / RESTRICTED).glob("[0-9]*")}
    finished = {
        c: path for c, path in {**_linked_baselines(folder), **unshared}.items() if run_folder.is_finished(path)
    }
    return dict(sorted(finished.items()))


def _linked_baselines(folder: Path) -> dict[int, Path]:
    """Return the shared baselines that a run folder refers to, by context; none where it refers to none."""
    if not (folder / SHARED).exists():
        return {}
    links = read_json(folder / SHARED, "restore it, or delete it to compare with no baselines")
    baselines = {int(c): folder / path for c, path in links.items()}
    if missing := [str(path) for path in baselines.values() if not path.exists()]:
        raise FileNotFoundError(
            f"{folder / SHARED} refers to missing baselines: {', '.join(missing)}. Put them back, run the "
            "figure's command again, or delete that file to compare with none"
        )
    return baselines
