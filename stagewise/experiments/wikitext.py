"""Small transformers on WikiText: train, probe every checkpoint on held-out text and on repeated tokens, report."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np
import pandas as pd
import torch

from stagewise.analysis import Analysis, Probes
from stagewise.analysis import run as run_recipe
from stagewise.architecture import Architecture
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.measurement.baselines import Contexts
from stagewise.measurement.engine import Resources, measure
from stagewise.plan import logarithmic
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, Copying
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens, WikiText
from stagewise.text.corpus import TokenizerKind
from stagewise.training import train

WINDOWS = 96
"""Sequences of repeated tokens."""

RELATIONS = ("previous token", "induction")
"""Where heads are looked for on repeated tokens."""

LAYERS = range(1, 5)

INIT = GaussianInit(stds={"*.W_O": 0.0, "pos_embed.W_pos": 1.0})
"""Positions as large as the normed tokens beside them, and heads that write nothing yet: otherwise the heads of layer 0
learn to look at their own token at once, and previous-token heads form in the last layer, where no head reads them."""


def recipe(
    n_layers: int = 2,
    *,
    attn_only: bool = True,
    tokenizer: TokenizerKind = "bpe",
    vocab_size: int | None = 1024,
    length: int = 64,
    repeating: float = 0.3,
    steps: int = 5000,
    seed: int = 0,
    data: str | None = None,
) -> Recipe:
    """Return a recipe that trains in a few minutes of one core.

    Queries and keys see the positions, values do not ("shortformer", Press et al. 2021, arXiv:2012.15832): with this
    the loss falls sooner, at this size, than with positions in the residual stream. On the text as it is, this size and
    these minutes give no induction heads; where some of the training windows repeat themselves, they do.

    Args:
        n_layers: 1 to 4, of four heads and width 128.
        attn_only: without MLPs.
        tokenizer: how the text is tokenised; see `WikiText`.
        vocab_size: size of the vocabulary.
        length: positions of a window.
        repeating: share of the training windows that repeat an excerpt; see `WikiText`.
        steps: optimiser updates.
        seed: of the initial weights, the windows drawn and the evaluation.
        data: folder of the text.

    Raises:
        ValueError: a number out of range.
        OSError: neither folder nor hub can be reached.
    """
    if n_layers not in LAYERS:
        raise ValueError(f"layers must be {LAYERS[0]} to {LAYERS[-1]}, got {n_layers}")
    task = WikiText(length=length, tokenizer=tokenizer, vocab_size=vocab_size, data=data, repeating=repeating)
    model = architecture(length, task.d_vocab, n_layers, attn_only=attn_only)
    return Recipe(task, model, plan(steps, seed))


def architecture(n_ctx: int, d_vocab: int, n_layers: int = 2, *, attn_only: bool = True) -> Architecture:
    """Return the model for text of this size: four heads a layer, positions seen by queries and keys only."""
    config = {
        "n_layers": n_layers,
        "n_heads": 4,
        "d_model": 128,
        "d_head": 32,
        "d_mlp": 512,
        "n_ctx": n_ctx,
        "d_vocab": d_vocab,
        "attn_only": attn_only,
        "act_fn": "relu",
        "normalization_type": "LN",
        "positional_embedding_type": "shortformer",
    }
    return Architecture(config, INIT)


def plan(steps: int, seed: int) -> TrainPlan:
    """Return the training of a model for text: warm-up, constant rate, cool-down over the last third."""
    return TrainPlan(
        steps=steps,
        batch_size=32,
        learning_rate=3e-3,
        warmup=200,
        cooldown=steps // 3,
        save=logarithmic(12, steps, start=3),
        seeds=Seeds(seed, seed, seed),
    )


def repeated_batch(task: WikiText, seed: int) -> Batch:
    """Return random tokens and some again, of the frequent half of the vocabulary: the rest is barely trained."""
    counts = np.bincount(task.corpus().ids["train"], minlength=task.d_vocab)
    frequent = torch.from_numpy(np.argsort(-counts, kind="stable")[: max(task.d_vocab // 2, 2)].copy())
    length = min(RepeatedTokens.longest(task.length), len(frequent))
    batch = RepeatedTokens(len(frequent), length).probe_batch(WINDOWS, seed)
    return dataclasses.replace(batch, tokens=frequent[batch.tokens], targets=frequent[batch.targets], references={})


def measure_repeated(recipe: Recipe, folder: Path, *, progress: bool = True) -> pd.DataFrame:
    """Measure every checkpoint on repeated tokens and write the table; an interrupted measurement resumes.

    Raises:
        ValueError: the run is not one of WikiText.
    """
    if not isinstance(recipe.task, WikiText):
        raise ValueError(f"this measures runs of WikiText, {folder} is one of {type(recipe.task).__name__}")
    batch, probes = repeated_batch(recipe.task, recipe.plan.seeds.evaluation), [AttentionTo(RELATIONS), Copying()]
    parts, table = folder / "tables" / "parts", folder / run_folder.REPEATED
    return measure(open_series(folder), probes, batch, folder=parts, save=table, progress=progress)


def run(
    recipe: Recipe,
    folder: str | Path,
    *,
    restricted: Contexts = False,
    probes: Probes = None,
    extra_probes: Sequence[AbstractProbe] = (),
    **resources: Unpack[Resources],
) -> Analysis:
    """Do as `analysis.run` on held-out text, and measure every checkpoint on repeated tokens too.

    Args:
        recipe: from `recipe`, or another one of WikiText.
        folder: the run folder.
        restricted: whether to train restricted-context models, or of which contexts.
        probes: what to measure on text; None takes `default_probes`.
        extra_probes: what to measure on text besides.
        resources: device, dtype, workers, memory and progress, as in `analysis.run`; repeated tokens are measured on
            the CPU, in float32.

    Raises:
        ValueError: the folder belongs to another recipe.
    """
    folder, progress = Path(folder), resources.get("progress", True)
    device, dtype = resources.get("device", "cpu"), resources.get("dtype", "float32")
    train(recipe, folder, progress=progress, device=device, dtype=dtype)
    measure_repeated(recipe, folder, progress=progress)
    return run_recipe(recipe, folder, restricted=restricted, probes=probes, extra_probes=extra_probes, **resources)
