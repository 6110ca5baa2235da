"""How degenerate a loss is around some parameters: its local learning coefficient, by Langevin dynamics."""

import contextlib
import dataclasses
import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import t as student
from torch import Tensor

from stagewise.fields import Count, Natural, NotNegative, Range, check_fields
from stagewise.loss import training_loss
from stagewise.statistics import LEVEL
from stagewise.task import Batch

VERSION = 1
"""Version of the estimates: raise it with every change of their numbers, so that those of before are not taken up."""

Loss = Callable[[torch.Generator | None], Float[Tensor, ""]]
"""The mean loss of all samples (None), or of some that are drawn by the generator."""


_Predict = Callable[[Tensor, Tensor], Tensor]
"""From tokens, and which predictions are scored, to these."""


@dataclasses.dataclass(frozen=True)
class Sampler:
    """How the weights around a checkpoint are sampled, by stochastic gradient Langevin dynamics.

        w <- w - (e / 2) (n beta grad L(w) + g (w - w*)) + sqrt(e) noise

    Args:
        step_size: e n beta: a step moves by half of it times the gradient. Over 4 / (the largest curvature of the loss)
            a chain diverges; at a curvature h the coefficient is too large by the factor 1 / (1 - step_size h / 4).
        draws: steps of a chain that are averaged.
        burn_in: steps before them.
        chains: how many, each from the checkpoint.
        localization: g: how strongly the chain is pulled back; directions of curvature below g / (n beta) count less.
            In a flat direction it takes some 2 n beta / (step_size g) steps until a chain stays where it is: with a
            weaker pull, and as many steps, chains drift.
        inverse_temperature: n beta; None for n / log n.
        sequences: of the batch that are drawn anew for each step; None for all.
        seed: of noise and draws.

    Raises:
        ValueError: a number outside its range.

    Source: Lau et al. (2023), The Local Learning Coefficient: A Singularity-Aware Complexity Measure, arXiv:2308.12108,
    section 4 and Algorithm 1.
    """

    step_size: Annotated[float, Range(1e-12, math.inf)] = 0.02
    draws: Count = 400
    burn_in: Natural = 200
    chains: Count = 4
    localization: NotNegative = 100.0
    inverse_temperature: Annotated[float, Range(1e-12, math.inf)] | None = None
    sequences: Count | None = None
    seed: Natural = 0

    def __post_init__(self) -> None:
        check_fields(self)

    def temperature_of(self, n: int) -> float:
        """Return n beta for so many samples."""
        return self.inverse_temperature or n / math.log(max(n, 3))


DEFAULT = Sampler()


class Coefficient(NamedTuple):
    """A local learning coefficient, by chain too; with a `drift` that is no small part of it, chains are too short."""

    chains: Float[np.ndarray, " chain"]
    drift: float

    @property
    def mean(self) -> float:
        """The mean over chains."""
        return float(self.chains.mean())

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its 95 % interval by the spread of the chains, Student's t; None of one chain."""
        if (n := len(self.chains)) < 2:
            return None
        margin = float(student.ppf((1 + LEVEL) / 2, n - 1) * self.chains.std(ddof=1)) / math.sqrt(n)
        return self.mean - margin, self.mean + margin


def local_learning_coefficient(
    loss: Loss,
    parameters: Sequence[Tensor],
    n: int,
    sampler: Sampler = DEFAULT,
    masks: Sequence[Bool[Tensor, "..."]] | None = None,
) -> Coefficient:
    """Estimate the local learning coefficient of a loss at the parameters, which are the same afterwards.

        LLC = n beta (E[L(w)] - L(w*)),   w ~ exp(-n beta L(w) - (g / 2) |w - w*|^2)

    For a quadratic loss it is half the number of directions in which the loss curves; for a singular one it is smaller
    than half the number of parameters. Away from a minimum it may be negative, and means less.

    Args:
        loss: mean loss of all samples (nats) or, where it is given a generator, of some.
        parameters: those that are sampled; they require gradients, and lie on one device.
        n: number of samples.
        sampler: step size, number of draws, and the rest.
        masks: of each parameter, the numbers that are sampled; the others stay.

    Raises:
        ImportError: devinterp is not installed.
        ValueError: a chain diverged.

    Source: Lau et al. (2023), arXiv:2308.12108; its weight-restricted form in Wang et al. (2024), Differentiation and
    Specialization of Attention Heads via the Refined Local Learning Coefficient, arXiv:2410.02984. The sampler is
    devinterp's.
    """
    with torch.no_grad():
        least = float(loss(None))
    traces = []
    for number in range(sampler.chains):
        with restored(parameters):
            traces.append(list(chain(loss, parameters, masks, sampler, n, number)))
        check_stable(sampler.temperature_of(n) * (np.array(traces[-1]) - least), counted(parameters, masks), sampler)
    excess = sampler.temperature_of(n) * (np.array(traces) - least)
    half = sampler.draws // 2
    drift = excess[:, half:].mean() - excess[:, :half].mean() if half else 0.0
    return Coefficient(excess.mean(1), float(drift))


def loss_of(predict: _Predict, batch: Batch, sequences: int) -> Loss:
    """Return the loss of a model on a batch, or, where a generator is given, on so many sequences drawn anew."""

    def loss(draw: torch.Generator | None) -> Tensor:
        part = batch
        if draw is not None and sequences < len(batch):
            part = batch[torch.randperm(len(batch), generator=draw)[:sequences].to(batch.tokens.device)]
        return training_loss(predict(part.tokens, part.scored), part.targets[part.scored])

    return loss


def check_devinterp() -> None:
    """Refuse where the sampler is missing."""
    try:
        importlib.import_module("devinterp.optim")
    except ImportError as reason:
        raise ImportError("there is no devinterp: `pip install 'stagewise[llc]'`") from reason


def counted(parameters: Sequence[Tensor], masks: Sequence[Tensor] | None = None) -> int:
    """Return how many numbers are sampled."""
    return sum(each.numel() for each in parameters) if masks is None else sum(int(mask.sum()) for mask in masks)


def check_stable(excess: Float[np.ndarray, " draw"], size: int, sampler: Sampler) -> None:
    """Refuse a chain that left for ever higher losses, finite or not, by n beta (L(w) - L(w*)) of each draw."""
    # Of a minimum the mean is at most half the number of parameters: twice as much could not have been found there.
    if not (np.isfinite(excess).all() and excess.mean() <= size):
        raise ValueError(
            f"a chain diverged: step_size = {sampler.step_size:g} is too large for the curvature of this loss. Take a "
            "tenth of it, and more draws"
        )


@contextlib.contextmanager
def restored(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Give the parameters the values that they had back at the end, without gradients."""
    start = [parameter.detach().clone() for parameter in parameters]
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip(parameters, start, strict=True):
                parameter.copy_(value)
                parameter.grad = None


def chain(
    loss: Loss, parameters: Sequence[Tensor], masks: Sequence[Tensor] | None, sampler: Sampler, n: int, number: int
) -> Iterator[float]:
    """Move the parameters along a chain, whose number decides its noise, and yield the loss at each draw."""
    check_devinterp()
    from devinterp.optim import SGMCMC

    device, temperature = parameters[0].device, sampler.temperature_of(n)
    noise, draw = (torch.Generator(on).manual_seed(sampler.seed + number) for on in (device, torch.device("cpu")))
    groups: list[dict[str, Any]] = [{"params": [parameter]} for parameter in parameters]
    for group, mask in zip(groups, masks or (), strict=masks is not None):
        group["mask"] = mask
    rate = sampler.step_size / temperature
    optimiser = SGMCMC.sgld(groups, lr=rate, nbeta=temperature, localization=sampler.localization)
    for step in range(sampler.burn_in + sampler.draws):
        optimiser.zero_grad()
        value = loss(None if sampler.sequences is None else draw)
        torch.autograd.backward(value, inputs=list(parameters))
        if step >= sampler.burn_in:
            yield float(value.detach())
        optimiser.step(noise_generator=noise)
