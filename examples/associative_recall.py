"""Associative recall: copying and selection heads, what the model needs, and when it emerged, in one report.

python examples/associative_recall.py [RUN_FOLDER]      (two minutes)
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import torch

import stagewise
from stagewise.papers.tasks import AssociativeRecall
from stagewise.table import select


def main(folder: Path, steps: int | None = None, **task: Any) -> Path:
    """Train, measure with the default probes, say which heads matter at the end, and return the report."""
    recipe = stagewise.recipe_for(AssociativeRecall, **task)
    if steps is not None:
        recipe = dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, steps=steps, save=None))
    analysis = stagewise.run(recipe, folder)
    print(analysis)
    table = analysis.table
    last = int(table["step"].max())
    for relation in ("value to key", "query to value"):
        mass = select(table, "AttentionTo", "along", relation=relation, step=last)
        best = mass.nlargest(1, "value").iloc[0]
        head = {"layer": best["layer"], "head": best["head"]}
        kl = select(table, "HeadAblation", "kl", kind="mean", control="head", step=last, **head)["value"].item()
        print(f"{relation}: L{best['layer']}H{best['head']}, mass {best['value']:.2f}, KL without it {kl:.2f} nats")
    return analysis.report


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/recall")))
