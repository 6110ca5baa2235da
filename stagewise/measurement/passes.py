"""The passes of one checkpoint: the batch in slices that fit into a budget of memory, each edit reduced at once."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.intervention import Edit
from stagewise.loss import ScoredPredictions
from stagewise.models import Model
from stagewise.models.edits import Replacement
from stagewise.models.lean import LeanPass
from stagewise.models.lean_weights import LeanWeights
from stagewise.probe import EditedPass
from stagewise.task import Batch

ENOUGH = 2**29
"""Bytes beyond which a larger slice makes nothing faster."""

BLOCK = 2**24
"""Bytes of logits that are unembedded at once."""


def default_memory(device: str | torch.device = "cpu") -> int:
    """Return a quarter of the memory that is free, in bytes, half a gigabyte at most."""
    if torch.device(device).type == "cuda":
        return min(ENOUGH, torch.cuda.mem_get_info(device)[0] // 4)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4 * ENOUGH
    return min(ENOUGH, free // 4)


def slices(batch: Batch, architecture: Architecture, memory: int) -> list[Batch]:
    """Cut the batch into slices of about equal size, each of which takes at most `memory` bytes, or is one sequence."""
    needed = len(batch) * _bytes(batch, architecture)
    number = min(len(batch), max(1, -(-needed // memory)))
    edges = [len(batch) * k // number for k in range(number + 1)]
    return [batch[start:stop] for start, stop in itertools.pairwise(edges)] if number > 1 else [batch]


def _bytes(batch: Batch, architecture: Architecture) -> int:
    """Estimate the bytes that one sequence takes at most: predictions, attention, and the residual stream."""
    length, config = batch.tokens.shape[1], architecture.config
    outputs = int(config.get("d_vocab_out") or config["d_vocab"])
    attention = 4 * architecture.n_layers * architecture.n_heads * length
    stream = (3 * architecture.n_layers + 16) * int(config["d_model"])
    return 4 * length * (4 * outputs + attention + stream)


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """One checkpoint's passes on one slice.

    Args:
        model: with the checkpoint's weights.
        batch: the slice.
        log_probs: of the clean pass.
        activations: of the clean pass.
        replacement: what ablated heads' outputs are replaced by.
        weights: for the lean pass; None takes hooks.
    """

    model: Model
    batch: Batch
    log_probs: Float[Tensor, "batch pos token"]
    activations: Mapping[str, Tensor]
    replacement: Replacement
    weights: LeanWeights | None

    def edited(self, edits: Iterable[Edit]) -> "OnDemand":
        """Return the edited passes, each run and reduced when it is asked for, and once."""
        clean = ScoredPredictions.of(self.log_probs, self.batch.targets, self.batch.scored)
        passes = (
            LeanPass(self.weights, self.activations, self.batch.scored, self.replacement)
            if self.weights is not None
            else None
        )

        def reduced(edit: Edit) -> EditedPass:
            with torch.inference_mode():
                loss, kl = clean.compare(self._blocks(passes, edit))
            return EditedPass(loss, kl, partial(self._predictions, passes, edit))

        return OnDemand(dict.fromkeys(edits), reduced)

    def _blocks(self, passes: LeanPass | None, edit: Edit) -> Iterator[Float[Tensor, "row token"]]:
        """Yield what the edited pass predicts at the scored positions, a block of rows at a time."""
        if passes is None:
            predictions = models.edited_pass(
                self.model, edit, self.activations, regression=self.batch.is_regression, replacement=self.replacement
            )
            yield predictions[self.batch.scored]
            return
        residual = passes.residual(edit)
        rows = max(1, BLOCK // (4 * passes.weights.W_U.shape[1]))
        for start in range(0, len(residual), rows):
            yield passes.weights.unembedded(residual[start : start + rows])

    def _predictions(self, passes: LeanPass | None, edit: Edit) -> Float[Tensor, "scored token"]:
        with torch.inference_mode():
            predictions = torch.cat(list(self._blocks(passes, edit)))
        return predictions if self.batch.is_regression else predictions.log_softmax(-1)


class OnDemand(Mapping[Edit, EditedPass]):
    """The edited passes that a probe may ask for."""

    def __init__(self, edits: Mapping[Edit, None], run: Callable[[Edit], EditedPass]) -> None:
        """Remember what may be asked for, and how it is run."""
        self._edits, self._run, self._done = edits, run, dict[Edit, EditedPass]()

    def __getitem__(self, edit: Edit) -> EditedPass:
        if edit not in self._edits:
            raise KeyError(edit)
        if edit not in self._done:
            self._done[edit] = self._run(edit)
        return self._done[edit]

    def __iter__(self) -> Iterator[Edit]:
        return iter(self._edits)

    def __len__(self) -> int:
        return len(self._edits)
