"""The fates of tokens in Scan and Snap's attention: Corollaries 1 and 2, sections 5, 7 and 9; a minute."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Generator, Tensor

from stagewise.papers.published import Result, number, over_seeds, table_of
from stagewise.papers.scan_and_snap._synthetic import attention_by_class
from stagewise.papers.scan_and_snap._theorems import ONE_COMMON, population, population_ascent
from stagewise.papers.scan_and_snap._theory_figures import finish, panels
from stagewise.papers.scan_and_snap.yz_model import YZ, Counts, count, forward, step, zeros
from stagewise.papers.scan_and_snap.yz_training import Rates, train_yz
from stagewise.papers.tasks import SequenceClasses, syn_small
from stagewise.papers.theory.scan_and_snap import ScanAndSnap
from stagewise.papers.theory.token_fates import prior_attention
from stagewise.plot.axes import ordered_colours
from stagewise.task import TRAINING, derive_seed

THEORY = ScanAndSnap(M=34, K=2, eta_y=1.0)
"""The size of Syn-Small."""

LATE = (10, 100, 1000)
"""Times of Corollary 1, in phase transitions t_0."""

ALIKE, APART = ((1.0, 2.0, 4.0),) * 4, ((4.0, 0.1, 0.1),) * 3 + ((4.0, 2.0, 0.1),)
"""Weights of three common tokens in four classes: in the same proportions, and the second one nearly of one class."""

SHARED = SequenceClasses(n_queries=1, labels_per_query=4, n_common=3, n_distinct=3, distinct_weights=(0.5, 1.0))
"""Classes of the weights above."""

LOCAL = SequenceClasses(n_queries=2, labels_per_query=2, n_common=2, n_distinct=3, distinct_weights=(0.5, 1.0))
"""Two queries of two classes: `local_distribution` gives both the same distinct tokens."""

SIZES, SEEDS = (16, 64, 256), range(5)
"""Sequences of the fixed training sets, and their draws."""

RARE = SequenceClasses(
    n_queries=1, labels_per_query=4, n_common=100, n_distinct=3, distinct_weights=(4.0, 8.0), length=15
)
"""A hundred rare common tokens: in few sequences many of them occur in one class alone."""

HEADS, SLOPES, WINDOW = 20, (0.0, 0.02), 12
"""Runs of a prior; what a position's score falls by for each one back; positions that hold the same distinct token."""

_BATCH, _STEPS = 128, 100


class Late(NamedTuple):
    """A decoder late in training: 1 - alpha over K (M-1) / (M eta_Y t) at some times, gamma over its bound [step]."""

    errors: list[float]
    gamma: np.ndarray


def figure_tokens() -> Result:
    """Draw the approach to the critical point, common tokens that rise and fall, and what is left of them by size.

    Source: Tian et al. (2023), arXiv:2305.16380, Corollaries 1 and 2, sections 5, 7 and 9.
    """
    figure, (left, middle, right) = panels(3)
    alone, joint, masses = late_decoder(), late_joint(), spurious_masses()
    _lines(left, {"decoder alone": (LATE, alone.errors), "with attention": (LATE, joint)}, "o-")
    left.set_xscale("log")
    finish(left, "size of Syn-Small", "1 - alpha, over K (M - 1) / (M eta_Y t)", "step of the population, in t_0")
    steps, paths = range(400), common_logits(APART).T.numpy()
    names = ("in all classes", "nearly in one alone", "rare in all")
    _lines(middle, {name: (steps, path) for name, path in zip(names, paths, strict=True)})
    finish(middle, "three common tokens of four classes", "attention logit z", "step of the population")
    right.semilogx(SIZES, masses, "o-", color="#888888")
    right.lines[0].set_label("a draw of the sequences")
    right.set_xticks(SIZES, [str(size) for size in SIZES])
    right.set_xticks([], minor=True)
    finish(right, "a hundred rare common tokens", "their part of the attention", "sequences of training")
    rows = [*_late_rows(alone, joint), *_common_rows(), *_prior_rows(), *_local_rows(), *_size_rows(masses)]
    return Result(figure, table_of(rows))


def _lines(ax: Axes, curves: Mapping[str, tuple[Sequence[int], Any]], style: str = "-") -> None:
    colours = ordered_colours(list(curves))
    for name, values in curves.items():
        ax.plot(*values, style, color=colours[name], label=name)


def late_decoder(times: tuple[int, ...] = LATE) -> Late:
    """Train a decoder of disjoint classes with frozen attention, a population step a unit of time.

    Args:
        times: at which to return the error, in phase transitions t_0.
    """
    M, K = THEORY.M, THEORY.K
    one_hot = torch.eye(K, M, dtype=torch.float64)
    counts = Counts(one_hot[None], torch.full((1, K), M // 2), torch.arange(M - K, M)[None])
    weights, marks = zeros(1, M, torch.float64), _marks(times)
    errors, gamma = [], []
    for time in range(marks[-1] + 1):
        now = step(weights, counts)
        if time in marks:
            errors.append(_over_late_form(now.loss, time))
        residual = one_hot.roll(M - K, 1) - forward(weights, counts)[0].exp()
        gamma.append((weights.y[0, 0] @ residual[0]).item() * (M - 1) / M)
        weights.y.add_(now.ascent.y, alpha=THEORY.eta_y)
    return Late(errors, np.array(gamma[1:]) / THEORY.gamma_bound(np.arange(1, len(gamma))))


def late_joint(times: tuple[int, ...] = LATE) -> list[float]:
    """Train decoder and attention on Syn-Small's population, eta_Y = eta_Z = 1: the same errors at the same times."""
    counts, marks = population(syn_small()), _marks(times)
    path = enumerate(population_ascent(syn_small(), THEORY.eta_y, THEORY.eta_z, marks[-1] + 1))
    return [_over_late_form(step(weights, counts).loss, time) for time, weights in path if time in marks]


def _marks(times: tuple[int, ...]) -> list[int]:
    return [round(each * THEORY.phase_transition_time) for each in times]


def _over_late_form(loss: Float[Tensor, " run"], time: int) -> float:
    return -torch.expm1(-loss).item() / THEORY.late_class_error(time).item()


def _late_rows(alone: Late, joint: list[float]) -> list[dict[str, str]]:
    times, what = ", ".join(map(str, LATE)), "Corollary 1: (1 - alpha) M eta_Y t / (K (M - 1)) at t ="
    early = round(THEORY.phase_transition_time)
    largest = f"{alone.gamma[:early].max():.3f}, {alone.gamma[early:].max():.4f}"
    return [
        number(f"{what} {LATE[-1]} t_0, decoder alone", "1", f"{alone.errors[-1]:.4f}"),
        number(f"{what} {times} t_0, with attention", "falls to 1", ", ".join(f"{each:.3f}" for each in joint)),
        number("Theorem 1: largest gamma over its bound, up to t_0, from t_0 on", "at most 1", largest),
    ]


def common_logits(
    weights: tuple[tuple[float, ...], ...], steps: int = 400, eta_y: float = 1.0, eta_z: float = 0.02
) -> Float[Tensor, "step token"]:
    """Follow the logits of common tokens that four classes of one query hold in these proportions [class, token]."""
    probabilities = SHARED.distribution()
    probabilities[:, : SHARED.n_common] *= torch.tensor(weights, dtype=torch.float64)
    probabilities /= probabilities.sum(1, keepdim=True)
    path = population_ascent(SHARED, eta_y, eta_z, steps, probabilities)
    return torch.stack([weights.z[0, SHARED.queries[0], : SHARED.n_common].clone() for weights in path])


def _common_rows() -> list[dict[str, str]]:
    falls = {weights: common_logits(weights).diff(dim=0)[1:] for weights in (ALIKE, APART)}
    alike, apart = falls[ALIKE], falls[APART]
    what = "Corollary 2: share of steps at which"
    return [
        number(f"{what} each of three common tokens falls, same proportions", "1", _share(alike < 0)),
        number(f"{what} their sum falls, other proportions", "1", _share(apart.sum(1) < 0)),
        number(f"{what} the one falls that a class nearly owns", "-", _share(apart[:, 1] < 0)),
    ]


def _share(holds: Tensor) -> str:
    return f"{holds.double().mean().item():.3f}"


def local_distribution() -> Float[Tensor, "cls token"]:
    """Return token probabilities of `LOCAL` under which both queries hold the same tokens, distinct for each alone."""
    probabilities, (own, others) = LOCAL.distribution(), LOCAL.distinct_tokens.flatten(1).chunk(2)
    probabilities[2:, own.flatten()] = probabilities[2:, others.flatten()]
    probabilities[2:, others.flatten()] = 0
    return probabilities


def residual_ascent(counts: Counts, steps: int = 400, eta_y: float = 1.0, eta_z: float = 0.02) -> Iterator[YZ]:
    """Yield the weights of gradient ascent with a residual connection, from zero, before each step; in place."""
    weights = YZ(*(each.requires_grad_() for each in zeros(1, counts.context.shape[-1], torch.float64)))
    for _ in range(steps):
        yield weights
        ascent = torch.autograd.grad(-_loss(weights, counts, residual=True), weights)
        with torch.no_grad():
            for weight, direction, rate in zip(weights, ascent, (eta_y, eta_z), strict=True):
                weight += rate * direction


def _loss(weights: YZ, counts: Counts, *, residual: bool) -> Tensor:
    return -forward(weights, counts, residual=residual).gather(-1, counts.label[..., None]).mean()


def local_moves() -> Float[Tensor, "step query token"]:
    """Return how both queries' logits move at every step, without a residual connection."""
    path = population_ascent(LOCAL, 1.0, 0.02, 400, local_distribution())
    return torch.stack([weights.z[0, LOCAL.queries[::2]] for weights in path]).diff(dim=0)[1:]


def residual_moves() -> Float[Tensor, "step token"]:
    """Return how the logits of Theorem 2's population move at every step with a residual connection."""
    path = residual_ascent(population(ONE_COMMON))
    return torch.stack([weights.z[0, ONE_COMMON.queries[0]].detach().clone() for weights in path]).diff(dim=0)[1:]


def local_losses() -> tuple[float, float]:
    """Return the loss (nats) that local distinct tokens leave at step 400, without and with a residual connection."""
    counts = population(LOCAL)._replace(context=local_distribution()[None])
    *_, without = population_ascent(LOCAL, 1.0, 0.02, 400, local_distribution())
    *_, beside = residual_ascent(counts)
    return _loss(without, counts, residual=False).item(), _loss(beside, counts, residual=True).item()


def _local_rows() -> list[dict[str, str]]:
    local, beside = local_moves(), residual_moves()
    rise, fall = local[..., LOCAL.distinct_tokens[:2].flatten()] > 0, local[..., : LOCAL.n_common] < 0
    distinct = beside[:, ONE_COMMON.distinct_tokens]
    what = "section 7: share of steps at which"
    return [
        number(f"{what} tokens rise that are distinct for their query alone", "1", _share(rise)),
        number(f"{what} the others fall", "1", _share(fall)),
        number(
            "section 7: loss then, without and with a residual connection",
            "falls",
            ", ".join(f"{loss:.3f}" for loss in local_losses()),
        ),
        number(f"{what} the common token falls, with a residual connection", "1", _share(beside[:, 0] < 0)),
        number(f"{what} distinct tokens rise, with a residual connection", "1", _share(distinct > 0)),
        number(f"{what} the rarest of them rises", "-", _share(distinct[..., 0] > 0)),
    ]


class Winners(NamedTuple):
    """Which distinct token each class of each run ends on, and which ones prior and frequency predict [run, class]."""

    last: np.ndarray
    by_prior: np.ndarray
    by_frequency: np.ndarray


def winners_by_start(scale: float = 2.0) -> Winners:
    """Train heads that see the same samples of Syn-Small and differ in their initial logits, of this deviation."""
    task, generator = syn_small(), Generator().manual_seed(0)
    m, distinct = task.d_vocab, task.distinct_tokens.numpy()
    z = scale * torch.randn(HEADS, m, m, generator=generator)
    data = (count(task.sample(_BATCH, derive_seed(0, TRAINING, each)), m) for each in range(_STEPS))
    *_, last = train_yz(YZ(torch.zeros_like(z), z), lambda _: next(data), [Rates(y=10.0, z=1.0)] * HEADS, _STEPS)
    probabilities = task.distribution().numpy()
    start = z[:, task.queries].double().numpy()
    ahead = [[prior_attention(p, logits) for p, logits in zip(probabilities, each, strict=True)] for each in start]
    ends = attention_by_class(task, last.weights.z).numpy()
    frequent = np.broadcast_to(probabilities, ends.shape)
    return Winners(*(_most(attention, distinct) for attention in (ends, np.array(ahead), frequent)))


def _most(attention: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    """Return which of its class's distinct tokens has most attention [run, class]."""
    tokens = np.broadcast_to(distinct, (len(attention), *distinct.shape))
    return np.asarray(np.take_along_axis(attention, tokens, 2).argmax(2))


def nearest_wins(slope: float) -> float:
    """Return the share of runs and classes that end on the distinct token nearest to the query.

    All distinct tokens are as frequent; each has a window of positions of its own. A position's score falls by the
    slope for each one back. Every run has its own samples.
    """
    task, generator = syn_small(), Generator().manual_seed(0)
    m, distinct = task.d_vocab, task.distinct_tokens
    lag = torch.arange(task.n_distinct * WINDOW)
    nearness, shape = torch.exp(-slope * lag), (HEADS, _BATCH, len(lag))

    def data(_: int) -> Counts:
        classes = torch.randint(task.n_classes, shape[:2], generator=generator)
        common = torch.randint(task.n_common, shape, generator=generator)
        own = distinct[classes][..., lag // WINDOW]
        tokens = torch.where(torch.rand(shape, generator=generator) < 0.5, own, common)
        counts = torch.zeros(*shape[:2], m).scatter_add_(2, tokens, nearness.expand(shape))
        return Counts(counts, task.queries[classes], task.labels[classes])

    *_, last = train_yz(zeros(HEADS, m), data, [Rates(y=10.0, z=1.0)] * HEADS, _STEPS)
    logits = last.weights.z[:, task.queries].gather(2, distinct.expand(HEADS, -1, -1))
    weights = nearness.view(-1, WINDOW).sum(1) * logits.exp()
    return (weights.argmax(2) == 0).double().mean().item()


def _prior_rows() -> list[dict[str, str]]:
    last, by_prior, by_frequency = winners_by_start()
    both = f"{(last == by_prior).mean():.3f}, {(last == by_frequency).mean():.3f}"
    chosen = ", ".join(str(len(np.unique(of_class))) for of_class in last.T)
    nearest = ", ".join(f"{nearest_wins(slope):.3f}" for slope in SLOPES)
    return [
        number("initial value: share that ends on the token ahead by P exp(z(0)), by P", "the first", both),
        number(f"tokens on which {HEADS} heads end, by class", "several", chosen),
        number(f"position: share that ends on the nearest token, slope {SLOPES[0]:g}, {SLOPES[1]:g}", "rises", nearest),
    ]


def spurious_masses(sizes: Sequence[int] = SIZES, seeds: Sequence[int] = SEEDS) -> Float[np.ndarray, "size draw"]:
    """Train on fixed sets of sequences; return the attention that rare common tokens then have in the population."""
    return np.array([[_spurious_mass(size, seed) for seed in seeds] for size in sizes])


def _spurious_mass(size: int, seed: int) -> float:
    counts = count(RARE.sample(size, seed), RARE.d_vocab)
    *_, last = train_yz(zeros(1, RARE.d_vocab), lambda _: counts, [Rates(y=1.0, z=1.0)], 3 * _STEPS)
    return attention_by_class(RARE, last.weights.z)[..., : RARE.n_common].sum(-1).mean().item()


def _size_rows(masses: np.ndarray) -> list[dict[str, str]]:
    return [
        over_seeds(f"attention on rare common tokens, {size} sequences", "falls with their number", of_size)
        for size, of_size in zip(SIZES, masses, strict=True)
    ]
