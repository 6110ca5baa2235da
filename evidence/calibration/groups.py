"""Attribution of each stage to the data that carries its group: the Markov chain without one group, over seeds.

`python -m evidence.calibration.groups FOLDER 5` trains the demo with five seeds. From a step before stage 2 on, each
run goes on
with data in whose next tokens one group of lags has no part. What is there in the folder is not trained again.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.fields import Natural
from stagewise.findings.delays import find_delays
from stagewise.presets import recipe_for
from stagewise.recipe import Recipe
from stagewise.replay.branching import branch
from stagewise.tasks import MarkovChain
from stagewise.training import train
from stagewise.value_schedules import Shuffled

START, GROUPS = 60, (2, 3)
"""The first update without a group, and the groups that are left out one by one."""


@dataclasses.dataclass(frozen=True)
class ChainWithout(MarkovChain):
    """The Markov chain, whose next token does not depend on one group of lags: `without`, 0 for none."""

    without: Natural = 0

    def _group_logits(self, context: Int[Tensor, "row lag"]) -> Float[Tensor, "group row token"]:
        logits = super()._group_logits(context)
        if self.without:
            logits[self.without - 1] = 0
        return logits


def demo(seed: int) -> Recipe:
    """Return the demo on a chain of which a group can be left out."""
    recipe = recipe_for(MarkovChain, seed=seed)
    fields = {each.name: getattr(recipe.task, each.name) for each in dataclasses.fields(MarkovChain)}
    return dataclasses.replace(recipe, task=ChainWithout(**fields))


def delayed(folder: Path, recipe: Recipe) -> pd.DataFrame:
    """Train a run, and return how much later each transition comes without each group, and in another batch order."""
    train(recipe, folder, progress=False)
    changes: list[dict[str, Any]] = [{"task.without": group} for group in GROUPS]
    changes.append({"plan.draw": Shuffled(START, recipe.plan.steps, seed=1)})
    return branch(folder, changes, START, controls=False, recipe=recipe, progress=False)


def main(folder: Path, seeds: int) -> None:
    """Print the delays of each seed, then those over seeds."""
    tables = []
    for seed in range(seeds):
        rows = delayed(folder / str(seed), demo(seed))
        rows = rows[rows["transition"].str.startswith("attention")]
        tables.append(rows.assign(seed=seed, without=rows["change"]))
        print(tables[-1][["seed", "transition", "without", "value", "lo", "hi"]].to_string(index=False), flush=True)
    print(find_delays(pd.concat(tables)).to_string(index=False))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), int(sys.argv[2]))
