"""Error rates of certificates on planted cases: heads that alone can do it, that can be replaced, that do nothing.

`python -m evidence.calibration.certificates FOLDER 8` trains eight seeds of each case, certifies them, and prints
the rates.
What is there in the folder is not trained again.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Generator, Tensor

from stagewise import architectures
from stagewise.architectures import OneHotInit
from stagewise.init import Config, InitialWeights, Shapes
from stagewise.plan import TrainPlan
from stagewise.recipe import Recipe, Seeds
from stagewise.replay.certifying import certify
from stagewise.task import AbstractTask, Batch
from stagewise.training import train


@dataclasses.dataclass(frozen=True)
class OneLag(AbstractTask):
    """Random tokens, to be copied from two positions back."""

    d_vocab: int = 4
    n_ctx: int = 8

    def sample(self, n: int, seed: int) -> Batch:
        tokens = torch.randint(self.d_vocab, (n, self.n_ctx), generator=torch.Generator().manual_seed(seed))
        position = torch.arange(self.n_ctx)
        scored = position >= 2
        keys = scored[:, None] & (position == (position - 2)[:, None])
        return Batch(tokens, tokens.roll(2, 1), scored.expand(n, -1), {"lag": keys.expand(n, -1, -1)})


@dataclasses.dataclass(frozen=True)
class LateInit(OneHotInit):
    """The minimal architecture's, with scores of keys at some lags that start below all others: so attention to these
    comes late and at once, as after a plateau. `away` has the logits for lags of 0, 1, and so on.
    """

    away: tuple[float, ...] = ()

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        weights, d, width = super().initial(cfg, shapes, generator), cfg.d_vocab, cfg.d_vocab + cfg.n_ctx
        queries = weights.tensors["blocks.0.attn.W_Q"]
        for lag, logits in enumerate(self.away):
            for position in range(lag, cfg.n_ctx):
                queries[:, d + position, d + position - lag] -= logits * width**0.5
        return weights


@dataclasses.dataclass(frozen=True)
class GainInit(LateInit):
    """The same, with heads whose output has a gain; at 0 they write nothing, and learn nothing."""

    gains: tuple[float, ...] = ()

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        weights, gains = super().initial(cfg, shapes, generator), torch.tensor(self.gains)[:, None]

        def amplify(z: Tensor, hook: Any) -> Tensor:
            return z * gains.to(z)

        return dataclasses.replace(weights, hooks={**weights.hooks, "blocks.0.attn.hook_z": amplify})


CASES = {"alone": (1.0, 0.0, 0.0), "replaceable": (1.0, 1.0, 0.0), "slowly replaceable": (1.0, 0.1, 0.0)}
"""Case -> the gain of each head: the first one is needed where it is alone, no other one ever is."""


def planted(gains: Sequence[float], seed: int = 0, steps: int = 96, every: int = 2) -> Recipe:
    """Return a training in which the heads have these gains, saved every so many steps."""
    task = OneLag()
    plan = TrainPlan(steps, 32, learning_rate=0.2, save=range(0, steps, every), seeds=Seeds(seed, seed))
    init = GainInit(1e-3, "xavier", away=(0.0, 0.0, 2.0), gains=tuple(gains))
    return Recipe(task, architectures.minimal(task.d_vocab, task.n_ctx, len(init.gains), init), plan)


def certified(folder: Path, recipe: Recipe, **how: Any) -> pd.DataFrame:
    """Train a run, and return its certificate."""
    train(recipe, folder, progress=False)
    return certify(folder, recipe=recipe, progress=False, **how)


def main(folder: Path, seeds: int) -> None:
    """Print each certificate's verdicts, then how many are false."""
    blocks = []
    for seed in range(seeds):
        for case, gains in CASES.items():
            rows = certified(folder / f"{case}-{seed}".replace(" ", "-"), planted(gains, seed), start=4)
            blocks.append(rows.assign(case=case, seed=seed, gain=[gains[int(name[-1])] for name in rows["subject"]]))
            print(
                blocks[-1][["case", "seed", "transition", "subject", "verdict", "value", "lo"]].to_string(header=False)
            )
    rows = pd.concat(blocks)
    is_needed = (rows["case"] == "alone") & (rows["gain"] == 1)
    print(pd.crosstab([rows["case"], rows["gain"]], rows["verdict"]).to_string())
    print(f"false needed: {(rows['verdict'][~is_needed] == 'needed').mean():.1%} of {(~is_needed).sum()}")
    print(f"found: {(rows['verdict'][is_needed] == 'needed').mean():.1%} of {is_needed.sum()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
