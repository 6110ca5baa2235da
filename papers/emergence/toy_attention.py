"""One run of the toy attention model by SGD: from a setting to the interval in which its plateau ends."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.loss import training_loss
from stagewise.papers.tasks import SparseRegression
from stagewise.papers.theory.plateau_flow import THRESHOLD
from stagewise.task import derive_seed
from stagewise.training import descend
from stagewise.value_schedules import AbstractSchedule

_INIT = 3
"""Purpose of the seed of W_0, beside those of `stagewise.task`."""

HOOKS = ("hook_attn_scores", "hook_pattern", "hook_z", "hook_out")

_BUDGET, _EVERY = 50_000, 5
"""Largest number of steps of a run, and steps between two evaluations."""


def run_toy(
    T: int,
    d: int,
    B: int | AbstractSchedule = 1,
    p: float | AbstractSchedule = 0.0,
    seed: int = 0,
    weights: Literal["zero", "random"] = "zero",
    learning_rate: float = 1.0,
    batch_size: int = 32,
    budget: int = _BUDGET,
    every: int = _EVERY,
) -> Mapping[str, float]:
    """Train the toy model on fresh data until its test loss is a fifth of the first; return `lo` and `hi` (steps).

    The test loss is the population's, in closed form from the parameters, and divided by 2 |W*|^2 / d = 1. With
    hi = inf the plateau outlasted the budget.

    Args:
        T: number of positions.
        d: dimension of a token.
        B: copies of the relevant token, or their schedule, tested with one copy.
        p: share of the sequences with the special token, or its schedule.
        seed: of teacher, data and initial weights.
        weights: W_0 = 0 as in the theory, or N(0, 1 / d).
        learning_rate: of plain SGD.
        batch_size: sequences a step.
        budget: largest number of steps.
        every: steps between two evaluations.

    Raises:
        ValueError: parameters without a meaning, as in `SparseRegression`.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 9.
    """
    task = check_toy(T, d, _at(B, 0), _at(p, 0), seed, budget, every)
    threshold = 2 * THRESHOLD * population_loss(torch.zeros(T), torch.zeros(d, d), task.teacher(), 1)
    for step, loss, _ in _descend_toy(T, d, B, p, seed, weights, learning_rate, batch_size, budget, every):
        if step and loss <= threshold:
            return {"lo": float(step - every), "hi": float(step)}
    return {"lo": float(budget // every * every), "hi": float("inf")}


def run_toy_curve(
    T: int,
    d: int,
    seed: int = 0,
    budget: int = _BUDGET,
    every: int = _EVERY,
    weights: Literal["zero", "random"] = "random",
) -> Mapping[str, list[float]]:
    """Train the toy model for a number of steps; return its `steps`, test `losses` and `attention` on the right token.

    Raises:
        ValueError: parameters without a meaning.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 9.
    """
    check_toy(T, d, seed=seed, budget=budget, every=every)
    steps, losses, attention = zip(
        *_descend_toy(T, d, seed=seed, weights=weights, budget=budget, every=every), strict=True
    )
    return {"steps": list(map(float, steps)), "losses": list(losses), "attention": list(attention)}


def _descend_toy(
    T: int,
    d: int,
    B: int | AbstractSchedule = 1,
    p: float | AbstractSchedule = 0.0,
    seed: int = 0,
    weights: Literal["zero", "random"] = "zero",
    learning_rate: float = 1.0,
    batch_size: int = 32,
    budget: int = _BUDGET,
    every: int = _EVERY,
) -> Iterator[tuple[int, float, float]]:
    """Yield step, test loss and attention on a relevant token at step 0 and every `every` updates.

    The arguments are those of `run_toy`.
    """
    if weights not in ("zero", "random"):
        raise ValueError(f'weights must be "zero" or "random", got {weights!r}')
    task = _task(T, d, 1, 0.0, seed)
    toy = build_toy(T, d)
    if weights == "random":
        generator = torch.Generator().manual_seed(derive_seed(seed, _INIT))
        with torch.no_grad():
            toy.W.copy_(torch.randn(d, d, generator=generator) / d**0.5)
    teacher = task.teacher()
    optimiser = torch.optim.SGD(toy.parameters(), lr=learning_rate)
    tested = 1 if isinstance(B, AbstractSchedule) else B

    def loss_at(step: int) -> Tensor:
        now = dataclasses.replace(task, n_copies=_at(B, step), p=_at(p, step))
        batch = now.stream(seed)(step, batch_size)
        return training_loss(toy(batch.tokens), batch.targets[:, -1])

    for step in descend(optimiser, loss_at, 0, budget):
        if step % every == 0:
            yield step, population_loss(toy.logits, toy.W, teacher, tested), float(toy.logits.detach().softmax(0)[-1])


def build_toy(n_positions: int, d: int) -> Any:
    """Build y = W sum_t softmax(a)_t x_t as a module with TransformerLens's hooks, with a = 0 and W = 0.

    It maps vectors [batch pos feature] to outputs [batch output]. Parameters: `logits` a [pos] and `W` [output
    feature]. Hooks: `hook_attn_scores` and `hook_pattern` [batch pos], `hook_z` [batch feature], `hook_out`.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, section 2.1.
    """

    class ToyAttention(models.hooked_module()):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.logits = torch.nn.Parameter(torch.zeros(n_positions))
            self.W = torch.nn.Parameter(torch.zeros(d, d))
            for name in HOOKS:
                setattr(self, name, models.hook_point())
            self.setup()

        def forward(self, x: Float[Tensor, "batch pos feature"]) -> Float[Tensor, "batch output"]:
            scores = self.hook_attn_scores(self.logits.expand(len(x), -1))
            pattern = self.hook_pattern(scores.softmax(-1))
            z = self.hook_z(einsum(pattern, x, "batch pos, batch pos feature -> batch feature"))
            outputs: Tensor = self.hook_out(z @ self.W.T)
            return outputs

    return ToyAttention()


def check_toy(
    T: int, d: int, B: int = 1, p: float = 0.0, seed: int = 0, budget: int = _BUDGET, every: int = _EVERY
) -> SparseRegression:
    """Return the task of a run, if it has a meaning.

    Raises:
        ValueError: it has none, as `SparseRegression` says, or its budget ends before the second evaluation.
    """
    if not 1 <= every <= budget:
        raise ValueError(f"the budget, {budget} steps, must reach the second evaluation, after {every} (at least 1)")
    return _task(T, d, B, p, seed)


def _at(value: Any, step: int) -> Any:
    return value.at(step) if isinstance(value, AbstractSchedule) else value


def _task(T: int, d: int, B: int, p: float, seed: int) -> SparseRegression:
    return SparseRegression(n_positions=T, d=d, n_copies=B, p=p, seed=seed)


@torch.no_grad()
def population_loss(
    logits: Float[Tensor, " pos"], W: Float[Tensor, "d d"], teacher: Float[Tensor, "d d"], n_copies: int
) -> float:
    """Return E|y - y*|^2 / 2 without repetition across samples, for tokens N(0, I / d) and the last B relevant.

    [ sum_{t irrelevant} alpha_t^2 |W|^2 + |s W - W*|^2 ] / (2 d),   s the attention on the relevant tokens
    """
    attention = logits.softmax(0)
    seen = attention[-n_copies:].sum()
    noise = (attention[:-n_copies] ** 2).sum() * (W**2).sum()
    return float((noise + ((seen * W - teacher) ** 2).sum()) / (2 * len(W)))
