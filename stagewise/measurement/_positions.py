"""Some scored positions of a batch, the same for every checkpoint, and what a model holds there."""

import dataclasses
from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.measurement._passes import cut, default_memory, slices_needed
from stagewise.models import Model
from stagewise.task import Batch


@dataclasses.dataclass(frozen=True, eq=False)
class Positions:
    """Scored positions, in the order of the sequences."""

    sequence: Int[Tensor, " chosen"]
    position: Int[Tensor, " chosen"]

    @classmethod
    def of(cls, batch: Batch, most: int) -> "Positions":
        """Take the scored positions of a batch; of more than `most`, so many, spread evenly."""
        scored = batch.scored.nonzero()
        chosen = torch.linspace(0, len(scored) - 1, min(most, len(scored)), dtype=torch.float64).round().long()
        return cls(*scored[chosen.to(scored.device)].unbind(1))

    def __len__(self) -> int:
        return len(self.sequence)

    def read(
        self, model: Model, architecture: Architecture, batch: Batch, hooks: Iterable[str] = ()
    ) -> tuple[Float[Tensor, "chosen token"], dict[str, Float[Tensor, "chosen *axes"]]]:
        """Return predictions (log-probabilities, nats) and activations at the positions, in float32 on the CPU."""
        names, start = list(hooks), 0
        predictions, activations = list[Tensor](), {name: list[Tensor]() for name in names}
        device = next(model.parameters()).device
        batch = batch.to(device)
        for part in cut(batch, slices_needed(batch, architecture, default_memory(device))):
            here = (self.sequence >= start) & (self.sequence < start + len(part))
            rows = (self.sequence[here] - start).to(device), self.position[here].to(device)
            log_probs, clean = models.clean_pass(model, part.tokens, names, regression=part.is_regression)
            predictions.append(log_probs[rows].float().cpu())
            for name in names:
                activations[name].append(clean[name][rows].float().cpu())
            start += len(part)
        return torch.cat(predictions), {name: torch.cat(each) for name, each in activations.items()}
