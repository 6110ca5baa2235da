"""A task and a probe of one's own; in the folder of a copy called mine.py, the command line does the rest:

stagewise run mine:ModularAddition --probe mine:LogitLens
"""

import dataclasses
import math
from typing import ClassVar

import torch

from stagewise import AbstractProbe, AbstractTask, Architecture, Batch, Reading, View
from stagewise.loss import cross_entropy, mean_scored
from stagewise.table import Quantity


@dataclasses.dataclass(frozen=True)
class ModularAddition(AbstractTask):
    """Sequences a b =, whose last position predicts (a + b) mod p. Tokens: the numbers below p, and "=" as p."""

    p: int = 7
    n_sequences: int | None = None

    @property
    def d_vocab(self) -> int:
        """Number of tokens."""
        return self.p + 1

    @property
    def n_ctx(self) -> int:
        """Number of positions."""
        return 3

    @property
    def nested(self) -> tuple[str, ...]:
        """What is learned first, and what last: that the answer is a number, and which one."""
        return ("some number", "the sum")

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sums."""
        generator = torch.Generator().manual_seed(seed)
        a, b = torch.randint(self.p, (2, n), generator=generator)
        tokens = torch.stack([a, b, torch.full_like(a, self.p)], dim=1)
        targets = torch.zeros_like(tokens)
        targets[:, -1] = (a + b) % self.p
        scored = torch.tensor([False, False, True]).expand(n, -1)
        first, second = (self._from_the_last(key).expand(n, -1, -1) for key in (0, 1))
        return Batch(tokens, targets, scored, {"first number": first, "second number": second})

    def references(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Return (nats) the uniform distribution over the numbers, and the sum."""
        some = torch.full((*batch.tokens.shape, self.d_vocab), -math.log(self.p))
        some[..., -1] = -torch.inf
        exact = torch.nn.functional.one_hot(batch.targets, self.d_vocab).float().log()
        return {"some number": some, "the sum": exact}

    def _from_the_last(self, key: int) -> torch.Tensor:
        mask = torch.zeros(3, 3, dtype=torch.bool)
        mask[-1, key] = True
        return mask


@dataclasses.dataclass(frozen=True)
class LogitLens(AbstractProbe):
    """Loss (nats) of the residual stream after each layer, read by the final norm and the unembedding."""

    quantities: ClassVar = {"loss": Quantity("loss read after the layer", "nats", (0, None), progress="down")}

    def hooks(self, architecture: Architecture) -> list[str]:
        """Name the residual stream after every layer."""
        return [f"blocks.{layer}.hook_resid_post" for layer in range(architecture.n_layers)]

    def read(self, view: View) -> list[Reading]:
        """Return `loss` by layer."""
        batch, losses = view.batch, []
        for name in self.hooks(view.architecture):
            logits = normed(view, view.activations[name]) @ view.weights["unembed.W_U"]
            log_probs = (logits + view.weights.get("unembed.b_U", 0.0)).log_softmax(-1)
            losses.append(mean_scored(cross_entropy(log_probs, batch.targets), batch.scored))
        return [Reading("batch layer", torch.stack(losses, dim=1), "loss")]


def normed(view: View, residual: torch.Tensor) -> torch.Tensor:
    """Return the residual stream after the model's final LayerNorm."""
    gain, bias = view.weights["ln_final.w"], view.weights["ln_final.b"]
    return torch.nn.functional.layer_norm(residual, gain.shape, gain, bias)
