"""A small recipe for every task of the catalogue, trained in minutes of one core, and one for any other task."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from stagewise import analysis
from stagewise.analysis import Analysis, Probes
from stagewise.architecture import Architecture, full
from stagewise.experiments import wikitext
from stagewise.experiments.emergence.recipes import recall_budget, recall_recipe, regression_budget, regression_recipe
from stagewise.experiments.incremental import markov, regression
from stagewise.measurement.baselines import Contexts, restricted_recipe
from stagewise.measurement.engine import Resources
from stagewise.probe import AbstractProbe
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.task import AbstractTask
from stagewise.tasks import (
    AssociativeRecall,
    MarkovChain,
    MarkovRegression,
    RepeatedTokens,
    SequenceClasses,
    SparseRegression,
    Text,
    Tokens,
    WikiText,
    Windows,
)

Preset = Callable[..., Recipe]
"""From a seed, numbers of heads and layers (None as the preset has them) and fields of the task to a recipe."""


def recipe_for(
    kind: type[AbstractTask],
    preset: str | None = None,
    *,
    seed: int = 0,
    n_heads: int | None = None,
    n_layers: int | None = None,
    **fields: Any,
) -> Recipe:
    """Return the recipe of a preset of a task, one's own tasks included.

    Args:
        kind: the task's class.
        preset: one of `presets_of(kind)`; None takes the first.
        seed: of the task (where it has one), the initial weights, the data and the evaluation.
        n_heads: heads of a layer, where not the preset's.
        n_layers: layers, where not the preset's.
        **fields: those of the task other than the preset's.

    Raises:
        ValueError: there is no such preset, or a field is out of range.
        TypeError: the task needs a field that is not given.
    """
    presets = presets_of(kind)
    name = next(iter(presets)) if preset is None else preset
    if name not in presets:
        raise ValueError(f"{kind.__name__} has no preset {name!r}; there are {', '.join(presets)}")
    return presets[name](seed, n_heads, n_layers, **fields)


def presets_of(kind: type[AbstractTask]) -> Mapping[str, Preset]:
    """Return the presets of a task by name, the default first."""
    return PRESETS.get(kind) or {"small": partial(_any_task, kind)}


def run(
    recipe: Recipe,
    folder: str | Path,
    *,
    restricted: Contexts | None = None,
    probes: Probes = None,
    extra_probes: Sequence[AbstractProbe] = (),
    **resources: Unpack[Resources],
) -> Analysis:
    """Run as `analysis.run` does; WikiText is measured on repeated tokens too.

    Args:
        recipe: of any task.
        folder: the run folder.
        restricted: as in `analysis.run`; None trains baselines where the task names contexts for them.
        probes: what to measure, as in `analysis.run`.
        extra_probes: what to measure besides.
        resources: device, dtype, workers, memory and progress, as in `analysis.run`.
    """
    whole = wikitext.run if isinstance(recipe.task, WikiText) else analysis.run
    baselines = recipe.task.contexts is not None if restricted is None else restricted
    return whole(recipe, folder, restricted=baselines, probes=probes, extra_probes=extra_probes, **resources)


def _any_task(kind: type[AbstractTask], seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    """Return an ordinary two-layer transformer of the task's size, trained by AdamW.

    Without a warm-up: what is learned during one would begin no stage.
    """
    seeded = {"seed": seed} if "seed" in {field.name for field in dataclasses.fields(_dataclass(kind))} else {}
    task = kind(**{**seeded, **fields})
    shape = full(task.d_vocab, task.n_ctx, n_layers=2, n_heads=4, d_model=64, d_mlp=256)
    plan = TrainPlan(steps=1500, batch_size=128, learning_rate=2e-3, seeds=Seeds(seed, seed, seed))
    return Recipe(task, _shaped(_outputs(shape, task), n_heads, n_layers), plan)


def _dataclass(kind: type[AbstractTask]) -> Any:
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"a task is a frozen dataclass of its parameters, so that run.json can hold it: {kind!r}")
    return kind


def _outputs(architecture: Architecture, task: AbstractTask) -> Architecture:
    """Return the architecture with as many outputs as a regression has."""
    targets = task.sample(1, 0).targets
    if not targets.is_floating_point():
        return architecture
    return dataclasses.replace(architecture, config={**architecture.config, "d_vocab_out": targets.shape[-1]})


def _shaped(architecture: Architecture, n_heads: int | None, n_layers: int | None) -> Architecture:
    config = dict(architecture.config)
    if n_heads is not None:
        config |= {"n_heads": n_heads, "d_head": config["d_model"] // max(n_heads, 1)}
    if n_layers is not None:
        config["n_layers"] = n_layers
    return dataclasses.replace(architecture, config=config)


def _reshaped(recipe: Recipe, n_heads: int | None, n_layers: int | None, task: AbstractTask) -> Recipe:
    return dataclasses.replace(recipe, task=task, architecture=_shaped(recipe.architecture, n_heads, n_layers))


def _markov(name: str, seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    layers = {} if n_layers is None else {"n_layers": n_layers}
    return markov.recipe(name, seed, 3 if n_heads is None else n_heads, model=layers, **fields)


def _recall(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    task = AssociativeRecall(**fields)
    budget = recall_budget(task.n_pairs, task.n_tokens)
    recipe = recall_recipe(task.n_pairs, task.n_tokens, task.n_copies, task.p, seed, budget, "small", task.copies)
    config = {**recipe.architecture.config, "n_ctx": task.n_ctx}  # several queries are more positions
    sized = dataclasses.replace(recipe.architecture, config=config)
    return Recipe(task, _shaped(sized, n_heads, n_layers), recipe.plan)


def _sparse_regression(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    size = {"n_positions": 16, "d": 8, "positions": "random", "marked": True, "seed": seed}
    task = SparseRegression(**{**size, **fields})
    budget = regression_budget(task.n_positions, task.d, task.n_copies)
    recipe = regression_recipe(task.n_positions, task.d, task.n_copies, task.p, seed, budget, max(1, budget // 50))
    config = {**recipe.architecture.config, "d_vocab": task.d_vocab}
    sized = dataclasses.replace(recipe.architecture, config=config)
    return Recipe(task, _shaped(sized, n_heads, n_layers), recipe.plan)


def _markov_regression(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    task = MarkovRegression(**{"seed": seed, **fields})
    plan = dataclasses.replace(regression.sgd(), seeds=Seeds(seed, seed, seed))
    recipe = regression.regression_recipe(task, regression.theory(task, 3 if n_heads is None else n_heads), plan)
    return dataclasses.replace(recipe, architecture=_shaped(recipe.architecture, None, n_layers))


def _sequence_classes(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    task = SequenceClasses(**{"length": 31, "labels_per_query": 2, **fields})
    plan = TrainPlan(steps=600, batch_size=128, learning_rate=1e-3, seeds=Seeds(seed, seed, seed))
    shape = full(task.d_vocab, task.n_ctx, n_layers=1, n_heads=2, d_model=32, d_mlp=64)
    return Recipe(task, _shaped(shape, n_heads, n_layers), plan)


def _of_tokens(kind: type[AbstractTask], seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    task = kind(**fields)
    shape = _shaped(wikitext.architecture(task.n_ctx, task.d_vocab), n_heads, n_layers)
    return Recipe(task, shape, wikitext.plan(3000, seed))


def _wikitext(attn_only: bool, seed: int, n_heads: int | None, n_layers: int | None, **task: Any) -> Recipe:
    named = {key: task.pop(key) for key in ("tokenizer", "vocab_size", "length", "repeating", "data") if key in task}
    recipe = wikitext.recipe(2 if n_layers is None else n_layers, attn_only=attn_only, seed=seed, **named)
    return _reshaped(recipe, n_heads, None, dataclasses.replace(recipe.task, **task))  # type: ignore[type-var]


def _windows(seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    context = fields.pop("context", 4)
    return restricted_recipe(_markov("minimal", seed, n_heads, n_layers, **fields), context)


PRESETS: Mapping[type[AbstractTask], Mapping[str, Preset]] = {
    MarkovChain: {"minimal": partial(_markov, "minimal"), "full": partial(_markov, "full")},
    AssociativeRecall: {"small": _recall},
    SparseRegression: {"small": _sparse_regression},
    MarkovRegression: {"small": _markov_regression},
    SequenceClasses: {"small": _sequence_classes},
    RepeatedTokens: {"small": partial(_of_tokens, RepeatedTokens)},
    Text: {"small": partial(_of_tokens, Text)},
    Tokens: {"small": partial(_of_tokens, Tokens)},
    WikiText: {"attention-only": partial(_wikitext, True), "mlp": partial(_wikitext, False)},
    Windows: {"small": _windows},
}
"""By task and name, the default first; any other task has one preset, "small"."""
