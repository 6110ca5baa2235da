"""Whether attention freezes on WikiText: its entropy and how far it still moves, as one layer trains by SGD."""

import functools
import itertools
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from stagewise.papers.published import Result, number, over_seeds, table_of, write_csv
from stagewise.papers.running import run_each
from stagewise.papers.scan_and_snap._syn_small_figures import FREEZING_SHARE, frozen_at
from stagewise.papers.scan_and_snap._wikitext_model import BLOCK, PROBE, Baseline, columns
from stagewise.papers.scan_and_snap._wikitext_training import COLUMNS, Setting, train_baseline
from stagewise.papers.scan_and_snap.figure_7 import DROPOUT, FFN_RATE, RATE
from stagewise.papers.tasks import WikiText
from stagewise.plot.axes import OKABE_ITO

STEPS, EVERY = 2900, 50
"""Minibatches of a run, nearly one pass over the text, and between two looks at its attention."""

WINDOW = 5
"""Changes from look to look that make a path."""

WORDS = {"small": 2000, "paper": None}
"""Size of the vocabulary, the most frequent words; None is all 28,782 of the paper, at fifteen times the time."""


def figure_freezing(
    folder: Path,
    setting: str = "small",
    *,
    data: str | None = None,
    steps: int = STEPS,
    seeds: int = 3,
    workers: int = 1,
    progress: bool = True,
) -> Result:
    """Train one layer on WikiText-2 as for Figure 7, and follow the attention of twenty sequences of its text.

    Writes `attention.csv` (`seed, step, entropy, change`); an interrupted run resumes.

    Args:
        folder: where to write, a folder a seed in it.
        setting: one of WORDS.
        data: folder of the text; see `WikiText`.
        steps: minibatches, a multiple of 50.
        seeds: how many, from 1 on.
        workers: processes that train at the same time.
        progress: show a bar.

    Raises:
        ValueError: fewer looks than a path has.

    Source: Tian et al. (2023), arXiv:2305.16380, abstract: attention freezes, on real text too. The paper has no number
    of it; that attention is frozen below a twentieth of its longest path is Figure 4's measure here.
    """
    if steps < EVERY * WINDOW:
        raise ValueError(f"a path takes {EVERY * WINDOW} minibatches: steps must be at least that, got {steps}")
    train = functools.partial(_followed, folder=folder, data=data, steps=steps, words=WORDS[setting])
    runs = range(1, 1 + seeds)
    tables = run_each(train, runs, workers, progress=progress)
    table = pd.concat([each.assign(seed=seed) for seed, each in zip(runs, tables, strict=True)])
    write_csv(folder / "attention.csv", table[["seed", "step", "entropy", "change"]])
    return Result(_draw(table), table_of(freezing_rows(table)))


def freezing_rows(table: pd.DataFrame) -> list[dict[str, str]]:
    """Return entropy and path of attention through training, over seeds, and when each seed's attention is frozen."""
    entropy = table.pivot(index="step", columns="seed", values="entropy")
    change = table.pivot(index="step", columns="seed", values="change").dropna()
    path = change.rolling(WINDOW).sum().dropna()
    longest, last = path.max().to_numpy(), path.iloc[-1].to_numpy()
    steps = entropy.index.to_numpy()
    shown = [0, *(int(steps[len(steps) * part // 3 - 1]) for part in (1, 2, 3))]
    over = f"over {WINDOW * EVERY} minibatches"
    return [
        *(over_seeds(f"entropy of attention at minibatch {at}, nats", "-", entropy.loc[at].to_numpy()) for at in shown),
        over_seeds(f"longest path of attention {over}", "-", longest),
        over_seeds(f"path of attention {over} at the end", "-", last),
        over_seeds("path at the end over the longest", f"below {FREEZING_SHARE} where frozen", last / longest),
        *(
            number(f"seed {seed}: attention frozen from minibatch", "it snaps", str(frozen_at(change[seed]) or "never"))
            for seed in change
        ),
    ]


def _followed(
    seed: int, *, folder: Path, data: str | None, steps: int, words: int | None, progress: bool
) -> pd.DataFrame:
    """Train from a seed; return the entropy (nats) and the total-variation change of attention at every look."""
    task = WikiText(length=BLOCK, tokenizer="basic_english", vocab_size=words, data=data)
    rows = columns(task.corpus().ids["train"], COLUMNS)

    @torch.inference_mode()
    def attention(model: Baseline) -> Float[Tensor, "column query key"]:
        model.eval()
        pattern: Tensor = model(rows[PROBE])[1][0].clone()
        return pattern

    looks = dict.fromkeys(range(0, steps + 1, EVERY), attention)
    setting = Setting("sgd", RATE, FFN_RATE, steps, DROPOUT, seed=seed)
    seen = train_baseline(setting, rows, task.d_vocab, looks, folder / f"seed={seed}", progress=progress).seen
    maps = [seen[step] for step in looks]
    entropies = [torch.special.entr(each).sum(-1).mean().item() for each in maps]
    moved = [(after - before).abs().sum(-1).mean().item() / 2 for before, after in itertools.pairwise(maps)]
    return pd.DataFrame({"step": [*looks], "entropy": entropies, "change": [float("nan"), *moved]})


def _draw(table: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    panels = figure.subplots(1, 2)
    names = {"entropy": "entropy of attention, nats", "change": f"change of attention in {EVERY} minibatches"}
    for (seed, of_seed), colour in zip(table.groupby("seed"), itertools.cycle(OKABE_ITO), strict=False):
        for ax, name in zip(panels, names, strict=True):
            ax.plot(of_seed["step"], of_seed[name], color=colour, label=f"seed {seed}")
    for ax, what in zip(panels, names.values(), strict=True):
        ax.set(xlabel="minibatch", ylabel=what, ylim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    return figure
