"""Scan and Snap's Figure 7: the attention of one training sequence of WikiText as a one-layer model trains by SGD."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import folder as run_folder
from stagewise.experiments.wikitext_baseline import PROBE, Baseline, blocks, columns
from stagewise.tasks import WikiText

RATE, FFN_RATE, CLIP, DROPOUT, COLUMNS = 5.0, 10.0, 0.5, 0.3, 20


def figure_7(folder: Path, *, data: str | None = None, steps: int = 1500, progress: bool = True) -> str:
    """Train one layer on WikiText-2 by SGD and draw the probe sequence's attention at four moments.

    Writes `probe.csv` (`step, entropy, largest, change, loss`), `maps.npz` (`steps`, `attention`), `figure_7.png` and
    `.svg`; returns what to print. It takes about fifteen minutes of one core, and starts over if interrupted.

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
    corpus = WikiText(words="basic_english", data=data).corpus()
    rows = columns(corpus.ids["train"], COLUMNS)
    shown = [steps * part // 3 for part in range(4)]
    model, losses, maps = Baseline(len(corpus.vocabulary), dropout=DROPOUT), [], {}
    for step, loss in enumerate(tqdm(sgd(model, rows, steps), total=steps + 1, disable=not progress, desc="Figure 7")):
        losses.append(loss)
        if step in shown:
            maps[step] = attention_of(model, rows)
    table = _describe(maps, losses)
    run_folder.write(folder / "probe.csv", lambda partial: table.to_csv(partial, index=False))
    _write_maps(folder / "maps.npz", maps)
    figure = draw_maps(maps)
    for ending in ("png", "svg"):
        place = folder / f"figure_7.{ending}"
        run_folder.write(place, lambda partial, ending=ending: figure.savefig(partial, dpi=150, format=ending))  # type: ignore[misc]
    return table.round(3).to_string(index=False)


def sgd(model: Baseline, rows: Int[Tensor, "row column"], steps: int, seed: int = 1) -> Iterator[float | None]:
    """Yield the loss of each minibatch before its update, and None after the last update.

    SGD without momentum at rate 5, the first layer's FFN at 10, gradient norm clipped at 0.5, blocks in the order of
    the text. The seed is dropout's; the global generator is left as it was.
    """
    feed_forward = [parameter for name, parameter in model.named_parameters() if name.startswith("layers.0.linear")]
    others = [parameter for name, parameter in model.named_parameters() if not name.startswith("layers.0.linear")]
    optimiser = torch.optim.SGD([{"params": feed_forward, "lr": FFN_RATE}, {"params": others, "lr": RATE}])
    endless = itertools.chain.from_iterable(blocks(rows) for _ in itertools.count())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        state = torch.get_rng_state()
    for words, targets in itertools.islice(endless, steps):
        model.train()
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(state)
            logits, _ = model(words)
            state = torch.get_rng_state()
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        yield loss.item()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
    yield None


@torch.inference_mode()
def attention_of(model: Baseline, rows: Int[Tensor, "row column"]) -> Float[np.ndarray, "query key"]:
    """Return the lowest layer's attention on the probe sequence, without dropout."""
    model.eval()
    found: np.ndarray = model(rows[PROBE, :1])[1][0, 0].numpy().copy()
    model.train()
    return found


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


def _describe(maps: dict[int, np.ndarray], losses: list[float | None]) -> pd.DataFrame:
    """Row entropy (nats), largest weight, change since the panel before, mean training loss of the last 100 blocks."""
    found: list[tuple[Any, ...]] = []
    before: np.ndarray | None = None
    for step, attention in maps.items():
        entropy = -(attention * np.log(attention, where=attention > 0, out=np.zeros_like(attention))).sum(1).mean()
        change = np.nan if before is None else np.abs(attention - before).sum(1).mean() / 2  # an empty cell
        seen = [loss for loss in losses[max(0, step - 100) : step + 1] if loss is not None]
        found.append((step, entropy, attention.max(1).mean(), change, np.mean(seen)))
        before = attention
    return pd.DataFrame(found, columns=["step", "entropy", "largest", "change", "loss"])


def _write_maps(path: Path, maps: dict[int, np.ndarray]) -> None:
    def save(partial: Path) -> None:
        with partial.open("wb") as file:
            np.savez_compressed(file, steps=list(maps), attention=list(maps.values()))

    run_folder.write(path, save)
