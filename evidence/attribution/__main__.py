"""Which samples made a head, scored against exact replays: `python -m evidence.attribution score recall 0 FOLDER`.

`score TASK SEED FOLDER` trains the run, replays its window with random halves of the samples (`--size 1`) or weights
changed by a part of it, and prints the linear datamodelling score of each method. `remove TASK SEEDS FOLDER` leaves the
samples out that helped most, counts them twice, and the same number of others of the same updates, and prints how much
later the head gets to the attention that it has at the window's end. Both resume. `pack TASK SEED FOLDER` writes the
replays to a file, and `rank TASK EFFECTS.npy` scores effects on it: see docs/samples-benchmark.md.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from jaxtyping import Float

from evidence.attribution import benchmark
from evidence.attribution.predicted import METHODS, Effects
from evidence.attribution.replays import Replayer, replay_all, weights_of
from evidence.attribution.scoring import additive_ceiling, crossing, datamodelling_score, noise_ceiling
from evidence.attribution.windows import LENGTH, Window, trained, window_of

app = typer.Typer(add_completion=False)

SHARE = 0.01
"""Part of the samples that is left out, or counted twice."""

OTHERS = 2
"""Draws of as many other samples of the same updates."""


def effects_of(window: Window, name: str) -> Effects:
    """Return what a method says of each sample, from disk where it was computed before."""
    path = window.place / f"{name.replace(' ', '-')}.pt"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(METHODS[name](window), path)
    found: Effects = torch.load(path)
    return found


@app.command()
def score(
    task: str,
    seed: int,
    folder: Path,
    replays: Annotated[int, typer.Option(help="an even number: half of them are complements")] = 100,
    nudged: Annotated[int, typer.Option(help="of these that are repeated from a start moved by rounding")] = 20,
    size: Annotated[float, typer.Option(help="by how much weights change; 1 leaves halves out")] = 1.0,
    length: Annotated[int, typer.Option(help="updates of the window")] = LENGTH,
    workers: int = 2,
) -> None:
    """Print the linear datamodelling score of each method on a run."""
    window = window_of(trained(task, seed, folder), length)
    replayer = Replayer(window)
    column, row = replayer.steps.index(window.stop), replayer.row
    draws = [(number, size, False) for number in range(replays)]
    changes = replay_all(window, draws, workers)[:, row, column]
    print(f"{task}, seed {seed}, L{window.head[0]}H{window.head[1]} to {window.relation}: steps {window.start} to")
    print(f"{window.stop}, {window.length * replayer.size} samples, {replays} replays, weights 1 +- {size:g}")
    print(f"standard deviation of attention over replays {changes.std():.3g}")
    for name in METHODS:
        effects = effects_of(window, name)
        changed = [weights_of((window.length, replayer.size), number, size) - 1 for number in range(replays)]
        predicted = np.array([float((effects * each).sum()) for each in changed])
        print(f"{name:20} {datamodelling_score(predicted, changes)}; predicted deviation {predicted.std():.3g}")
    print(f"ceiling of any sum over samples (a correlation): {additive_ceiling(changes):.2f}")
    if "EK-FAC" not in METHODS:
        print("EK-FAC: not scored, kronfluence is not installed")
    if nudged:
        again = replay_all(window, [(number, size, True) for number in range(nudged)], workers)[:, row, column]
        print(f"ceiling of replays from a start moved by rounding: {noise_ceiling(changes[:nudged], again):.3f}")


@app.command()
def remove(task: str, seeds: int, folder: Path, first: int = 0) -> None:
    """Print how much later an event comes without the samples that helped most, beside others of the same updates."""
    for seed in range(first, first + seeds):
        window = window_of(trained(task, seed, folder))
        replayer, effects = Replayer(window), effects_of(window, "exact")
        top = torch.zeros_like(effects).flatten()
        top[effects.flatten().topk(round(SHARE * top.numel())).indices] = 1
        top = top.view_as(effects)
        level = float(replayer.curves(torch.ones_like(effects))[replayer.row][replayer.steps.index(window.stop)])
        print(f"{task}, seed {seed}, L{window.head[0]}H{window.head[1]} to {window.relation}, {int(top.sum())} samples")
        for what, change in (("left out", -1), ("counted twice", 1)):
            delays = [
                later(window, replayer, 1 + change * each, level)
                for each in (top, *(matched(top, draw) for draw in range(OTHERS)))
            ]
            others = ", ".join(f"{delay:+.1f}" for delay in delays[1:])
            print(f"  {what}: {delays[0]:+.1f} steps; others {others}", flush=True)


@app.command()
def pack(
    task: str, seed: int, folder: Path, replays: int = 500, size: float = 1.0, to: Path = benchmark.FOLDER
) -> None:
    """Write the replays of a run to a file of the benchmark."""
    window = window_of(trained(task, seed, folder))
    print(benchmark.pack(window, task, replays, size, effects_of(window, "exact").numpy(), to))


@app.command()
def rank(
    task: str,
    effects: Annotated[Path | None, typer.Argument(help="an array of steps and samples; none for derivatives")] = None,
    size: float = 1.0,
) -> None:
    """Print the linear datamodelling score of effects on the replays of a task, without training."""
    replays = benchmark.load(task, size)
    attention, times = benchmark.rank(replays.derivatives if effects is None else np.load(effects), replays)
    number, samples = len(replays.times), replays.derivatives.size
    print(f"{task}, {replays.head}, {number} replays, {samples} samples, weights 1 +- {size:g}")
    print(f"attention {attention}; no sum over samples has a correlation above {benchmark.ceiling(replays):.2f}")
    print(f"time of the event {times}; {np.isinf(replays.times).sum()} replays do not get there")


def matched(top: Effects, draw: int) -> Effects:
    """Return as many samples of each update, at random."""
    order = torch.rand(top.shape, generator=torch.Generator().manual_seed(draw)).argsort(1).argsort(1)
    return (order < top.sum(1, keepdim=True)).float()


def later(window: Window, replayer: Replayer, weights: Effects, level: float) -> float:
    """Return how many steps later the head gets to a level than at the window's end."""
    curve: Float[np.ndarray, " reading"] = replayer.curves(weights)[replayer.row]
    return crossing(replayer.steps, curve, level) - window.stop


if __name__ == "__main__":
    torch.set_num_threads(1)
    app()
