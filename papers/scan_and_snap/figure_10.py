"""Scan and Snap's Figure 10: the entropy of attention on WikiText by the learning rate of plain SGD."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Int
from matplotlib.figure import Figure
from torch import Tensor

from stagewise.papers.published import Result, over_seeds, table_of, write_csv
from stagewise.papers.running import run_each
from stagewise.papers.scan_and_snap._wikitext_model import Baseline, blocks, columns
from stagewise.papers.scan_and_snap._wikitext_training import COLUMNS, Setting, train_baseline
from stagewise.papers.scan_and_snap.wikitext_recipe import baseline_recipe, basic_english
from stagewise.plot.axes import OKABE_ITO

_VALIDATION_COLUMNS = 10


class _Size(NamedTuple):
    """How large the figure is: rates, seeds, minibatches of a run, and blocks of the validation text (None: all)."""

    rates: tuple[float, ...]
    seeds: int
    steps: int
    blocks: int | None


SIZES = {
    "small": _Size((1.0, 3.0, 5.0), 3, 150, 10),
    "paper": _Size((1.0, 2.0, 3.0, 4.0, 5.0), 5, 2929, None),
}
"""A pass over the text is 2,929 minibatches; how many passes the paper made is not recorded."""


def figure_10(
    folder: Path,
    setting: str = "small",
    *,
    data: str | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    checkpoints: int = 0,
    workers: int = 1,
    progress: bool = True,
) -> Result:
    """Train one layer by SGD at several rates and seeds, and draw its attention's entropy on the validation text.

    Writes `entropy.csv` (`rate, seed, entropy`); an interrupted run resumes.

    Args:
        folder: where to write, a folder a run in it.
        setting: one of SIZES.
        data: folder of the text; see `WikiText`.
        steps: minibatches in place of the setting's.
        seeds: how many in place of the setting's, from 1 on.
        checkpoints: how many each run saves at most, 47 MB each: then its folder can be measured and reported on.
        workers: processes that train at the same time.
        progress: show a bar.

    Source: Tian et al. (2023), arXiv:2305.16380, Figure 10: one rate for all weights; its values are not recorded.
    """
    size = SIZES[setting]
    n_steps = steps or size.steps
    runs = [(rate, seed) for rate in size.rates for seed in range(1, 1 + (seeds or size.seeds))]
    train = functools.partial(
        _entropy,
        folder=folder,
        data=data,
        steps=n_steps,
        n_blocks=size.blocks,
        checkpoints=checkpoints,
    )
    entropies = run_each(train, runs, workers, progress=progress)
    table = pd.DataFrame(runs, columns=["rate", "seed"]).assign(entropy=entropies)
    write_csv(folder / "entropy.csv", table)
    return Result(
        _draw(table, n_steps), table_of([_row(rate, of_rate, n_steps) for rate, of_rate in table.groupby("rate")])
    )


def _entropy(
    run: tuple[float, int],
    *,
    folder: Path,
    data: str | None,
    steps: int,
    n_blocks: int | None,
    checkpoints: int,
    progress: bool,
) -> float:
    """Train at a rate from a seed, and return the entropy of attention on the validation text at the end."""
    rate, seed = run
    task = basic_english(data)
    ids = task.corpus().ids
    rows, held_out = columns(ids["train"], COLUMNS), columns(ids["validation"], _VALIDATION_COLUMNS)
    setting = Setting("sgd", rate, steps=steps, seed=seed)
    looks = {steps: lambda model: text_entropy(model, held_out, n_blocks)}
    path, recipe = folder / f"rate={rate:g}-seed={seed}", baseline_recipe(setting, task, checkpoints)
    _, seen = train_baseline(setting, rows, task.d_vocab, looks, path, recipe=recipe, progress=progress)
    entropy: float = seen[steps]
    return entropy


@torch.inference_mode()
def text_entropy(model: Baseline, rows: Int[Tensor, "row column"], n_blocks: int | None = None) -> float:
    """Return the lowest layer's attention entropy (nats), the mean over all queries of the first blocks of a text."""
    model.eval()
    total, queries = 0.0, 0
    for i, (words, _) in enumerate(blocks(rows)):
        if i == n_blocks:
            break
        entropy = torch.special.entr(model(words)[1][0]).sum(-1)
        total, queries = total + entropy.sum().item(), queries + entropy.numel()
    return total / queries


def _row(rate: Any, of_rate: pd.DataFrame, steps: int) -> dict[str, str]:
    what = f"entropy of attention at rate {rate:g} after {steps} minibatches, nats"
    return over_seeds(what, "falls with the rate, axis 0 to 2.0", of_rate["entropy"].to_numpy())


def _draw(table: pd.DataFrame, steps: int) -> Figure:
    figure = Figure(figsize=(4.6, 3.6), layout="constrained")
    ax = figure.subplots()
    ax.plot(table["rate"], table["entropy"], "o", color=OKABE_ITO[0], markersize=4, label="a seed")
    mean = table.groupby("rate")["entropy"].mean()
    ax.plot(mean.index, mean, color=OKABE_ITO[1], label="mean")
    ax.set(xlabel="learning rate of SGD", ylabel="entropy of attention, nats", ylim=(0, None))
    ax.set_title(f"WikiText, one layer, {steps} minibatches", fontsize=9, loc="left")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return figure
