"""How much of its context the model uses: its divergence from itself with restricted context."""

import dataclasses
from collections.abc import Iterable

import torch

from stagewise.architecture import Architecture
from stagewise.intervention import Edit, RestrictContext
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True)
class RestrictedContextKL(AbstractProbe):
    """KL(model || the same model with attention restricted to the last c positions), nats, for each context c.

    For a regression, half the squared distance of the outputs: see `loss.divergence`.

    A curve that falls to its minimum and rises again (a turning point) ends the stage in which c positions suffice.
    In a model of several layers each is restricted: see `RestrictContext`.

    Args:
        contexts: numbers of positions, the query's own included.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 3 (right), with the model's own context restricted instead
    of a second model trained on short windows; for that one see `KLToReference`.

    >>> from stagewise.probe import example_view
    >>> view = example_view(probs=[[0.5, 0.5]], edited={(RestrictContext(1),): [[0.25, 0.75]]})
    >>> [reading] = RestrictedContextKL((1,)).read(view)
    >>> reading.values  # log 2 - log(3) / 2
    tensor([[0.1438]])
    """

    quantities = {"kl": Quantity("KL(model ‖ restricted context)", "nats", (0, None), role="KL to restricted contexts")}
    reads_unscored = False

    contexts: tuple[int, ...] = (1, 2, 4, 8)

    def __post_init__(self) -> None:
        if not self.contexts:
            raise ValueError("contexts must name at least one number of positions, got ()")
        for context in self.contexts:
            RestrictContext(context)  # raises where it is none

    def edits(self, architecture: Architecture) -> Iterable[Edit]:
        """List one edited pass a context."""
        return [(RestrictContext(context),) for context in dict.fromkeys(self.contexts)]

    def read(self, view: View) -> list[Reading]:
        """Return `kl` in nats by context."""
        divergences = [view.edited[edit].kl for edit in self.edits(view.architecture)]
        labels = {"context": list(dict.fromkeys(self.contexts))}
        return [Reading("batch context", torch.stack(divergences, -1), "kl", labels)]
