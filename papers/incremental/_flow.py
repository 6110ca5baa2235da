"""Figure 10 of incremental learning and its theorems: the gradient flow of the heads, drawn and in numbers; seconds."""

import numpy as np
from matplotlib.figure import Figure

from stagewise import plot
from stagewise.papers.published import Result, bounds, mean_over, number, table_of
from stagewise.papers.theory.competitive import competitive_fixed_point, leftover_mass, plateau_losses
from stagewise.papers.theory.dynamics import solve, states_at
from stagewise.papers.theory.separation import CLOSE, cooperative_end, separation
from stagewise.papers.theory.tensor_factorisation import Heads, TensorFactorisation, half_times
from stagewise.papers.theory.trajectories import first_time
from stagewise.plot.axes import ordered_colours

NOISES = (1e-2, 1e-4, 1e-6, 1e-8)
"""Initial distances of the heads that Theorem 3's figure compares."""

_HALF_TIMES = {1e-2: "17.6, 128.8", 1e-4: "43.8, 200.3", 1e-6: "77.6, 276.8", 1e-8: "118.9, 359.1"}
"""Half-times of the second and third group, from earlier solutions of the same equations; the paper prints none."""


_ENDS = {0: "1.0; 2.9, -0.39, -1.09", 1: "0.2 / 0.8; 2.13", 2: "0.52 / 0.48; 2.1"}
"""Figure 10: masses and values of the head that learned each group, at the end."""


def figure_10(theory: TensorFactorisation | None = None, until: int = 500) -> Result:
    """Draw the loss of the reduced dynamics over time with its plateaus, and each head's attention masses.

    Args:
        theory: the dynamics; None takes those of the figure.
        until: the time to solve to.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figure 10.
    """
    theory = theory or TensorFactorisation()
    table = solve(theory, range(until + 1))
    figure = Figure(figsize=(11, 6), layout="constrained")
    above, below = figure.subfigures(2, squeeze=False).flat
    loss = plot.loss_curve(table, ax=above.subplots())
    for level in plateau_losses(theory):
        loss.axhline(level, color="#bbbbbb", linewidth=0.7, label="_plateau", zorder=0)
    loss.set_xlabel("time of the gradient flow (log scale; linear near 0)")
    for head, ax in enumerate(below.subplots(1, theory.n_heads, squeeze=False).flat):
        plot.head_masses(table, 0, head, ax=ax)
        ax.set_xlabel("time of the flow")
    return Result(figure, table_of(_ode_rows(theory, until)))


def _ode_rows(theory: TensorFactorisation, until: int) -> list[dict[str, str]]:
    """Return the levels of the loss, when each group is half learned, and the heads at the end."""
    end = theory.heads(states_at(theory, [until]))
    start, middle, first = theory.loss(theory.heads(theory.initial_state())), *plateau_losses(theory)[[2, 1]]
    masses = end.attention[0] @ theory.membership.T
    rows = [
        number("loss at the start", "6.12", f"{float(start):.3f}"),
        number("first plateau", "1.945", f"{slowest(theory, until, first, middle):.3f}", remark="slowest fall"),
        number("second plateau", "0.5", f"{slowest(theory, until, middle, 0.0):.3f}", remark="slowest fall"),
        number(f"loss at time {until}", "0", f"{float(theory.loss(end)[0]):.3f}"),
    ]
    for group, (half, left) in enumerate(zip(half_times(theory, until), ("5", "50", "230"), strict=True), start=1):
        what = f"time at which group {group}'s loss has halved"
        rows.append(number(what, f"about {left} (level left)", f"{half:.1f}", remark=f"noise {theory.noise:g}"))
    learned = end.values[0].argmax(axis=1)
    for head in np.argsort((learned - 1) % len(theory.widths)):  # as in the figure: those of I(2), of I(3), of I(1)
        what = f"head of group {learned[head] + 1}: masses on I(1), I(2), I(3); values"
        ours = f"{_numbers(masses[head])}; {_numbers(end.values[0, head])}"
        rows.append(number(what, _ENDS.get(int(learned[head]), "-"), ours, remark=f"time {until}"))
    return rows


def slowest(theory: TensorFactorisation, until: int, high: float, low: float) -> float:
    """Return the loss where it falls most slowly (in the logarithm of time) around a level: the height of a plateau.

    Args:
        theory: the dynamics.
        until: how far to solve them.
        high: the level of the plateau that theory gives.
        low: the one below: only losses nearer to `high` than to it count, and not above 1.2 times `high`.
    """
    times = np.geomspace(0.1, until, 2000)
    losses = theory.loss(theory.heads(states_at(theory, times)))
    near = np.flatnonzero((losses < 1.2 * high) & (losses > (high + low) / 2))
    falls = -np.gradient(losses, np.log(times))
    return float(losses[near[falls[near].argmin()]])


def figure_theorems(until: int = 400) -> Result:
    """Draw how far apart heads are over time for four initial distances, and the loss that ends where theory says.

    The heads of the natural flow stay close until differences have grown by the inverse of their initial distance,
    so that the time of parting grows without bound as that distance falls (Theorem 3); afterwards, with as many heads
    as groups, the loss goes to zero, with fewer to the plateau of as many groups as there are heads (Theorem 4).
    """
    times = np.linspace(0, until, 801)
    theories = {noise: TensorFactorisation(noise=noise) for noise in NOISES}
    figure = Figure(figsize=(10.5, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows, colours = [], ordered_colours(list(NOISES))
    for noise, theory in theories.items():
        heads = theory.heads(states_at(theory, times))
        left.semilogy(times, np.maximum(separation(heads), 1e-12), color=colours[noise], label=f"noise {noise:g}")
        right.plot(times, theory.loss(heads), color=colours[noise], label=f"noise {noise:g}")
        rows.append(number(f"time until which heads are within 0.1, noise {noise:g}", "finite, more with less noise",
                           f"{first_time(times, separation(heads), CLOSE):.1f}"))  # fmt: skip
        second, third = half_times(theory, until)[1:]
        what = f"times at which groups 2 and 3 are half learned, noise {noise:g}"
        rows.append(number(what, f"{_HALF_TIMES[noise]} (not the paper's)", f"{second:.1f}, {third:.1f}"))
    rows += [*sampled_rows(), *competitive_rows(until)]
    for n_heads in (1, 2, 3):
        theory = TensorFactorisation(n_heads=n_heads)
        end = float(theory.loss(theory.heads(states_at(theory, [3 * until])))[0])
        rows.append(
            number(f"loss of {n_heads} heads at the end", f"{cooperative_end(theory):.3f} (derived)", f"{end:.3f}")
        )
    left.set(xlabel="time of the flow", ylabel="largest distance of two heads", title="heads that start close")
    right.set(xlabel="time of the flow", ylabel="loss", title="the stages wait for them to part")
    for ax in (left, right):
        ax.legend(frameon=False, fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
    return Result(figure, table_of(rows))


def sampled_rows(n: int = 20_000, d: int = 4, noise: float = 1.0) -> list[dict[str, str]]:
    """Return Proposition 1: the regression on sampled inputs beside the tensor, for heads drawn at random.

    The features are random orthonormal d x d matrices, the inputs N(0, I) at each position. With noise on the answers
    the loss has its variance's half beside the tensor's, and the expected descent is that of the flow all the same:

        <sampled descent, velocity> / |velocity|^2

    is 1 in the mean over samples, for values and logits of the natural flow together.
    """
    theory, generator = TensorFactorisation(n_positions=8), np.random.default_rng(0)
    flat, _ = np.linalg.qr(generator.standard_normal((d * d, len(theory.widths))))
    features = flat.T.reshape(-1, d, d)
    state = generator.standard_normal(theory.initial_state().shape)
    heads, loss = theory.heads(state), float(theory.loss(theory.heads(state)))
    inputs = generator.standard_normal((n, theory.n_positions, d))
    errors = np.einsum("kp,koi,npi->no", theory.residual(heads), features, inputs)
    noisy = errors + noise * generator.standard_normal(errors.shape)
    descent = _sampled_descent(heads, features, inputs, noisy)
    velocity = theory.velocity(state)
    with_noise, of_noise = f"Proposition 1 with noise {noise:g} on the answers", 0.5 * noise**2 * d
    along = descent @ velocity / (velocity @ velocity)
    return [
        _over_samples(
            "Proposition 1: sampled loss of the regression over the tensor's", 0.5 * (errors**2).sum(-1) / loss
        ),
        _over_samples(f"{with_noise}: sampled loss less its own, over", (0.5 * (noisy**2).sum(-1) - of_noise) / loss),
        _over_samples(f"{with_noise}: sampled descent along the flow's", along),
    ]


def _sampled_descent(heads: Heads, features: np.ndarray, inputs: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return minus each sample's gradient by values and natural logits, as a state: <e x_i, .> in place of R_ki."""
    residual = np.einsum("no,koi,npi->nkp", errors, features, inputs)
    values, logits = (
        np.einsum("nkp,hp->nhk", residual, heads.attention),
        np.einsum("nkp,hk->nhp", residual, heads.values),
    )
    return np.concatenate([values.reshape(len(errors), -1), logits.reshape(len(errors), -1)], axis=1)


def _over_samples(what: str, values: np.ndarray) -> dict[str, str]:
    mean, lo, hi = mean_over(values)
    return number(what, "1", f"{mean:.3f}", bounds(lo, hi), f"{len(values)} samples")


def competitive_rows(until: int) -> list[dict[str, str]]:
    """Return Theorem 1: heads that start equal, at the end, beside the fixed point that they converge to."""
    theory = TensorFactorisation(noise=0.0)
    end = theory.heads(states_at(theory, [until]))
    mass, limit = (
        heads.attention[..., 0, :] @ theory.membership[0] for heads in (end, competitive_fixed_point(theory))
    )
    empty = (theory.n_positions - len(theory.widths)) * theory.n_heads / (theory.strengths[0] ** 2 * until)
    left = float(leftover_mass(theory, until)[1:].sum()) + empty
    what = f"Theorem 1: equal heads at time {until}"
    derived = f"{limit - left:.3f} (derived: {limit:.0f} in the limit)"
    return [
        number(f"{what}, mass on I(1)", derived, f"{mass[0]:.3f}"),
        number(f"{what}, loss", f"{plateau_losses(theory)[1]:.3f} (derived)", f"{theory.loss(end)[0]:.3f}"),
    ]


def _numbers(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
