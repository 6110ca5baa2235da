"""A benchmark for influence methods: rank correlation of estimates with the exact shift of a transition, by replay.

`python -m evidence.calibration.influence FOLDER 5 [case]` trains five seeds of each case, replays each run without
each class of
predictions, from a step before the transition on, and compares the delays with `estimate_attribution`. What is there
in the folder is not trained again.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata, spearmanr, t

from stagewise import architectures
from stagewise.plan import Seeds, TrainPlan
from stagewise.presets import recipe_for
from stagewise.recipe import Recipe
from stagewise.replay._changes import named_classes
from stagewise.replay.attributing import estimate_attribution
from stagewise.replay.branching import branch
from stagewise.schedules import linear
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import AssociativeRecall, MarkovChain, SparseRegression
from stagewise.training import train

METHODS = {"gradient products": False, "preconditioned": True}
"""Estimate -> whether it is scaled as Adam scales updates."""

RESAMPLES = 2000
"""Resamples of the classes, of which the interval of a correlation is made."""


@dataclasses.dataclass(frozen=True)
class TwoLags(AbstractTask):
    """Random tokens, to be copied: at positions 3 to 6 from one position back, at positions 7 to 14 from four back."""

    d_vocab: int = 6
    n_ctx: int = 15

    def sample(self, n: int, seed: int) -> Batch:
        tokens = torch.randint(self.d_vocab, (n, self.n_ctx), generator=torch.Generator().manual_seed(seed))
        position = torch.arange(self.n_ctx)
        lag = torch.where(position >= 7, 4, 1)
        scored = position >= 3
        keys = scored[:, None] & (position == (position - lag)[:, None])
        of_lag = {name: (keys & (lag == of)[:, None]).expand(n, -1, -1) for name, of in {"near": 1, "far": 4}.items()}
        return Batch(tokens, tokens[:, position - lag], scored.expand(n, -1), of_lag)


_LAGS = TwoLags()
_PLAN = TrainPlan(steps=100, batch_size=32, learning_rate=0.05, save=range(0, 100, 4), states=(20,))
TWO_LAGS = Recipe(_LAGS, architectures.minimal(_LAGS.d_vocab, _LAGS.n_ctx, n_heads=1), _PLAN)
"""A run with two transitions of attention, each carried by the predictions of its positions."""


@dataclasses.dataclass(frozen=True)
class PlacedRegression(SparseRegression):
    """Sparse regression whose relevant vector is in one of eight groups of positions, each a relation."""

    def sample(self, n: int, seed: int) -> Batch:
        batch = super().sample(n, seed)
        group, relevant = torch.arange(self.n_positions) * 8 // self.n_positions, batch.relations["relevant"]
        groups = {f"relevant in group {number}": relevant & (group == number) for number in range(8)}
        return dataclasses.replace(batch, relations={**batch.relations, **groups})


class Case(NamedTuple):
    """A run, the classes that are left out one by one, from which step on, and the transitions that this may move."""

    recipe: Recipe
    classes: Sequence[str]
    start: int
    transitions: Sequence[str]


def cases(seed: int = 0) -> dict[str, Case]:
    """Return the cases by name."""
    lags = dataclasses.replace(TWO_LAGS, plan=dataclasses.replace(_PLAN, seeds=Seeds(seed, seed, seed)))
    markov = _shorter(recipe_for(MarkovChain, seed=seed), 270, 15)
    recall = _shorter(recipe_for(AssociativeRecall, seed=seed, n_pairs=6, n_tokens=16, n_copies=3.0), 1200, 50)
    regression = _shorter(recipe_for(SparseRegression, seed=seed), 300, 10)
    placed = PlacedRegression(
        **{each.name: getattr(regression.task, each.name) for each in dataclasses.fields(SparseRegression)}
    )
    return {
        "two lags": Case(lags, ["at position", "of token"], 4, ["attention to near", "attention to far"]),
        "Markov": Case(markov, ["of token"], 60, ["attention to I(2)", "loss 0.5"]),
        "recall": Case(recall, ["of token"], 100, ["loss 0.5"]),
        "sparse regression": Case(dataclasses.replace(regression, task=placed), ["with relevant in"], 20, ["loss 0.5"]),
    }


def _shorter(recipe: Recipe, steps: int, every: int) -> Recipe:
    return dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, steps=steps, save=linear(every, steps)))


def compared(folder: Path, case: Case) -> pd.DataFrame:
    """Return the exact delay of each transition without each class, and both estimates."""
    train(case.recipe, folder, progress=False)
    names = named_classes(case.recipe, folder, case.classes)
    changes = [{"plan.leave_out": (name,)} for name in names]
    how: Any = {"controls": False, "recipe": case.recipe, "progress": False}
    table = branch(folder, changes, case.start, **how)
    blocks = []
    for what in case.transitions:
        exact = table.loc[(table["transition"] == what) & (table["control"] == "change"), "value"].to_numpy(float)
        columns: dict[str, Any] = {"transition": what, "without": names, "exact": exact}
        for name, scaled in METHODS.items():
            own = estimate_attribution(
                folder, what, case.classes, case.start, preconditioned=scaled, recipe=case.recipe
            )
            columns[name] = own["estimate"].to_numpy()
        blocks.append(pd.DataFrame(columns))
    return pd.concat(blocks, ignore_index=True)


def correlation(exact: np.ndarray, estimate: np.ndarray) -> tuple[float, float, float]:
    """Return Spearman's rank correlation, and its 95 % interval over resamples of the classes."""
    # A transition that does not come any more is later than all others, however late.
    ranks = np.stack([rankdata(exact), rankdata(estimate)])
    draws = np.random.default_rng(0).integers(len(exact), size=(RESAMPLES, len(exact)))
    with np.errstate(invalid="ignore"):
        of_draws = [np.corrcoef(rankdata(ranks[:, draw], axis=1))[0, 1] for draw in draws]
    lo, hi = np.nanquantile(of_draws, [0.025, 0.975])
    return float(spearmanr(*ranks).statistic), float(lo), float(hi)


def over_seeds(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean over seeds, and its 95 % interval (Student's t); one seed has none."""
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))
    half = float(t.ppf(0.975, len(values) - 1)) * error
    return mean, mean - half, mean + half


def main(folder: Path, seeds: int, chosen: Sequence[str]) -> None:
    """Print the classes of each case, the rank correlations of each seed, and those over seeds."""
    of_seeds: dict[tuple[str, str, int, str], list[float]] = {}
    for seed in range(seeds):
        for name, case in cases(seed).items():
            if chosen and name not in chosen:
                continue
            rows = compared(folder / f"{name.replace(' ', '-')}-{seed}", case)
            print(rows.to_string(), flush=True)
            for what, of in rows.groupby("transition", sort=False):
                for method in METHODS:
                    value, lo, hi = correlation(of["exact"].to_numpy(), of[method].to_numpy())
                    print(
                        f"{name} {seed} | {what} | {len(of)} | {method} | {value:.2f} [{lo:.2f}, {hi:.2f}]", flush=True
                    )
                    of_seeds.setdefault((name, str(what), len(of), method), []).append(value)
    for (name, what, classes, method), values in of_seeds.items() if seeds > 1 else ():
        mean, lo, hi = over_seeds(values)
        print(f"{name} | {what} | {classes} | {method} | {len(values)} seeds | {mean:.2f} [{lo:.2f}, {hi:.2f}]")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
