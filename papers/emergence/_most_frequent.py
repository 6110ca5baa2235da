"""The plateau of recall that was trained on many copies: does the model answer the sequence's most frequent value?"""

import functools
from collections.abc import Mapping
from typing import Any

import torch

from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._panels import draw_curves, panels
from stagewise.papers.emergence._runs import run_path, trained_on, trained_recall
from stagewise.papers.published import Result, over_seeds, table_of
from stagewise.papers.running import run_each
from stagewise.papers.tasks import AssociativeRecall
from stagewise.probes import Accuracy
from stagewise.sweeping import parameter_grid
from stagewise.table import select
from stagewise.task import Batch

BUDGET, SEQUENCES = 1800, 1024

LEARNED = 0.9
"""Accuracy in training from which on the test's plateau is read."""


def figure_values(request: FigureRequest) -> Result:
    """Train on several copies of the query's pair, then ask for a value that stands once, beside one that stands more.

    Each model is read where its accuracy on the sequences of training first reaches .9: how often it answers the most
    frequent value of the sequence, how often the right one, on sequences in which they are two.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figure 5 and the heuristic that explains its plateau.
    """
    budget = request.budget or BUDGET
    cases = [
        {"n_pairs": cell["N_pairs"], "n_tokens": cell["N_tokens"], "n_copies": float(cell["B"]), "seed": cell["seed"]}
        for cell in parameter_grid(**request.axes)
    ]
    one = functools.partial(_answers, runs=str(request.folder / "runs"), budget=budget, setting=request.setting)
    answers = run_each(one, cases, request.workers, progress=request.progress)
    figure, axes = panels(len(request.axes["B"]))
    rows = []
    for ax, B in zip(axes, request.axes["B"], strict=True):
        of = [each for each, case in zip(answers, cases, strict=True) if case["n_copies"] == B]
        curves = of[0]["curves"]
        draw_curves(ax, [(name, curves[name]) for name in ("in training", "on the test")])
        ax.set(ylabel="accuracy", ylim=(0, 1), title=f"B = {B:g}, seed {cases[0]['seed']}")
        for name in ("the most frequent value", "the right value", "on the test", "the heuristic in training"):
            what = f"B = {B:g}, at training's accuracy .9: share of answers, {name}"
            rows.append(over_seeds(what, "heuristic", [each[name] for each in of]))
    return Result(figure, table_of(rows))


def _answers(case: Mapping[str, Any], runs: str, budget: int, setting: str, progress: bool) -> dict[str, Any]:
    """Train a model and return its answers where training's accuracy is .9, and both accuracies over training.

    Raises:
        ValueError: training does not reach that accuracy.
    """
    parameters = {**case, "p": 0.0, "budget": budget, "setting": setting}
    test = select(trained_recall(runs, progress=progress, **parameters), "Accuracy", "accuracy")
    folder = run_path("recall", runs, **parameters)
    training = select(trained_on(folder), "Accuracy", "accuracy")
    reached = training[training["value"] >= LEARNED]["step"]
    if reached.empty:
        raise ValueError(f"{folder.name} does not reach an accuracy of {LEARNED} in training: raise the budget")
    step = int(reached.min())
    series = open_series(folder)
    at = list(series.steps).index(step)
    task = AssociativeRecall(case["n_pairs"], case["n_tokens"], case["n_copies"])
    frequent, right = contested(task, SEQUENCES, case["seed"])
    here = series[at : at + 1]
    tables = (measure(here, [Accuracy()], batch, progress=False) for batch in (frequent, right))
    shares = [float(select(table, "Accuracy", "accuracy")["value"].item()) for table in tables]
    return {
        "the most frequent value": shares[0],
        "the right value": shares[1],
        "on the test": float(test.loc[test["step"] == step, "value"].item()),
        "the heuristic in training": heuristic_accuracy(task, SEQUENCES, case["seed"]),
        "curves": {"in training": training, "on the test": test},
    }


def contested(task: AssociativeRecall, n: int, seed: int) -> tuple[Batch, Batch]:
    """Return sequences whose value stands once, while another one stands more often: with that and the right target.

    They are those of training with two copies or more of a pair, and another key of the context as their query.
    """
    batch, generator = task.sample(n, seed), torch.Generator().manual_seed(seed)
    keys, values = batch.tokens[:, :-1:2], batch.tokens[:, 1::2]
    copied = keys == batch.tokens[:, -1:]
    kept = (copied.sum(1) >= 2) & (~copied).any(1)
    drawn = torch.rand(keys.shape, generator=generator).masked_fill(copied, -1.0).argmax(1, keepdim=True)
    tokens = torch.cat([batch.tokens[:, :-1], keys.gather(1, drawn)], 1)[kept]
    first = copied.float().argmax(1, keepdim=True)
    targets = (values.gather(1, slot)[kept] for slot in (first, drawn))
    most, right = (torch.cat([torch.zeros_like(tokens[:, :-1]), target], 1) for target in targets)
    scored = batch.scored[kept]
    return Batch(tokens, most, scored, {}), Batch(tokens, right, scored, {})


def heuristic_accuracy(task: AssociativeRecall, n: int, seed: int) -> float:
    """Return how often the most frequent value of a training sequence is the right one; of several, one at random."""
    batch = task.sample(n, seed)
    values, target = batch.tokens[:, 1::2], batch.targets[:, -1:]
    counts = (values[:, :, None] == values[:, None]).sum(-1)
    most = counts == counts.max(1, keepdim=True).values
    return float(((most & (values == target)).sum(1) / most.sum(1)).mean())
