"""Scan and Snap's Figure 7: the attention of one training sequence of WikiText as a one-layer model trains by SGD."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from stagewise.checkpoints import run_folder
from stagewise.papers.published import Result, over_seeds, table_of, write_csv
from stagewise.papers.running import run_each
from stagewise.papers.scan_and_snap._wikitext_model import BLOCK, PROBE, Baseline, columns, text_loss
from stagewise.papers.scan_and_snap._wikitext_training import COLUMNS, Setting, train_baseline
from stagewise.papers.scan_and_snap.published import BLOCK_LOSS, PROBE_MAPS
from stagewise.papers.scan_and_snap.wikitext_recipe import CHECKPOINTS, baseline_recipe, basic_english

RATE, FFN_RATE, DROPOUT = 5.0, 10.0, 0.3

_SEEDS = 3
"""Runs of the figure, where no other number is asked for."""

_BLOCKS = 101
"""First blocks of the text, over which the notebook sums the loss that it prints."""


def figure_7(
    folder: Path,
    *,
    data: str | None = None,
    steps: int = 1500,
    n_layers: int = 1,
    seeds: int = _SEEDS,
    checkpoints: int = CHECKPOINTS,
    workers: int = 1,
    progress: bool = True,
) -> Result:
    """Train one layer, or several, on WikiText-2 by SGD and draw the lowest layer's attention on the probe sequence.

    Writes `probe.csv` (`seed, step, entropy, largest, change, loss`), and of seed 1, which is drawn, `maps.npz`
    (`steps`, `attention`). A seed of one layer takes about fifteen minutes of one core, each in a folder of its own; an
    interrupted run resumes. Seed 1's checkpoints make its folder one that can be measured and reported on.

    Args:
        folder: where to write.
        data: folder of the text; see `WikiText`.
        steps: minibatches; the maps are drawn at 0, 1/3, 2/3 and all of them.
        n_layers: 1 is the paper's upper row, 3 its lower one.
        seeds: how many, from 1 on.
        checkpoints: how many of seed 1 are saved at most, 47 MB each; 0 saves none.
        workers: processes that train at the same time.
        progress: show a bar.

    Raises:
        ValueError: fewer than three minibatches.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 7, with the settings of its notebook, whose seed is not known;
    its probe is the same place of the text, rows 3500 to 3534 of the first column.
    """
    if steps < 3:
        raise ValueError(f"figure 7 shows four moments: steps must be at least 3, got {steps}")
    runs = range(1, 1 + seeds)
    train = functools.partial(
        _looked_at,
        folder=folder,
        data=data,
        steps=steps,
        n_layers=n_layers,
        checkpoints=checkpoints,
    )
    seen = dict(zip(runs, run_each(train, runs, workers, progress=progress), strict=True))
    maps = {step: each["attention"].numpy() for step, each in seen[1].items()}
    table = pd.concat([_describe(each).assign(seed=seed) for seed, each in seen.items()])
    table = table[["seed", *table.columns[:-1]]]
    write_csv(folder / "probe.csv", table)
    _write_maps(folder / "maps.npz", maps)
    return Result(draw_maps(maps), table_of(probe_rows(table, n_layers)))


def _looked_at(
    seed: int, *, folder: Path, data: str | None, steps: int, n_layers: int, checkpoints: int, progress: bool
) -> dict[int, Any]:
    """Train from a seed; return what `_look` sees at the moments of the figure, by minibatch."""
    task = basic_english(data)
    rows = columns(task.corpus().ids["train"], COLUMNS)
    looks = dict.fromkeys((steps * part // 3 for part in range(4)), lambda model: _look(model, rows))
    setting = Setting("sgd", RATE, FFN_RATE, steps, DROPOUT, n_layers, seed)
    recipe = baseline_recipe(setting, task, checkpoints if seed == 1 else 0)
    run = folder / f"seed={seed}"
    return train_baseline(setting, rows, task.d_vocab, looks, run, recipe=recipe, progress=progress).seen


def probe_rows(table: pd.DataFrame, n_layers: int = 1) -> list[dict[str, str]]:
    """Return the mean entropy, largest weight and loss over seeds at each moment, beside what is published."""
    rows = []
    for step in table["step"].unique().tolist():
        at_step = table[table["step"] == step]
        entropy, largest = PROBE_MAPS.get(step, ("-", "-")) if n_layers == 1 else ("-", "-")
        loss = BLOCK_LOSS.get(step, "-") if n_layers == 1 else "-"
        for what, published, name in (
            (f"entropy of the probe map at minibatch {step}, nats", entropy, "entropy"),
            (f"mean largest weight at minibatch {step}", largest, "largest"),
            (f"loss on the first 101 blocks at minibatch {step}, nats", loss, "loss"),
        ):
            rows.append(over_seeds(what, published, at_step[name].to_numpy()))
    return rows


@torch.inference_mode()
def _look(model: Baseline, rows: Int[Tensor, "row column"]) -> dict[str, Any]:
    """Return the lowest layer's attention on the probe sequence, and the loss (nats) on the notebook's 101 blocks."""
    model.eval()
    attention: Float[Tensor, "query key"] = model(rows[PROBE, :1])[1][0, 0].clone()
    return {"attention": attention, "loss": text_loss(model, rows[: _BLOCKS * BLOCK + 1])}


def draw_maps(maps: dict[int, np.ndarray]) -> Figure:
    """Draw the attention maps side by side, a panel a step."""
    figure = Figure(figsize=(3.2 * len(maps), 3.6), layout="constrained")
    for (step, attention), ax in zip(maps.items(), figure.subplots(1, len(maps), squeeze=False)[0], strict=True):
        image = ax.imshow(attention, cmap="BuPu", vmin=0, vmax=1)
        ax.set_title(f"minibatch {step}", loc="left", fontsize=10)
        ax.set_xlabel("key")
    figure.axes[0].set_ylabel("query")
    figure.colorbar(image, ax=figure.axes, label="attention", shrink=0.8)
    return figure


def _describe(seen: Mapping[int, Mapping[str, Any]]) -> pd.DataFrame:
    """Row entropy (nats), largest weight, change since the panel before, loss on the first blocks of the text."""
    rows: list[tuple[Any, ...]] = []
    before: np.ndarray | None = None
    for step, each in seen.items():
        attention = each["attention"].numpy()
        entropy = -(attention * np.log(attention, where=attention > 0, out=np.zeros_like(attention))).sum(1).mean()
        change = np.nan if before is None else np.abs(attention - before).sum(1).mean() / 2  # an empty cell
        rows.append((step, entropy, attention.max(1).mean(), change, each["loss"]))
        before = attention
    return pd.DataFrame(rows, columns=["step", "entropy", "largest", "change", "loss"])


def _write_maps(path: Path, maps: dict[int, np.ndarray]) -> None:
    def save(partial: Path) -> None:
        with partial.open("wb") as file:
            np.savez_compressed(file, steps=list(maps), attention=list(maps.values()))

    run_folder.write(path, save)
