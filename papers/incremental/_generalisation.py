"""Do the transformers of Figures 2 and 3 generalise, to longer sequences, and to a chain whose groups count otherwise?

The paper has no such figure. A model is trained as for Figure 3, with room for twice the positions, and measured at its
last checkpoint on other sequences of its own chain and of chains with the same features and other importances.
"""

import dataclasses
import functools
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from stagewise.architecture import Architecture
from stagewise.loss import divergence
from stagewise.measurement.engine import measure
from stagewise.papers.incremental import markov
from stagewise.papers.published import Result, over_seeds, table_of
from stagewise.papers.running import run_each
from stagewise.plot.axes import marker, ordered_colours
from stagewise.probes import KLToReference
from stagewise.recipe import Recipe
from stagewise.sweeping import parameter_grid
from stagewise.table import select
from stagewise.task import Batch
from stagewise.tasks import MarkovChain
from stagewise.training import train

DEPTHS, POSITIONS = (1, 2, 4), ("standard", "rotary")
"""Numbers of layers; learned absolute positions, of which those beyond the trained length never train, and rotary."""

FACTORS = {"groups more alike": 0.75, "I(1) counts more": 1.25}
"""Importance of the other chains, in that of the chain trained on."""

TRAINED, BEYOND = "as trained", "beyond the trained length"

SEQUENCES = 400


def recipe_of(depth: int, positions: str, seed: int, setting: str = "small") -> Recipe:
    """Return the run of Figure 3 with so many layers, positions of a kind, and room for twice the length."""
    made = markov.recipe("full", seed, setting=setting, model={"n_layers": depth})
    room = {"n_ctx": _longer(_chain(made)).n_ctx, "positional_embedding_type": positions}
    room |= {"rotary_dim": made.architecture.config["d_head"]} if positions == "rotary" else {}
    return dataclasses.replace(made, architecture=Architecture({**made.architecture.config, **room}))


def batches_of(recipe: Recipe) -> dict[str, Batch]:
    """Return the batches that a model is measured on, by name, each with the complete law of its chain as reference."""
    chain, seed = _chain(recipe), recipe.plan.seeds.evaluation
    longer = _longer(chain).probe_batch(SEQUENCES, seed)
    further = longer.scored.clone()
    further[:, : chain.n_ctx] = False
    found = {TRAINED: chain.probe_batch(SEQUENCES, seed), BEYOND: dataclasses.replace(longer, scored=further)}
    for name, factor in FACTORS.items():
        other = dataclasses.replace(chain, importance=chain.importance * factor)
        found[name] = other.probe_batch(SEQUENCES, seed)
    return {name: _with_its_law(batch) for name, batch in found.items()}


def figure_generalisation(
    folder: Path,
    setting: str = "small",
    seeds: Sequence[int] = range(3),
    *,
    workers: int = 1,
    progress: bool = True,
) -> Result:
    """Train every depth and kind of positions with every seed; say how far each model is from the law of each batch.

    Args:
        folder: holds the run folders.
        setting: "small" or "paper".
        seeds: of everything.
        workers: processes, of one thread each.
        progress: show bars.
    """
    cases = parameter_grid(depth=DEPTHS, positions=POSITIONS, seed=list(seeds))
    measured = run_each(functools.partial(_measured, folder=folder, setting=setting), cases, workers, progress=progress)
    table = pd.concat([pd.DataFrame(rows).assign(**case) for case, rows in zip(cases, measured, strict=True)])
    rows = []
    for (depth, positions, name), of in table.groupby(["depth", "positions", "batch"], sort=False):
        layers = "one layer" if depth == 1 else f"{depth} layers"
        rows.append(
            over_seeds(f"{layers}, {positions} positions: KL to the law, {name}, nats", "-", of["kl"].to_numpy())
        )
    for name in FACTORS:
        exact = table[table["batch"] == name].groupby("seed")["exact"].first().to_numpy()
        rows.append(over_seeds(f"the law trained on: KL to the law, {name}, nats", "-", exact))
    return Result(_draw(table), table_of(rows))


def _measured(case: Mapping[str, Any], folder: Path, setting: str, progress: bool) -> list[dict[str, Any]]:
    """Return a row a batch: the model's KL to its law (nats), and that of the law that the model was trained on."""
    recipe = recipe_of(**case, setting=setting)
    series = train(recipe, folder / f"depth-{case['depth']}-{case['positions']}-{case['seed']}", progress=progress)
    rows = []
    for name, batch in batches_of(recipe).items():
        kl = measure(series[-1:], [KLToReference()], batch, progress=False)
        rows.append(
            {"batch": name, "kl": select(kl, "KLToReference", "kl")["value"].item(), "exact": _exact(recipe, batch)}
        )
    return rows


def _exact(recipe: Recipe, batch: Batch) -> float:
    """Return the KL of the law that a model is trained on to a batch's own, nats."""
    (law,) = batch.references.values()
    *_, trained = _chain(recipe).references(batch).values()
    return float(divergence(law[batch.scored], trained[batch.scored], regression=False).mean())


def _with_its_law(batch: Batch) -> Batch:
    name = batch.nested_references[-1]
    return dataclasses.replace(batch, references={name: batch.references[name]}, nested=(name,))


def _chain(recipe: Recipe) -> MarkovChain:
    assert isinstance(recipe.task, MarkovChain)
    return recipe.task


def _longer(chain: MarkovChain) -> MarkovChain:
    return dataclasses.replace(chain, length=2 * chain.length + chain.window - 1)


def _draw(table: pd.DataFrame) -> Figure:
    """Draw the KL of every model to the law of each batch, a colour a depth and a marker a kind of positions."""
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    ax = figure.subplots()
    names = [TRAINED, BEYOND, *FACTORS]
    colours = ordered_colours([str(depth) for depth in DEPTHS])
    kinds = [(depth, positions) for positions in POSITIONS for depth in DEPTHS]
    for i, (depth, positions) in enumerate(kinds):
        of = table[(table["depth"] == depth) & (table["positions"] == positions)]
        place = of["batch"].map(names.index) + (i - (len(kinds) - 1) / 2) * 0.1
        label = f"{depth} {'layer' if depth == 1 else 'layers'}, {positions} positions"
        ax.plot(place, of["kl"], marker(POSITIONS.index(positions)), color=colours[str(depth)], label=label, alpha=0.8)
    for name in FACTORS:
        at, exact = names.index(name), table[table["batch"] == name]["exact"].mean()
        label = "the law trained on" if name == next(iter(FACTORS)) else "_"
        ax.plot([at - 0.4, at + 0.4], [exact] * 2, color="#888888", linewidth=1, label=label)
    ax.set(yscale="log", ylabel="KL(law of the sequences ‖ model), nats")
    ax.set_xticks(range(len(names)), [textwrap.fill(name, 16) for name in names])
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return figure
