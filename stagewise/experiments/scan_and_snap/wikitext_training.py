"""Training of Scan and Snap's WikiText model: a killed run resumes with the bits of one never killed."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor
from tqdm.auto import tqdm

from stagewise.checkpoints import run_folder
from stagewise.checkpoints.digest import short_digest
from stagewise.experiments.scan_and_snap.wikitext_model import BLOCK, Baseline
from stagewise.task import TRAINING, derive_seed
from stagewise.training import Metrics, descend

SETTINGS = "baseline.json"
CLIP, COLUMNS = 0.5, 20
"""Largest norm of the gradient; columns of text that are read side by side."""

Look = Callable[[Baseline], Any]
"""What is measured of a model at a step: plain numbers, lists or tensors, so that they can be saved."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """The settings of a run, without the text.

    Args:
        optimiser: "sgd" is Figure 7's, without momentum; "adam" that of the recorded trajectories.
        rate: learning rate; constant.
        ffn_rate: of the first layer's two FFN maps; None for `rate`.
        steps: minibatches.
        dropout: of every dropout.
        n_layers: number of layers.
        seed: of the initial weights and of dropout.

    Raises:
        ValueError: a number out of range.
    """

    optimiser: Literal["sgd", "adam"]
    rate: float
    ffn_rate: float | None = None
    steps: int = 1000
    dropout: float = 0.2
    n_layers: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.steps, self.n_layers) < 1 or not self.rate > 0:
            raise ValueError(
                f"steps and layers must be at least 1 and the rate positive, got steps={self.steps}, "
                f"layers={self.n_layers}, rate={self.rate}"
            )


class Trained(NamedTuple):
    """The training loss (nats) of each minibatch before its update, and the measurements by step."""

    losses: list[float]
    seen: dict[int, Any]


def train_baseline(
    setting: Setting,
    rows: Int[Tensor, "row column"],
    d_vocab: int,
    looks: Mapping[int, Look],
    folder: Path,
    *,
    save_every: int = 100,
    progress: bool = True,
) -> Trained:
    """Train the model on the columns of a text, looking at it before the updates of the steps in `looks`.

    Every `save_every` minibatches and after every look all that is needed to resume is written to `resume.pt`; dropout
    and block of step s are functions of (seed, s) alone.

    Args:
        setting: of the model and its training.
        rows: from `columns`; blocks come in the order of the text, and again from the start.
        d_vocab: number of words.
        looks: step -> what to measure; `setting.steps` is after the last update.
        folder: where the settings and the state are kept.
        save_every: minibatches between two saves.
        progress: show a bar.

    Raises:
        ValueError: the folder holds a run of other settings, or of another text.
    """
    model = Baseline(d_vocab, setting.n_layers, setting.dropout, setting.seed)
    optimiser = _optimiser(model, setting)
    text = short_digest(rows)
    run_folder.claim(folder, {**dataclasses.asdict(setting), "text": text}, SETTINGS)
    start, losses, seen = _resume(folder, model, optimiser)

    def loss_at(step: int) -> Tensor:
        if step % _n_blocks(rows) == 0:
            optimiser.state.clear()  # the published code made a new optimiser for every pass over the text
        return _loss(model, *block(rows, step), derive_seed(setting.seed, TRAINING, step))

    metrics: list[Metrics] = []
    steps = descend(optimiser, loss_at, start, setting.steps, clip=CLIP, metrics=metrics)
    bar = tqdm(steps, initial=start, total=setting.steps, disable=not progress, desc=folder.name, unit="minibatch")
    for step in bar:
        losses += [update["loss"] for update in metrics[-1:]]
        if step in looks and step not in seen:
            seen[step] = looks[step](model)
        if step in looks or step % save_every == 0:
            _save(folder, step, model, optimiser, losses, seen)
    return Trained(losses, seen)


def block(rows: Int[Tensor, "row column"], step: int) -> tuple[Tensor, Tensor]:
    """Return (words, next words) of the block of a step: 35 rows, fewer at the end of the text.

    >>> [len(block(torch.zeros(81, 2, dtype=torch.int64), step)[0]) for step in range(4)]
    [35, 35, 10, 35]
    """
    start = step % _n_blocks(rows) * BLOCK
    words = rows[start : start + BLOCK + 1]
    return words[:-1], words[1:]


def _n_blocks(rows: Int[Tensor, "row column"]) -> int:
    return math.ceil((len(rows) - 1) / BLOCK)


def _loss(model: Baseline, words: Tensor, targets: Tensor, seed: int) -> Tensor:
    model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        logits, _ = model(words)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _optimiser(model: Baseline, setting: Setting) -> torch.optim.Optimizer:
    feed_forward = [parameter for name, parameter in model.named_parameters() if name.startswith("layers.0.linear")]
    others = [parameter for name, parameter in model.named_parameters() if not name.startswith("layers.0.linear")]
    groups = [{"params": feed_forward, "lr": setting.ffn_rate or setting.rate}, {"params": others, "lr": setting.rate}]
    return torch.optim.SGD(groups) if setting.optimiser == "sgd" else torch.optim.Adam(groups)


def _save(
    folder: Path,
    step: int,
    model: Baseline,
    optimiser: torch.optim.Optimizer,
    losses: list[float],
    seen: dict[int, Any],
) -> None:
    state = {"step": step, "losses": losses, "seen": seen}
    state |= {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
    run_folder.write(folder / run_folder.RESUME, lambda partial: torch.save(state, partial))


def _resume(folder: Path, model: Baseline, optimiser: torch.optim.Optimizer) -> tuple[int, list[float], dict[int, Any]]:
    if not (folder / run_folder.RESUME).exists():
        return 0, [], {}
    state = run_folder.read_resume(folder / run_folder.RESUME)
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    return state["step"], state["losses"], state["seen"]
