"""Incremental learning of a high-order Markov chain: train, probe every checkpoint, find the stages, report."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stagewise.analysis import run as run_recipe
from stagewise.architecture import Architecture
from stagewise.architectures import OneHotInit, full, minimal
from stagewise.findings.stages import Stages, find_stages
from stagewise.papers.incremental.paper_block import paper_block
from stagewise.presets import recipe_for
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, HeadSpecialisation, KLToReference, Loss, MeanPattern, ValueAlignment
from stagewise.recipe import Recipe
from stagewise.schedules import linear, logarithmic
from stagewise.tasks import MarkovChain

SETTINGS = ("small", "paper")

_PRESETS: dict[str, Callable[..., Architecture]] = {"minimal": minimal, "full": full, "paper-block": paper_block}


class _Size(NamedTuple):
    """Fields that a setting changes in a preset of `MarkovChain`.

    Args:
        task: parameters of the chain.
        model: arguments of the architecture's function.
        plan: fields of the plan.
        save_every: steps between checkpoints; the first ones are log-spaced.
    """

    task: dict[str, Any]
    model: dict[str, Any]
    plan: dict[str, Any]
    save_every: int


_PAPER = {"d_vocab": 50, "length": 20, "temperature": 0.1, "features": "orthogonal", "n_sequences": 9000}
_FULL = {"spans": (4, 4, 4), "importance": 1.7}

_SIZES = {
    ("minimal", "small"): _Size({}, {}, {}, 15),
    # 1e-6 stands for the paper's 1e-9, which float32 loses; its own Figure 4 left has both at the same steps.
    ("minimal", "paper"): _Size(_PAPER, {"init": OneHotInit(1e-6)}, {"steps": 1200, "batch_size": 3000}, 10),
    ("full", "small"): _Size({}, {}, {}, 20),
    ("full", "paper"): _Size(
        _PAPER | _FULL,
        {"d_model": 255, "d_mlp": 64},
        {"steps": 2000, "batch_size": 3000, "learning_rate": 0.003},
        20,
    ),
}
"""By preset and setting. Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2."""


def recipe(
    preset: str = "minimal",
    seed: int = 0,
    n_heads: int = 3,
    setting: str = "small",
    model: Mapping[str, Any] | None = None,
    plan: Mapping[str, Any] | None = None,
    **task: Any,
) -> Recipe:
    """Return the recipe of a preset.

    Args:
        preset: "minimal", the one-layer architecture of Figure 1, "full", one block of an ordinary transformer, or
            "paper-block", the same with the paper's own block.
        seed: of the chain, the initial weights, the data and the evaluation.
        n_heads: number of heads.
        setting: "small", for two cores, or "paper".
        model: arguments of the preset's architecture, `architectures.minimal` for one, other than its own.
        plan: fields of the `TrainPlan` other than the preset's.
        **task: parameters of the `MarkovChain` other than the preset's.

    Raises:
        ValueError: an unknown preset or setting, or a parameter out of range.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2. Deviations: those of `architectures.full`; the
    minimal model's W_Q starts in U(-1e-6, 1e-6) at the paper's size, in U(-1e-3, 1e-3) at the small one, theirs in
    U(-1e-9, 1e-9).
    """
    if preset not in _PRESETS:
        raise ValueError(f"there is no preset {preset!r}; there are {', '.join(_PRESETS)}")
    if setting not in SETTINGS:
        raise ValueError(f"there is no setting {setting!r}; there are {', '.join(SETTINGS)}")
    sized = "full" if preset == "paper-block" else preset
    size = _SIZES[sized, setting]
    base = recipe_for(MarkovChain, sized, seed=seed, **{**size.task, **task})
    chain, fields = base.task, {**size.plan, **(plan or {})}
    architecture = _PRESETS[preset](chain.d_vocab, chain.n_ctx, n_heads=n_heads, **{**size.model, **(model or {})})
    saved = linear(size.save_every, fields.get("steps", base.plan.steps)) | logarithmic(6, size.save_every)
    return Recipe(chain, architecture, dataclasses.replace(base.plan, **{"save": saved, **fields}))


def few_probes(task: MarkovChain, architecture: Architecture) -> list[AbstractProbe]:
    """Return the rows for stages, heads and figures, at one pass a checkpoint."""
    chosen: list[AbstractProbe] = [Loss(), KLToReference(), AttentionTo(), HeadSpecialisation(), MeanPattern()]
    if isinstance(architecture.init, OneHotInit):
        chosen.append(ValueAlignment(task.value_features()))
    return chosen


def run(recipe: Recipe, folder: str | Path, *, restricted: bool = True, progress: bool = True) -> Stages:
    """Train, probe every checkpoint, find the stages and write `report.html`; return the stages.

    It is `analysis.run` with restricted-context models, one for each number of groups, trained beside the full one.

    Args:
        recipe: from `recipe`, or one with another architecture or plan.
        folder: the run folder.
        restricted: whether to train restricted-context models.
        progress: show bars.

    Raises:
        ValueError: the folder belongs to another recipe.
    """
    analysis = run_recipe(recipe, folder, restricted=restricted, progress=progress)
    return analysis.stages or find_stages(analysis.table)
