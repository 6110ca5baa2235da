"""A small recipe for every task, trained in minutes of one core: those that its class names, or one for any task."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from stagewise.architecture import Architecture
from stagewise.architectures import full, reshaped
from stagewise.fields import field_types
from stagewise.init import GaussianInit
from stagewise.plan import Seeds, TrainPlan
from stagewise.recipe import Recipe, outputs
from stagewise.schedules import logarithmic
from stagewise.task import AbstractTask

Preset = Callable[..., Recipe]
"""From a seed, numbers of heads and layers (None as the preset has them) and fields of the task to a recipe."""

_TEXT_INIT = GaussianInit(stds={"*.W_O": 0.0, "pos_embed.W_pos": 1.0})
"""Positions as large as the normed tokens beside them, and heads that write nothing yet: otherwise the heads of layer 0
learn to look at their own token at once, and previous-token heads form in the last layer, where no head reads them."""


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
        preset: one of `_presets_of(kind)`; None takes the first.
        seed: of the task (where it has one), the initial weights, the data and the evaluation.
        n_heads: heads of a layer, where not the preset's.
        n_layers: layers, where not the preset's.
        **fields: those of the task other than the preset's.

    Raises:
        ValueError: there is no such preset, or a field is out of range.
        TypeError: the task needs a field that is not given.
    """
    presets = _presets_of(kind)
    name = next(iter(presets)) if preset is None else preset
    if name not in presets:
        raise ValueError(f"{kind.__name__} has no preset {name!r}; there are {', '.join(presets)}")
    return presets[name](seed, n_heads, n_layers, **fields)


def _presets_of(kind: type[AbstractTask]) -> Mapping[str, Preset]:
    """Return the presets of a task by name, the default first; of a class that names none, one called "small"."""
    # Those of a parent class are sized for another task.
    own = kind.presets() if "presets" in vars(kind) else {}
    return own or {"small": partial(_any_task, kind)}


def _any_task(kind: type[AbstractTask], seed: int, n_heads: int | None, n_layers: int | None, **fields: Any) -> Recipe:
    """Return an ordinary two-layer transformer of the task's size, trained by AdamW. Without a warm-up, which might
    time what is learned first.
    """
    if not dataclasses.is_dataclass(kind):
        raise ValueError(f"a task is a frozen dataclass of its parameters, so that run.json can hold it: {kind!r}")
    seeded = {"seed": seed} if "seed" in field_types(kind) else {}
    task = kind(**{**seeded, **fields})
    shape = full(task.d_vocab, task.n_ctx, n_layers=2, n_heads=4, d_model=64, d_mlp=256)
    shape = dataclasses.replace(shape, config={**shape.config, **outputs(task)})
    plan = TrainPlan(steps=1500, batch_size=128, learning_rate=2e-3, seeds=Seeds(seed, seed, seed))
    return Recipe(task, reshaped(shape, n_heads, n_layers), plan)


class AbstractTextTask(AbstractTask):
    """A task of text, or of tokens."""

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "small": two attention-only layers of four heads."""
        return {"small": partial(_text_preset, cls)}


def _text_preset(
    kind: type[AbstractTask], seed: int, n_heads: int | None, n_layers: int | None, **fields: Any
) -> Recipe:
    """Return the preset of a task of text, or of tokens: attention only."""
    task = kind(**fields)
    shape = text_architecture(task.n_ctx, task.d_vocab)
    return Recipe(task, reshaped(shape, n_heads, n_layers), text_plan(3000, seed))


def text_architecture(n_ctx: int, d_vocab: int, n_layers: int = 2, *, attn_only: bool = True) -> Architecture:
    """Return the model for text of this size: four heads a layer, positions seen by queries and keys only."""
    config = {
        **{"n_layers": n_layers, "n_heads": 4, "d_model": 128, "d_head": 32, "d_mlp": 512},
        **{"n_ctx": n_ctx, "d_vocab": d_vocab, "attn_only": attn_only, "act_fn": "relu"},
        **{"normalization_type": "LN", "positional_embedding_type": "shortformer"},
    }
    return Architecture(config, _TEXT_INIT)


def text_plan(steps: int, seed: int) -> TrainPlan:
    """Return the training of a model for text: constant rate, cool-down over the last third.

    Without a warm-up, within which it would learn the frequencies of single tokens and of pairs: the loss at step 400
    of WikiText-2 is as low as with one of 200 steps.
    """
    save, seeds = logarithmic(12, steps, start=3), Seeds(seed, seed, seed)
    return TrainPlan(steps, 32, learning_rate=3e-3, cooldown=steps // 3, save=save, seeds=seeds)
