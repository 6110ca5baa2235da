"""Fifteen seeds of the small task, the behaviour told in each: `python -m evidence.behaviours.seeds FOLDER [SEEDS]`."""

import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stagewise import find_onsets, measure, recipe_for, train
from stagewise.findings.behaviour import Behaviour, find_behaviour
from stagewise.probes.default_probes import default_probes
from stagewise.tasks import IndirectObjects
from stagewise.tasks.pairs import pairs_task
from stagewise.words.behaviour import behaviour

PAIRS = "ioi-small"

Told = dict[str, Any]
"""What is told of a seed: `since` when, the step `t50` with its interval, the `dip`, `heads` by kind, and the lines."""


def told(folder: Path, seed: int) -> Behaviour:
    """Train a seed of the preset where it is not trained, and return its behaviour on the prompts of the library."""
    recipe = recipe_for(IndirectObjects, seed=seed)
    series = train(recipe, folder, progress=False)
    batch = pairs_task(series, PAIRS, own=recipe.task).probe_batch(64, seed=0)
    table = measure(series, default_probes(series.architecture, batch), batch, progress=False)
    found = find_behaviour(table, find_onsets(table))
    assert found is not None
    return found


def kept(folder: Path, seed: int) -> Told:
    """Return what is told of a seed, from beside its run where it was told before."""
    path = folder / f"seed-{seed}.json"
    if not path.exists():
        start = time.process_time()
        found = told(folder / f"seed-{seed}", seed)
        told_of = {
            "since": found.since,
            "t50": found.t50,
            "dip": found.dip,
            "heads": found.heads[["kind", "formed", "t50"]].to_dict("records"),
            "lines": behaviour(found),
            "cpu_seconds": time.process_time() - start,
        }
        path.write_text(json.dumps(told_of, default=float), "utf-8")
    read: Told = json.loads(path.read_text("utf-8"))
    return read


def summary(seeds: Sequence[Told]) -> Iterator[str]:
    """Yield when the behaviour came, how many dipped before, of each kind its heads and when the first came, and the
    order of kinds.
    """
    came = [each["since"] for each in seeds if each["since"] is not None]
    half = [each["t50"][0] for each in seeds if not math.isnan(each["t50"][0])]
    yield f"came in {len(came)} of {len(seeds)}, surely from {_spread(came)} on; a dip before in {_dips(seeds)}"
    yield f"with an onset in {len(half)}, half-way at {_spread(half)}"
    kinds = sorted({head["kind"] for each in seeds for head in each["heads"] if head["kind"]})
    firsts = {kind: [_first(each, kind) for each in seeds] for kind in kinds}
    for kind in kinds:
        of = [sum(head["kind"] == kind for head in each["heads"]) for each in seeds]
        known = [step for step in firsts[kind] if not math.isnan(step)]
        yield f"{kind}: {sum(of)} heads in {sum(map(bool, of))} of {len(seeds)}, the first at {_spread(known)}"
    for one, other in itertools.combinations(kinds, 2):
        both = [pair for pair in zip(firsts[one], firsts[other], strict=True) if not math.isnan(sum(pair))]
        if both:
            yield f"{one} before {other} in {sum(a < b for a, b in both)} of {len(both)}"


def _first(told_of: Told, kind: str) -> float:
    """Return when the first head of a kind formed, or mattered where its attention has no onset; nan if unknown."""
    heads = [head for head in told_of["heads"] if head["kind"] == kind]
    times = [head["t50"] if math.isnan(head["formed"]) else head["formed"] for head in heads]
    return min((time for time in times if not math.isnan(time)), default=math.nan)


def _dips(seeds: Sequence[Told]) -> int:
    return sum(each["dip"] is not None for each in seeds)


def _spread(steps: Sequence[float]) -> str:
    return f"{statistics.median(steps):.0f} ({min(steps):.0f} to {max(steps):.0f})" if steps else "no known step"


def main() -> None:
    """Print each seed's lines, and the spread over seeds."""
    folder, number = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 15
    seeds = []
    for seed in range(number):
        seeds.append(each := kept(folder, seed))
        print(f"seed {seed} ({each['cpu_seconds']:.0f} CPU s)", *each["lines"], sep="\n  ", flush=True)
    print(*summary(seeds), sep="\n")


if __name__ == "__main__":
    main()
