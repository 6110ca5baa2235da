"""The attention maps of a layer over training, as an animated picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from stagewise.plot.maps import attention_map
from stagewise.table import select

_FRAMES = 60
"""Checkpoints that are shown, of more evenly chosen ones."""

_LAST = 1500
"""Milliseconds for which the last checkpoint stays."""

_DPI = 90


def attention_film(
    table: pd.DataFrame,
    path: str | Path,
    layer: int = 0,
    steps: Sequence[int] | None = None,
    milliseconds: int = 150,
) -> Path:
    """Write the mean attention of a layer, all heads in one map, checkpoint after checkpoint, as a GIF.

    Args:
        table: with `MeanPattern` rows and their maps, from `measure`.
        path: of the file, which ends in .gif.
        layer: of the model.
        steps: the checkpoints; None takes all, evenly chosen ones where they are many.
        milliseconds: for which a checkpoint is shown.

    Returns the path.

    Raises:
        ValueError: the table has no such rows, no such step, or the file is no GIF.
    """
    path = Path(path)
    if path.suffix != ".gif":
        raise ValueError(f"a film of attention maps is a .gif, got {path.name}")
    available = sorted(int(step) for step in select(table, "MeanPattern", "attention", layer=layer)["step"].unique())
    indices = np.unique(np.linspace(0, len(available) - 1, min(_FRAMES, len(available))).round().astype(int))
    chosen = [available[index] for index in indices] if steps is None else list(steps)
    frames = [_frame(table, step, layer) for step in chosen]
    durations = [*[milliseconds] * (len(frames) - 1), _LAST]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=True)
    return path


def _frame(table: pd.DataFrame, step: int, layer: int) -> Image.Image:
    figure = Figure(figsize=(3.6, 3.8), dpi=_DPI, layout="constrained", facecolor="white")
    axes = attention_map(table, step, layer, ax=figure.subplots())
    axes.set_title(f"layer {layer}, step {step}", fontsize=9.5)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("P", palette=Image.Palette.ADAPTIVE)
