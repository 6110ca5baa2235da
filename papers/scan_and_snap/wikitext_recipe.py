"""The record of a training of Scan and Snap's WikiText model, by which its folder opens like any other run."""

import numpy as np

from stagewise.papers.scan_and_snap._wikitext_model import BLOCK
from stagewise.papers.scan_and_snap._wikitext_training import CLIP, COLUMNS, Setting
from stagewise.papers.scan_and_snap.wikitext_hooked import BaselineInit, baseline
from stagewise.papers.tasks import WikiText
from stagewise.recipe import Recipe, Seeds, TrainPlan

CHECKPOINTS = 12
"""Checkpoints of a run, where nobody says how many: step 0 and eleven others, 47 MB each at the published size."""

_DECADES = 2
"""Decades of steps up to the last one, over which checkpoints are spaced evenly in log(step)."""


def baseline_recipe(setting: Setting, task: WikiText, checkpoints: int = CHECKPOINTS) -> Recipe | None:
    """Return the record of a training that saves checkpoints; None of one that saves none.

    It says on what the run is measured: windows of 35 words of the validation text. Dropout, the order of the training
    text and the optimiser that starts anew at each pass have no place in a plan: `baseline.json` records the setting,
    and `train` refuses the record.

    Args:
        setting: of the training.
        task: the text.
        checkpoints: how many at most; 0 saves none.

    Raises:
        ValueError: there would be one checkpoint, or a negative number.
    """
    if checkpoints == 0:
        return None
    architecture = baseline(task.d_vocab, setting.n_layers, BaselineInit(setting.seed, setting.dropout))
    plan = TrainPlan(
        steps=setting.steps,
        batch_size=COLUMNS,
        optimiser="sgd" if setting.optimiser == "sgd" else "adamw",
        learning_rate=setting.rate,
        weight_decay=0.0,
        clip=CLIP,
        rates={} if setting.ffn_rate is None else {"blocks.0.mlp.*": setting.ffn_rate},
        save=saved_steps(setting.steps, checkpoints),
        seeds=Seeds(setting.seed, setting.seed, evaluation=0),
        states=(),
    )
    return Recipe(task, architecture, plan)


def basic_english(data: str | None) -> WikiText:
    """Return the text that the published runs read, in windows as long as their blocks."""
    return WikiText(length=BLOCK, tokenizer="basic_english", data=data)


def saved_steps(steps: int, checkpoints: int) -> frozenset[int]:
    """Return step 0 and at most so many others, log-spaced over the last two decades up to the last step.

    Raises:
        ValueError: fewer than two.

    >>> sorted(saved_steps(1500, 8))
    [0, 15, 32, 70, 150, 323, 696, 1500]
    """
    if checkpoints < 2:
        raise ValueError(f"the first and the last step are saved: take 2 checkpoints or more, or 0, got {checkpoints}")
    first = max(1, round(steps / 10**_DECADES))
    return frozenset({0, *np.geomspace(steps, first, checkpoints - 1).round().astype(int).tolist()})
