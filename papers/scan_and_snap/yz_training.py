"""Train many (Y, Z) models at once: each run has its own seed, its own two rates, its own data."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.papers.scan_and_snap.yz_model import YZ, Counts, step


class Rates(NamedTuple):
    """The learning rates of one run: of Y, the decoder, and of Z, the attention."""

    y: float
    z: float


class Moment(NamedTuple):
    """A step's weights before its update, and the loss of its batch under them (nats); after the last, no loss."""

    step: int
    weights: YZ
    loss: Float[Tensor, " run"] | None


def train_yz(
    initial: YZ,
    data: Callable[[int], Counts],
    rates: Sequence[Rates],
    steps: int,
    optimiser: str = "sgd",
    momentum: float = 0.9,
) -> Iterator[Moment]:
    """Yield the moments 0 to `steps`, all runs at once; the gradients are exact and in closed form.

    The two matrices have an optimiser each, with the rates of their run. The weights of a moment change with the next
    one: copy what is to be kept.

    Args:
        initial: the weights that each run starts from; they are copied.
        data: a step's counts, for one run each or one for all.
        rates: of each run.
        steps: number of updates.
        optimiser: "sgd" with heavy-ball momentum and no weight decay, or "adam" with the usual moments.
        momentum: of "sgd".

    Raises:
        ValueError: as many rates as runs are needed, or an unknown optimiser.

    Source: Tian et al. (2023), arXiv:2305.16380, section 7; momentum 0.9 is in the released configurations.
    """
    weights = YZ(initial.y.clone(), initial.z.clone())
    if len(rates) != len(weights.y):
        raise ValueError(f"every run needs its rates: got {len(rates)} rates for {len(weights.y)} runs")
    update = _updater(weights, rates, optimiser, momentum)
    for now in range(steps):
        loss, ascent = step(weights, _for_each_run(data(now), len(rates)))
        yield Moment(now, weights, loss)
        update(ascent)
    yield Moment(steps, weights, None)


def _updater(weights: YZ, rates: Sequence[Rates], optimiser: str, momentum: float) -> Callable[[YZ], None]:
    if optimiser not in ("sgd", "adam"):
        raise ValueError(f'optimiser must be "sgd" or "adam", got {optimiser!r}')
    # A run's matrix is a view of all runs' weights: torch's optimisers update it in place, at a rate of its own.
    views = [view for matrix in weights for view in matrix.unbind()]
    own_rates = [rate.y for rate in rates] + [rate.z for rate in rates]
    groups = [{"params": [view], "lr": rate} for view, rate in zip(views, own_rates, strict=True)]
    if optimiser == "sgd":
        engine: torch.optim.Optimizer = torch.optim.SGD(groups, momentum=momentum)
    else:
        engine = torch.optim.Adam(groups)

    def update(ascent: YZ) -> None:
        gradients = [gradient for matrix in ascent for gradient in matrix.neg().unbind()]
        for view, gradient in zip(views, gradients, strict=True):
            view.grad = gradient
        engine.step()

    return update


def _for_each_run(counts: Counts, runs: int) -> Counts:
    return Counts(*(part.expand(runs, *part.shape[1:]) for part in counts))
