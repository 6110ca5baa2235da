"""A task and a probe of one's own; in the folder of a copy called mine.py, the command line does the rest:

stagewise run mine:ModularAddition --probe mine:AnswerMargin
"""

import dataclasses
import math
from typing import ClassVar

import torch

from stagewise import AbstractProbe, AbstractTask, Batch, Quantity, Reading, View
from stagewise.loss import mean_scored


@dataclasses.dataclass(frozen=True)
class ModularAddition(AbstractTask):
    """Sequences a b =, whose last position predicts (a + b) mod p. Tokens: the numbers below p, and "=" as p."""

    p: int = 31
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
class AnswerMargin(AbstractProbe):
    """Log-probability of the target less that of the best other token, in nats: positive where the answer leads."""

    quantities: ClassVar = {"margin": Quantity("margin of the answer", "nats", progress="up")}

    def read(self, view: View) -> list[Reading]:
        """Return `margin`, averaged over the scored positions of each sequence."""
        target = view.batch.targets[..., None]
        others = view.log_probs.scatter(-1, target, -torch.inf).amax(-1)
        margins = view.log_probs.gather(-1, target)[..., 0] - others
        return [Reading("batch", mean_scored(margins, view.batch.scored), "margin")]
