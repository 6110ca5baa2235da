"""What methods say of each sample of a window: exact derivatives through training, and baselines without."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from evidence.attribution import ekfac
from evidence.attribution.windows import Window, at_start
from stagewise import models
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.adjoint import sample_effects, sample_losses, trained_parameters
from stagewise.papers.samples import attention_score
from stagewise.training import Training

Effects = Float[Tensor, "step sample"]
"""By how much the score rises where the weight of a sample's loss rises by 1, up to a factor for the baselines."""


def exact(window: Window) -> Effects:
    """Return derivatives of the score at the window's end, through every update."""
    training, score = _scored(window)
    found = dict(sample_effects(training, window.start, window.start, window.stop, score))
    return torch.stack([found[step] for step in range(window.start, window.stop)]).float()


def tracin(window: Window) -> Effects:
    """Return the rate times the product of each sample's gradient with the score's, both at its update: Pruthi et al.
    (2020), arXiv:2002.08484, with a checkpoint at every update.
    """
    training, score = _scored(window)
    rows = []
    for step in training.steps(window.start, window.stop, []):
        if step < window.stop:
            training.adjust(step)
            rate = training.optimiser.param_groups[0]["lr"]
            rows.append(-rate * _products(training, step, _gradient(training, score)))
    return torch.stack(rows)


def similarity(window: Window) -> Effects:
    """Return the product of each sample's gradient with the score's, both at the window's end."""
    training, score = _scored(window)
    for _ in training.steps(window.start, window.stop, []):
        pass
    gradient = _gradient(training, score)
    return torch.stack([-_products(training, step, gradient) for step in range(window.start, window.stop)])


def at_random(window: Window) -> Effects:
    """Return normal noise."""
    size = len(at_start(window)[1].batch_at(window.start))
    return torch.randn(window.length, size, generator=torch.Generator().manual_seed(0))


METHODS: Mapping[str, Callable[[Window], Effects]] = {
    "exact": exact,
    "TracIn": tracin,
    "gradient similarity": similarity,
    **({"EK-FAC": ekfac.influence} if ekfac.is_installed() else {}),
    "random": at_random,
}


def _scored(window: Window) -> tuple[Training, Callable[[], Tensor]]:
    recipe, training = at_start(window)
    batch = load_batch(recipe, window.folder)
    return training, lambda: attention_score(training.model, batch, window.head, window.relation)


def _gradient(training: Training, score: Callable[[], Tensor]) -> dict[str, Tensor]:
    named = trained_parameters(training)
    found = torch.autograd.grad(score(), list(named.values()), materialize_grads=True)
    return dict(zip(named, found, strict=True))


def _products(training: Training, step: int, direction: Mapping[str, Tensor]) -> Float[Tensor, " sample"]:
    """Return the product of each sample's gradient with a direction, by a second backward pass."""
    named = trained_parameters(training)
    losses = sample_losses(training, models.parameters(training.model), training.batch_at(step))
    counts = torch.ones_like(losses, requires_grad=True)
    gradients = torch.autograd.grad(counts @ losses, list(named.values()), create_graph=True, materialize_grads=True)
    total = torch.stack([(each * direction[name]).sum() for name, each in zip(named, gradients, strict=True)]).sum()
    return torch.autograd.grad(total, counts)[0]
