"""Lemmas 3 to 9 of Scan and Snap beside what they are about: gradients, descent step by step, roots, times; seconds."""

import itertools
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import lambertw
from torch import Tensor

from stagewise.papers.published import Result, number, table_of
from stagewise.papers.scan_and_snap._orders import SIZES
from stagewise.papers.scan_and_snap._theorems import ONE_COMMON
from stagewise.papers.scan_and_snap._theory_figures import finish, panels
from stagewise.papers.theory.scan_and_snap import ScanAndSnap
from stagewise.plot.axes import ordered_colours

RATES = (0.1, 0.5, 1.0, 2.0)
"""Rates eta_Y of Lemma 7, from Figure 8."""

STEPS, CHECKED = 100_000, 100
"""Descent steps of Lemma 7; those of Lemma 5."""

_SAMPLED = 400


class Gap(NamedTuple):
    """How far h by steps is ahead of h, over eta_Y / M: least and most, at some steps; and behind by how many steps."""

    least: float
    most: float
    at: list[float]
    behind: float


class Roots(NamedTuple):
    """Lemma 8: omega_0 M^.99 ln M, omega_1 over ln ln M / ln M, c', and the share of h where it says what holds."""

    omega_0: float
    omega_1: float
    c: float
    holds: float


class Stages(NamedTuple):
    """Lemma 9: the share of times at which its inequalities hold, and the constants of h's orders, in both stages."""

    holds: tuple[float, float]
    constants: tuple[float, float]


def weights_of_classes() -> tuple[Float[Tensor, "token k"], Float[Tensor, "k k"]]:
    """Return F, the classes' normalised attention before training, and E' = I - (I + E)^-1 with F^T F = I + E."""
    f = torch.nn.functional.normalize(ONE_COMMON.distribution().double(), dim=1).T
    eye = torch.eye(f.shape[1], dtype=f.dtype)
    return f, eye - torch.linalg.inv(f.T @ f)


def lemma_3(seed: int = 0) -> float:
    """Return how far the velocity of W = F^T Y by the modified gradient is from Eqn 8, of weights drawn at random.

        Y' = (f_n - F E' e_n) (e_n - alpha_n)^T,   w_j' = 1[j = n] (e_n - alpha_n)

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 3, with the sign of E' that its Lemma 14 has.
    """
    f, correction = weights_of_classes()
    M, K = f.shape
    y = torch.randn(M, M, generator=torch.Generator().manual_seed(seed), dtype=f.dtype)
    apart = 0.0
    for n in range(K):
        error = torch.eye(M, dtype=f.dtype)[n] - (y.T @ f[:, n]).softmax(0)
        moved = f.T @ torch.outer(f[:, n] - f @ correction[n], error)
        moved[n] -= error
        apart = max(apart, float(moved.abs().max()))
    return apart


def lemma_4(seed: int = 0, h: float = 0.05) -> float:
    """Return how far Eqn 10's velocity of attention's logits is from autograd's, at logits drawn at random.

        z_m' = gamma sum_n diag(f_n) sum_{n' != n} beta_nn' (f_n f_n^T - I) f_n'

    The decoder is Theorem 5's, Y = F (I - E') W, w_n = (M - 1) h zeta_n, from which gamma and beta follow exactly.

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 4, Theorem 5 and the proof of Theorem 1.
    """
    p = ONE_COMMON.distribution().double()
    K, M = p.shape
    z = torch.randn(M, generator=torch.Generator().manual_seed(seed), dtype=p.dtype, requires_grad=True)
    f = torch.nn.functional.normalize(p * z.exp(), dim=1).T
    with torch.no_grad():
        inverse = torch.linalg.inv(f.T @ f)
        w = h * (M * torch.eye(K, M, dtype=p.dtype) - 1)
        y, errors = f @ inverse @ w, torch.eye(K, M, dtype=p.dtype) - w.softmax(1)
        beta = -(inverse @ w @ errors.T).T  # [class, other], over gamma
        others = (beta - beta.diag().diag()) @ f.T
        along = (others * f.T).sum(1, keepdim=True)
        formula = (f.T * (along * f.T - others)).sum(0)
    likelihood = (f.T @ y).log_softmax(1)[range(K), range(K)].sum()
    (by_autograd,) = torch.autograd.grad(likelihood, z)
    return float((formula - by_autograd).abs().max())


def lemma_5(eta: float = 0.5, steps: int = CHECKED) -> float:
    """Return how far w_n and alpha_n after each descent step on one class are from their formulas in h*.

        w_n(s) = (M - 1) h*(s) zeta_n,   alpha_nn(s) = e^{M h*(s-1)} / (M - 1 + e^{M h*(s-1)})

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 5; zeta_n = (M e_n - 1) / (M - 1).
    """
    f, correction = weights_of_classes()
    M, n = len(f), 1
    y, h = torch.zeros(M, M, dtype=f.dtype), by_steps(M, [eta], steps)[0]
    target, apart = torch.eye(M, dtype=f.dtype)[n], 0.0
    for s in range(1, steps + 1):
        alpha = (y.T @ f[:, n]).softmax(0)
        y += eta * torch.outer(f[:, n] - f @ correction[n], target - alpha)
        rise = np.exp(M * h[s - 1])
        apart = max(apart, float((y.T @ f[:, n] - h[s] * (M * target - 1)).abs().max()))
        apart = max(apart, abs(float(alpha[n]) - rise / (M - 1 + rise)))
    return apart


def by_steps(M: int, rates: list[float], steps: int) -> Float[np.ndarray, "rate step"]:
    """Return h* by the recursion h*(s) = h*(s-1) + eta_Y / (M - 1 + e^{M h*(s-1)}), h*(0) = 0, for each rate.

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 5, Eqn 33.
    """
    h = np.zeros((steps + 1, len(rates)))
    for s in range(steps):
        h[s + 1] = h[s] + np.array(rates) / (M - 1 + np.exp(M * h[s]))
    return h.T


def gap(M: int, h_star: Float[np.ndarray, " step"], eta: float) -> Gap:
    """Return how far h*, by steps, is ahead of h, which solves the differential equation.

        0 <= h* - h <= 2 eta_Y / M,   h* - h -> 0,   h*(s) <= h(s + c), c = Theta(1), until s = ln M / eta_Y

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 7.
    """
    theory = ScanAndSnap(M=M, K=1, eta_y=eta)
    ahead = (h_star - theory.h(np.arange(len(h_star)))) * M / eta
    early = h_star[: int(theory.accumulation_time) + 1]
    reached = (np.expm1(M * early) + (M - 1) * M * early) / (M * eta)
    at = [float(ahead[step]) for step in (100, 1000, 10_000, 100_000) if step < len(ahead)]
    return Gap(float(ahead.min()), float(ahead.max()), at, float((reached - np.arange(len(early))).max()))


def roots(M: int) -> Roots:
    """Return where e^{M h} = (M - 1) M h: J_1 = [M^-(2 - omega_0), (1 + omega_1) ln M / M] lies between.

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 8 and its proof, by the branches of Lambert's function.
    """
    low, high = (-float(lambertw(-1 / (M - 1), branch).real) for branch in (0, -1))  # M h
    log = np.log(M)
    omega_1 = high / log - 1
    omega_0 = 2 + np.log(low / M) / log
    u = np.concatenate([np.geomspace(low / 100, 100 * high, _SAMPLED), [1.001 * low, 0.999 * high]])
    inside = (low <= u) & (u <= high)
    holds = (u <= np.log((M - 1) * u)) == inside
    c = M**omega_1 * M / ((M - 1) * log)
    return Roots(omega_0 * M**0.99 * log, omega_1 / (np.log(log) / log), c, float(holds.mean()))


def stages(M: int, K: int = 10, eta: float = 0.5) -> Stages:
    """Return whether Lemma 9's inequalities hold, from the first step on, and the constants of its orders of h.

        e^{M h} <= min(M - 1, (M - 1) M h),  h = O(eta_Y t / (M K))          until K ln M / eta_Y
        e^{M h} >= max(M - 1, (M - 1) M h),  h = O(ln(M eta_Y t / K) / M)   from 2 (1 + omega_1) K ln M / eta_Y on

    Source: Tian et al. (2023), arXiv:2305.16380, Lemma 9.
    """
    theory = ScanAndSnap(M=M, K=K, eta_y=eta)
    start = -2 * float(lambertw(-1 / (M - 1), -1).real) * K / eta
    early = np.geomspace(1, theory.accumulation_time, _SAMPLED)
    late = np.geomspace(start, 1e4 * start, _SAMPLED)
    (u, rise), (v, risen) = ((M * theory.h(times / K), np.exp(M * theory.h(times / K))) for times in (early, late))
    before, after = rise <= (M - 1) * np.minimum(1, u), risen >= (M - 1) * np.maximum(1, v)
    constants = (u / (eta * early / K)).max(), (v / np.log(M * eta * late / K)).max()
    return Stages((float(before.mean()), float(after.mean())), (float(constants[0]), float(constants[1])))


def figure_lemmas() -> Result:
    """Draw how far h by steps is ahead of h, and where e^{M h} is below (M - 1) M h.

    Source: Tian et al. (2023), arXiv:2305.16380, Lemmas 3 to 9 and Figure 8.
    """
    figure, (left, right) = panels(2)
    ahead, colours = {}, ordered_colours(list(SIZES))
    for M in SIZES:
        paths = by_steps(M, list(RATES), STEPS)
        for eta, path in zip(RATES, paths, strict=True):
            ahead[M, eta] = gap(M, path, eta)
        shown = np.unique(np.geomspace(1, STEPS, _SAMPLED).astype(int))
        continuous = ScanAndSnap(M=M, K=1, eta_y=1.0).h(shown)
        left.semilogx(shown, M * (paths[RATES.index(1.0)][shown] - continuous), color=colours[M], label=f"M = {M}")
    finish(left, "eta_Y = 1; Lemma 7: between 0 and 2", "M (h* - h) / eta_Y", "step")
    found = {M: roots(M) for M in SIZES}
    for name, label in {"omega_1": "omega_1 ln M / ln ln M", "c": "c'"}.items():
        right.semilogx(SIZES, [getattr(each, name) for each in found.values()], "o-", label=label)
    finish(right, "Lemma 8", "constant", "size M of the vocabulary")
    return Result(figure, table_of([*_gradient_rows(), *_gap_rows(ahead), *_root_rows(found), *_stage_rows()]))


def _gradient_rows() -> list[dict[str, str]]:
    return [
        number("Lemma 3: largest difference of W's velocity from its formula", "0", f"{lemma_3():.0e}"),
        number("Lemma 4: largest difference of its velocity from autograd's", "0", f"{lemma_4():.0e}"),
        number(f"Lemma 5: largest difference of w, alpha over {CHECKED} steps", "0", f"{lemma_5():.0e}"),
    ]


def _gap_rows(ahead: dict[tuple[int, float], Gap]) -> list[dict[str, str]]:
    every = list(ahead.values())
    apart = f"{min(each.least for each in every):.3f}, {max(each.most for each in every):.3f}"
    falls = ", ".join(f"{max(values):.1e}" for values in zip(*(each.at for each in every), strict=True))
    behind = {M: max(each.behind for (size, _), each in ahead.items() if size == M) for M, _ in ahead}
    return [
        number("Lemma 7: least and largest h* - h, over eta_Y / M", "0 to 2", apart),
        number("Lemma 7: largest h* - h, over eta_Y / M, at step 100, 1000, 10,000, 100,000", "to 0", falls),
        *(
            number(f"Lemma 7: steps by which h is behind, until ln M / eta_Y, M = {M}", "O(1)", f"{steps:.3f}")
            for M, steps in behind.items()
        ),
    ]


def _root_rows(found: dict[int, Roots]) -> list[dict[str, str]]:
    rows = [number("Lemma 8: share of h where it says what holds", "1", f"{min(e.holds for e in found.values()):.3f}")]
    names = {"omega_0": "omega_0 M^.99 ln M", "omega_1": "omega_1 ln M / ln ln M", "c": "c'"}
    published = {"omega_0": "O(1)", "omega_1": "Theta(1)", "c": "0.5 to 2"}
    for (name, what), (M, each) in itertools.product(names.items(), found.items()):
        rows.append(number(f"Lemma 8: {what}, M = {M}", published[name], f"{getattr(each, name):.3f}"))
    return rows


def _stage_rows() -> list[dict[str, str]]:
    found = [stages(M) for M in SIZES]
    rows = []
    for i, when in enumerate(("until K ln M / eta_Y", "from 2 (1 + omega_1) K ln M / eta_Y on")):
        holds = min(each.holds[i] for each in found)
        rows.append(number(f"Lemma 9: share of times at which its inequalities hold, {when}", "1", f"{holds:.3f}"))
        constants = ", ".join(f"{each.constants[i]:.3f}" for each in found)
        rows.append(number(f"Lemma 9: constant of h's order, {when}", "O(1)", constants))
    return rows
