"""The theorems of Scan and Snap beside simulations of the model itself: seconds."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.special import softmax
from torch import Tensor

from stagewise.papers.published import bounds, number
from stagewise.papers.scan_and_snap.published import DECODER
from stagewise.papers.scan_and_snap.yz_model import YZ, Counts, attention, count, forward, step, zeros
from stagewise.papers.tasks import SequenceClasses, syn_small
from stagewise.papers.theory.scan_and_snap import ScanAndSnap, growth_bounds, growth_factor, relative_gain

_PAPER = ScanAndSnap(M=1000, K=10, eta_y=0.5, eta_z=0.5)
"""The size of Figure 3."""

_STARTS = (1.0, 0.2)
"""C_0 of Theorem 4: that of Figure 3 here, and another, for which the printed formula is not the solution."""

SLOW, FAST = (4.0, 0.04, 1.1), (0.2, 0.2, 2.3)
"""Rates of Y and Z, and the growth factor to go to: a decoder that is quasi-static, and one that is not."""

LENGTHS = (127, 2032, 32_512)
"""Contextual tokens of Lemma 2's sequences: those of Syn-Small, and twice 16 times as many."""

ONE_COMMON = SequenceClasses(n_queries=1, labels_per_query=4, n_common=1, n_distinct=3, distinct_weights=(0.5, 1.0))
"""Theorem 2's population: four classes of one query, a common token, three distinct ones a class."""

OVERLAP = 0.33
"""f_n . f_n' of the classes of Remark 1."""


class _Gains(NamedTuple):
    """How attention grew: chi of the dominant distinct token, r(t) / (r(0) chi) by token, and the bounds of Eqn 12."""

    chi: float
    ratio: np.ndarray
    bounds: tuple[float, float]


def rows() -> list[dict[str, str]]:
    """Return every theorem's numbers, and those of Lemmas 1 and 2 and of Remark 1."""
    parts = (gradient_rows, _limit_rows, _decoder_rows, _overlap_rows, _fate_rows, _gain_rows, growth_rows)
    return [row for part in parts for row in part()]


def gradient_rows() -> list[dict[str, str]]:
    """Return Lemma 1: how far its gradients are from autograd's, of weights drawn at random."""
    task, generator = syn_small(), torch.Generator().manual_seed(0)
    counts = count(task.sample(16, seed=0), task.d_vocab, torch.float64)
    drawn = torch.randn(2, 1, task.d_vocab, task.d_vocab, generator=generator, dtype=torch.float64)
    weights = YZ(*drawn.requires_grad_().unbind())
    likelihood = forward(weights, counts).gather(-1, counts.label[..., None]).mean()
    by_autograd = torch.autograd.grad(likelihood, weights)
    with torch.no_grad():
        pairs = zip(step(weights, counts).ascent, by_autograd, strict=True)
        apart = max(float((closed - other).abs().max()) for closed, other in pairs)
    return [number("Lemma 1: largest difference of its gradients from autograd's", "0", f"{apart:.0e}")]


def _limit_rows() -> list[dict[str, str]]:
    """Return Lemma 2: how far the attention of sampled sequences is from c_n, by their length."""
    distances = limit_distances(LENGTHS)
    what = f"Lemma 2: distance (TV) of sampled attention from c_n, T = {', '.join(map(str, distances))}"
    return [number(what, "0 in the limit", ", ".join(f"{distance:.4f}" for distance in distances.values()))]


def limit_distances(lengths: tuple[int, ...]) -> dict[int, float]:
    """Return the mean total variation between the attention of 64 sequences of Syn-Small and their class's c_n.

    By number of contextual tokens; the attention's logits are drawn at random, once.
    """
    distances, generator = {}, torch.Generator().manual_seed(0)
    probabilities, queries, _ = (of_class.repeat_interleave(32, 1) for of_class in population(syn_small()))
    z = torch.randn(1, *2 * probabilities.shape[-1:], generator=generator, dtype=torch.float64)
    limit = attention(z, probabilities, queries)
    for length in lengths:
        tokens = torch.multinomial(probabilities[0], length, replacement=True, generator=generator)
        counts = torch.zeros_like(probabilities[0]).scatter_add_(1, tokens, torch.ones_like(tokens).double())
        apart = attention(z, counts[None], queries) - limit
        distances[length] = float(apart.abs().sum(-1).mean()) / 2
    return distances


def decoder_errors(times: tuple[int, ...]) -> dict[int, float]:
    """Return 1 - alpha_nn of a decoder with frozen attention, K = 10 disjoint classes, M = 1000, a population step
    a unit of time."""
    counts = Counts(torch.eye(10, 1000)[None], torch.full((1, 10), 500), torch.arange(100, 110)[None])
    weights, errors = zeros(1, 1000), {}
    for time in range(max(times) + 1):
        if time in times:
            errors[time] = 1 - forward(weights, counts)[0, range(10), range(100, 110)].exp().mean().item()
        weights.y.add_(step(weights, counts).ascent.y, alpha=_PAPER.eta_y)
    return errors


def _decoder_rows() -> list[dict[str, str]]:
    """Return Theorem 1: the simulated decoder's error beside the formula's."""
    formula = dict(zip(DECODER, _PAPER.class_error(list(DECODER)).tolist(), strict=True))
    return [
        number(f"Theorem 1: 1 - alpha at t = {time}", f"{formula[time]:.4f} (formula)", f"{error:.4f}")
        for time, error in decoder_errors(tuple(DECODER)).items()
    ]


def overlapping_error(M: int, K: int, overlap: float) -> float:
    """Return 1 - alpha_nn at t = 20 K of a decoder of K classes with f_n . f_n' = overlap, at the rate of `_PAPER`.

    Followed in W = F^T Y, of which row n holds the logits of class n: W' = eta_Y / K F^T F (E - alpha).
    """
    overlaps = np.full((K, K), overlap) + (1 - overlap) * np.eye(K)
    logits, labels = np.zeros((K, M)), np.eye(K, M)
    for _ in range(200):
        logits += _PAPER.eta_y / 10 * overlaps @ (labels - softmax(logits, axis=1))
    return float(1 - softmax(logits, axis=1).diagonal().mean())


def _overlap_rows() -> list[dict[str, str]]:
    """Return Remark 1: whether overlap acts as the rate (1 - overlap) eta_Y, where all tokens are labels, or few."""
    lines = []
    for M, K in ((200, 200), (_PAPER.M, _PAPER.K)):
        whole = dataclasses.replace(_PAPER, M=M, K=K)
        slower = dataclasses.replace(whole, eta_y=(1 - OVERLAP) * _PAPER.eta_y)
        by_rate = f"{slower.class_error(20 * K):.4f} (its rate); {whole.class_error(20 * K):.4f} (eta_Y itself)"
        what = f"Remark 1: 1 - alpha at t = 20 K, overlap {OVERLAP:g}, K = {K}, M = {M}"
        lines.append(number(what, by_rate, f"{overlapping_error(M, K, OVERLAP):.4f}"))
    return lines


def fates(steps: int = 400, eta_y: float = 1.0, eta_z: float = 0.02) -> Float[Tensor, "step token"]:
    """Follow the logits of the query of `ONE_COMMON`: how far each token's z has come, the common one's first."""
    query, tokens = ONE_COMMON.queries[0], range(ONE_COMMON.distinct_tokens.max() + 1)
    path = population_ascent(ONE_COMMON, eta_y, eta_z, steps)
    return torch.stack([weights.z[0, query, tokens] for weights in path])


def _fate_rows() -> list[dict[str, str]]:
    """Return Theorem 2: which way the logits of distinct tokens and of the common one go."""
    moves = fates().diff(dim=0)[1:]  # Y is zero at the first step, which moves no logit
    rise, fall = (moves[:, 1:] > 0).double().mean().item(), (moves[:, 0] < 0).double().mean().item()
    _, *path = (competition(weights, ONE_COMMON) for weights in population_ascent(ONE_COMMON, 1.0, 0.02, 400))
    return [
        number("Eqn 9: share of steps at which xi is positive", "1", f"{np.mean(np.array(path) > 0):.3f}"),
        number("Theorem 2: share of steps at which distinct tokens' logits rise", "1", f"{rise:.3f}"),
        number("Theorem 2: share of steps at which the common token's logit falls", "1", f"{fall:.3f}"),
    ]


def competition(weights: YZ, task: SequenceClasses) -> float:
    """Return xi of the first class, by the gradient of its dominant token: what classes that compete push it by."""
    dominant, counts = task.distinct_tokens[0, -1], population(task)
    f = torch.nn.functional.normalize(attention(weights.z, counts.context, counts.query)[0, 0], dim=0)
    residual = -forward(weights, counts)[0, 0].exp()
    residual[task.labels[0]] += 1
    g = weights.y[0] @ residual
    return (g[dominant] / f[dominant] - f @ g).item()


def gains(eta_y: float, eta_z: float, until: float) -> _Gains:
    """Follow Syn-Small's population until the dominant distinct token has grown by a factor chi."""
    task = syn_small()
    counts = population(task)
    *others, dominant = task.distinct_tokens[0].tolist()
    swept, chi, start = 0.0, 1.0, torch.empty(0)
    for weights in population_ascent(task, eta_y, eta_z):
        now = attention(weights.z, counts.context, counts.query)[0, 0]
        start = start if len(start) else now
        chi = growth_factor(weights.z[0, task.queries[0], dominant].item(), 0.0).item()
        if chi >= until:
            break
        swept += eta_z * competition(weights, task) / task.n_classes
    late, early = (relative_gain(c[dominant].numpy(), c[others].numpy()) for c in (now, start))
    lower, upper = growth_bounds(swept, (start / start.norm())[dominant].item())
    return _Gains(chi, late / (early * chi), (float(lower), float(upper)))


def _gain_rows() -> list[dict[str, str]]:
    """Return Theorem 3: r(t) over r(0) chi(t), and chi within its bounds, for a fast and an equally fast decoder."""
    lines = []
    for eta_y, eta_z, until in (SLOW, FAST):
        chi, ratio, (lower, upper) = gains(eta_y, eta_z, until)
        rates = f"eta_Y / eta_Z = {eta_y / eta_z:g}"
        span = f"{ratio.min():.3f} to {ratio.max():.3f}"
        lines += [
            number(f"Theorem 3: r(t) / (r(0) chi), {rates}", "1", span, remark=f"at chi = {chi:.2f}"),
            number(f"Theorem 3: chi within its bounds, {rates}", "within", f"{chi:.3f}", bounds(lower, upper)),
        ]
    return lines


def growth_rows() -> list[dict[str, str]]:
    """Return Theorem 4: the growth integral by solving Eqn 13 numerically, beside the formula.

    With C_0 = 1 the formula as it is printed is the corrected one; with another C_0 it is off by (1/4) ln C_0.
    """
    lines, times = [], [50, 300, 700]
    for C_0 in _STARTS:
        theory = dataclasses.replace(_PAPER, C_0=C_0)
        for time, corrected, solved in zip(times, theory.growth_integral(times), growth(theory, times), strict=True):
            published = f"{corrected + np.log(C_0) / 4:.4f} (as printed); {corrected:.4f} (corrected)"
            lines.append(
                number(f"Theorem 4: B at t = {time}, C_0 = {C_0:g}, Eqn 13 solved", published, f"{solved:.4f}")
            )
    return lines


def growth(theory: ScanAndSnap, times: list[int]) -> np.ndarray:
    """Solve Eqn 13 numerically from B = 0; return B at some times."""
    solved = solve_ivp(
        lambda time, grown: theory.eta_z * theory.gamma(time) * np.exp(-4 * grown) / theory.C_0,
        (0, times[-1]), [0.0], t_eval=times, rtol=1e-8,
    )  # fmt: skip
    return np.asarray(solved.y[0])


def population_ascent(
    task: SequenceClasses,
    eta_y: float,
    eta_z: float,
    steps: int | None = None,
    probabilities: Float[Tensor, "cls token"] | None = None,
) -> Iterator[YZ]:
    """Yield the weights of the population's gradient ascent, from zero, before each step; they change in place.

    Tokens have these probabilities in place of the task's.
    """
    counts = population(task)
    if probabilities is not None:
        counts = counts._replace(context=probabilities[None])
    weights, done = zeros(1, task.d_vocab, torch.float64), 0
    while steps is None or done < steps:
        yield weights
        ascent = step(weights, counts).ascent
        weights.y.add_(ascent.y, alpha=eta_y)
        weights.z.add_(ascent.z, alpha=eta_z)
        done += 1


def population(task: SequenceClasses) -> Counts:
    """Return a row a class, with the probability of each token as its count."""
    return Counts(task.distribution()[None], task.queries[None], task.labels[None])
