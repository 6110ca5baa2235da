"""Levels of KL where one or two groups are learned, over many draws of the paper's chain, by a convex fit; minutes."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.loss import divergence
from stagewise.papers.incremental import markov
from stagewise.papers.incremental._drawing import finish, panels
from stagewise.papers.incremental.published import LEVELS
from stagewise.papers.published import Result, bounds, number, table_of
from stagewise.tasks import MarkovChain

DRAWS, SEQUENCES, HELD_OUT = range(20), 1500, 300

WITHIN = (0.025, 0.975)
"""Quantiles between which a further draw lies with a probability of 95 %."""

_STEPS = 60


def figure_draws(draws: Sequence[int] = DRAWS) -> Result:
    """Draw the KL to each truncated reference of the best model of the first group, and of the first two, a draw each.

    The heads of the best model read the tokens of their group evenly, and their values are fitted: logits that are a
    sum over groups of a matrix a group, of the count of each token there. It stands for the end of a stage, where the
    trained heads read other lags too.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 6, whose draw of the chain is not known.
    """
    levels = torch.stack([torch.stack([stage_levels(chain(seed), stage) for stage in (1, 2)]) for seed in draws])
    figure, axes = panels(2)
    rows, shares = [], []
    for stage, ax in zip((1, 2), axes, strict=True):
        published = LEVELS["1"][stage - 1].split(", ")
        for i, text in enumerate(published):
            of = levels[:, stage - 1, i].numpy()
            ax.plot(np.full(len(of), i), of, "o", color="#888888", markersize=3, label="a draw" if i == 0 else "_")
            ax.plot(i, _value(text), "x", color="black", label="published" if i == 0 else "_")
            what = f"KL to {_name(i)}, {stage} of 3 groups learned"
            rows.append(_row(f"{what}, nats", text, of))
            shares.append(share_below(what, _value(text), of))
        finish(ax, f"{stage} of 3 groups learned", "", "KL, nats")
        ax.set_xticks(range(3), [_name(i) for i in range(3)])
    return Result(figure, table_of([*rows, *shares]))


def chain(seed: int) -> MarkovChain:
    """Return a draw of the chain of Figure 1 at the paper's size."""
    task = markov.recipe("minimal", seed, setting="paper").task
    assert isinstance(task, MarkovChain)
    return task


def stage_levels(task: MarkovChain, groups: int) -> Float[Tensor, " reference"]:
    """Return the KL (nats) of each truncated reference to the best model of the first groups, on sequences held out."""
    (inputs, truth), (held, references) = _data(task, SEQUENCES, 0, groups), _data(task, HELD_OUT, 1, groups)
    weights = torch.zeros(inputs.shape[1], task.d_vocab, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = -(truth[-1].exp() * (inputs @ weights).log_softmax(-1)).sum(-1).mean()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    predicted = (held @ weights.detach()).log_softmax(-1)
    return torch.stack([divergence(each, predicted, regression=False).mean() for each in references])


def _data(task: MarkovChain, n: int, seed: int, groups: int) -> tuple[Tensor, Tensor]:
    """Return for each scored position how often each token stands in each group, and the references' log-probs."""
    batch = task.sample(n, seed)
    ends = np.cumsum((0, *task.spans))
    counts = []
    for first, last in itertools.pairwise(ends[: groups + 1]):
        lags = [torch.nn.functional.one_hot(_lagged(batch.tokens, lag), task.d_vocab) for lag in range(first, last)]
        counts.append(torch.stack(lags).sum(0))
    references = task.references(batch)
    nested = torch.stack([each[batch.scored] for name, each in references.items() if name != "uniform"])
    return torch.cat(counts, -1)[batch.scored].float(), nested


def _lagged(tokens: Tensor, lag: int) -> Tensor:
    """Return the token so many positions before each one; the first ones, which are not scored, are token 0."""
    return torch.nn.functional.pad(tokens, (lag, 0))[:, : tokens.shape[1]]


def _name(i: int) -> str:
    return "A*_1" if i == 0 else f"A*_1:{i + 1}"


def share_below(what: str, published: float, values: np.ndarray) -> dict[str, str]:
    """Return the row of the share of draws below the published value: its quantile among them.

    >>> share_below("KL", 2.0, np.array([1.0, 2.0, 3.0, 0.5]))["ours"]
    '0.50'
    """
    share = f"{(values < published).mean():.2f}"
    return number(f"share of draws below the published {what}", f"{WITHIN[0]} to {WITHIN[1]}", share)


def _value(published: str) -> float:
    return float(published.split()[0])


def _row(what: str, published: str, values: np.ndarray) -> dict[str, str]:
    lo, hi = np.quantile(values, WITHIN)
    return number(what, published, f"{values.mean():.3f}", bounds(lo, hi), f"{len(values)} draws")
