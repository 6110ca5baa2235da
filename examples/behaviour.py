"""When did a behaviour come, which heads carry it, and which did it need? Indirect objects, in two layers of two heads.

    python examples/behaviour.py [FOLDER]   (a run, and nine that continue it without a head; five minutes of one core)

The prompts are the set "ioi-small", in the words of the task; a file of one's own takes its place.
"""

import dataclasses
import sys
from pathlib import Path

from stagewise import Batch, analyse, certify, recipe_for, schedules, train
from stagewise.table import select
from stagewise.tasks import IndirectObjects

PAIRS = "ioi-small"


def main(folder: Path, steps: int = 600) -> Path:
    """Train the run, print what is told of the behaviour, and which heads it needed; return the report."""
    recipe = recipe_for(IndirectObjects, n_layers=2, n_heads=2)
    plan = dataclasses.replace(recipe.plan, steps=steps, save=schedules.logarithmic(12, steps, start=5))
    recipe = dataclasses.replace(recipe, plan=plan)
    series, words = train(recipe, folder, progress=False), recipe.task.as_text(range(recipe.task.d_vocab))
    batch = Batch.from_pairs(PAIRS, lambda text: [words.index(word) for word in text.split()])
    analysis = analyse(series, folder.with_name(f"{folder.name}-pairs"), batch=batch, progress=False)
    print(analysis)
    if select(analysis.table, "BehaviourCurve", "difference")["lo"].iloc[-1] > 0:
        certificate = certify(folder, pairs=PAIRS, recipe=recipe, progress=False)
        print(certificate[["subject", "verdict", "value", "lo", "hi"]].to_string(index=False))
    return analysis.report


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/behaviour"))
