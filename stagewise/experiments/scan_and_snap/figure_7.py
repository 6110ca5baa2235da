"""Scan and Snap's Figure 7: the attention of one training sequence of WikiText as a one-layer model trains by SGD."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from stagewise.checkpoints import run_folder
from stagewise.experiments.scan_and_snap.wikitext_model import BLOCK, PROBE, Baseline, columns, text_loss
from stagewise.experiments.scan_and_snap.wikitext_training import COLUMNS, Setting, train_baseline
from stagewise.tasks import WikiText

RATE, FFN_RATE, DROPOUT = 5.0, 10.0, 0.3

BLOCKS = 101
"""First blocks of the text, over which the notebook sums the loss that it prints."""


def figure_7(folder: Path, *, data: str | None = None, steps: int = 1500, progress: bool = True) -> str:
    """Train one layer on WikiText-2 by SGD and draw the probe sequence's attention at four moments.

    Writes `probe.csv` (`step, entropy, largest, change, loss`), `maps.npz` (`steps`, `attention`), `figure_7.png` and
    `.svg`; returns what to print. It takes about fifteen minutes of one core; an interrupted run resumes.

    Args:
        folder: where to write.
        data: folder of the text; see `WikiText`.
        steps: minibatches; the maps are drawn at 0, 1/3, 2/3 and all of them.
        progress: show a bar.

    Raises:
        ValueError: fewer than three minibatches.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 7 (top), with the settings of its notebook: seed 1 here, the
    notebook's is not known; its probe is the same place of the text, rows 3500 to 3534 of the first column.
    """
    if steps < 3:
        raise ValueError(f"figure 7 shows four moments: steps must be at least 3, got {steps}")
    corpus = WikiText(tokenizer="basic_english", data=data).corpus()
    rows = columns(corpus.ids["train"], COLUMNS)
    moments = [steps * part // 3 for part in range(4)]
    setting = Setting("sgd", RATE, FFN_RATE, steps, DROPOUT)
    looks = dict.fromkeys(moments, lambda model: look(model, rows))
    _, seen = train_baseline(setting, rows, len(corpus.vocabulary), looks, folder, progress=progress)
    maps = {step: seen[step]["attention"].numpy() for step in moments}
    table = _describe(maps, [seen[step]["loss"] for step in moments])
    run_folder.write(folder / "probe.csv", lambda partial: table.to_csv(partial, index=False))
    _write_maps(folder / "maps.npz", maps)
    figure = draw_maps(maps)
    for ending in ("png", "svg"):
        path = folder / f"figure_7.{ending}"
        run_folder.write(path, lambda partial, ending=ending: figure.savefig(partial, dpi=150, format=ending))  # type: ignore[misc]
    return table.round(3).to_string(index=False)


@torch.inference_mode()
def look(model: Baseline, rows: Int[Tensor, "row column"]) -> dict[str, Any]:
    """Return the lowest layer's attention on the probe sequence, and the loss (nats) on the notebook's 101 blocks."""
    model.eval()
    attention: Float[Tensor, "query key"] = model(rows[PROBE, :1])[1][0, 0].clone()
    return {"attention": attention, "loss": text_loss(model, rows[: BLOCKS * BLOCK + 1])}


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


def _describe(maps: dict[int, np.ndarray], losses: list[float]) -> pd.DataFrame:
    """Row entropy (nats), largest weight, change since the panel before, loss on the first blocks of the text."""
    rows: list[tuple[Any, ...]] = []
    before: np.ndarray | None = None
    for (step, attention), loss in zip(maps.items(), losses, strict=True):
        entropy = -(attention * np.log(attention, where=attention > 0, out=np.zeros_like(attention))).sum(1).mean()
        change = np.nan if before is None else np.abs(attention - before).sum(1).mean() / 2  # an empty cell
        rows.append((step, entropy, attention.max(1).mean(), change, loss))
        before = attention
    return pd.DataFrame(rows, columns=["step", "entropy", "largest", "change", "loss"])


def _write_maps(path: Path, maps: dict[int, np.ndarray]) -> None:
    def save(partial: Path) -> None:
        with partial.open("wb") as file:
            np.savez_compressed(file, steps=list(maps), attention=list(maps.values()))

    run_folder.write(path, save)
