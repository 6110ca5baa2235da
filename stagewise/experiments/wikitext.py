"""Small transformers on WikiText: train, probe every checkpoint on held-out text and on repeated tokens, report."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from stagewise.architecture import Architecture
from stagewise.checkpoints import run_folder
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe
from stagewise.probes import (
    AttentionEntropy,
    AttentionTo,
    Copying,
    HeadAblation,
    InContextLearning,
    KLToReference,
    Loss,
    LossAgainstReferences,
    MeanPattern,
    OffsetProfile,
    PatternClusters,
    RestrictedContextKL,
)
from stagewise.recipe import Recipe, Seeds, TrainPlan
from stagewise.reporting.page import report
from stagewise.schedule import logarithmic
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens, WikiText
from stagewise.text.corpus import Words
from stagewise.training import train

WINDOWS = 96
"""Windows of a probe batch: 95 % intervals of a loss are then about 0.1 nats wide."""

NUMBERS = 10**7
"""Log-probabilities of one pass that fit in memory beside those of the edited ones: of many words fewer windows."""

CONTEXTS = (1, 2, 3, 4, 8, 16, 32)

OFFSETS = 16
"""Offsets by which heads are clustered: farther ones hold little, and that evenly."""

LAYERS = range(1, 5)

INIT = GaussianInit(stds={"*.W_O": 0.0, "pos_embed.W_pos": 1.0})
"""Positions as large as the normed tokens beside them, and heads that write nothing yet: otherwise the heads of layer 0
learn to look at their own token at once, and previous-token heads form in the last layer, where no head reads them."""

MAPS = 40_000
"""Weights of a checkpoint's mean maps that are kept, of its first positions: more take gigabytes of memory in all."""


def recipe(
    n_layers: int = 2,
    *,
    attn_only: bool = True,
    words: Words = "bpe",
    n_words: int | None = 1024,
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
        words: how the text is tokenised; see `WikiText`.
        n_words: size of the vocabulary.
        length: positions of a window.
        repeating: share of the training windows that say an excerpt again and again; see `WikiText`.
        steps: optimiser updates.
        seed: of the initial weights, the windows drawn and the evaluation.
        data: folder of the text.

    Raises:
        ValueError: a number out of range.
        OSError: neither folder nor hub can be reached.
    """
    if n_layers not in LAYERS:
        raise ValueError(f"layers must be {LAYERS[0]} to {LAYERS[-1]}, got {n_layers}")
    task = WikiText(length=length, words=words, n_words=n_words, data=data, repeating=repeating)
    config = {
        "n_layers": n_layers,
        "n_heads": 4,
        "d_model": 128,
        "d_head": 32,
        "d_mlp": 512,
        "n_ctx": length,
        "d_vocab": task.d_vocab,
        "attn_only": attn_only,
        "act_fn": "relu",
        "normalization_type": "LN",
        "positional_embedding_type": "shortformer",
    }
    plan = TrainPlan(
        steps=steps,
        batch_size=32,
        learning_rate=3e-3,
        warmup=200,
        cooldown=steps // 3,
        save=logarithmic(12, steps, start=3),
        seeds=Seeds(seed, seed, seed),
    )
    return Recipe(task, Architecture(config, INIT), plan)


def probes(length: int, n_heads: int) -> list[AbstractProbe]:
    """Return what is measured on held-out text, for windows of a length and heads of all layers together."""
    return [
        Loss(),
        KLToReference(),
        LossAgainstReferences(),
        InContextLearning(),
        AttentionTo(),
        AttentionEntropy(),
        RestrictedContextKL(tuple(context for context in CONTEXTS if context < length)),
        HeadAblation(kinds=("mean",)),
        PatternClusters(max_offset=OFFSETS),
        OffsetProfile(),
        MeanPattern(math.isqrt(MAPS // n_heads)),
    ]


def text_batch(task: WikiText, seed: int) -> Batch:
    """Return windows of the validation text, those in which a token comes twice: nearly all."""
    batch = task.probe_batch(max(8, min(WINDOWS, NUMBERS // (task.length * task.d_vocab))), seed)
    kept = torch.stack([mask.any((1, 2)) for mask in batch.relations.values()]).all(0)
    return batch[kept]


def repeated_batch(task: WikiText, seed: int) -> Batch:
    """Return random tokens and some again, of the frequent half of the vocabulary: the rest is barely trained."""
    counts = np.bincount(task.corpus().ids["train"], minlength=task.d_vocab)
    frequent = torch.from_numpy(np.argsort(-counts, kind="stable")[: max(task.d_vocab // 2, 2)].copy())
    length = min(RepeatedTokens.longest(task.length), len(frequent))
    batch = RepeatedTokens(len(frequent), length).probe_batch(WINDOWS, seed)
    return dataclasses.replace(batch, tokens=frequent[batch.tokens], targets=frequent[batch.targets], references={})


def measure_run(recipe: Recipe, folder: Path, *, progress: bool = True) -> pd.DataFrame:
    """Measure every checkpoint on held-out text and on repeated tokens, and write both tables; return the first.

    An interrupted measurement goes on.

    Raises:
        ValueError: the run is not one of WikiText.
    """
    task, seed = recipe.task, recipe.plan.seeds.evaluation
    if not isinstance(task, WikiText):
        raise ValueError(f"this measures runs of WikiText, {folder} is one of {type(task).__name__}")
    series, parts = open_series(folder), folder / "tables" / "parts"
    on_random = [AttentionTo(("previous token", "induction")), Copying()]
    repeated = repeated_batch(task, seed)
    measure(series, on_random, repeated, folder=parts, save=folder / run_folder.REPEATED, progress=progress)
    on_text = probes(task.length, recipe.architecture.n_layers * recipe.architecture.n_heads)
    held_out = text_batch(task, seed)
    return measure(series, on_text, held_out, folder=parts, save=folder / run_folder.TABLE, progress=progress)


def run(recipe: Recipe, folder: str | Path, *, progress: bool = True) -> Path:
    """Train, probe every checkpoint and write `report.html`; return its path. What a killed run had done stays done.

    Args:
        recipe: from `recipe`, or another one of WikiText.
        folder: the run folder.
        progress: show bars.

    Raises:
        ValueError: the folder belongs to another recipe.
    """
    folder = Path(folder)
    train(recipe, folder, progress=progress)
    measure_run(recipe, folder, progress=progress)
    return report(folder)
