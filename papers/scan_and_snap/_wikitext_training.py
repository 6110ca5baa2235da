"""Training of Scan and Snap's WikiText model: a killed run resumes with the bits of one never killed."""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Int
from safetensors.torch import save_file
from torch import Tensor
from tqdm.auto import tqdm

from stagewise.checkpoints import run_folder, short_digest
from stagewise.papers.scan_and_snap._wikitext_model import BLOCK, Baseline
from stagewise.papers.scan_and_snap.wikitext_hooked import hooked_weights
from stagewise.recipe import Recipe
from stagewise.task import TRAINING, derive_seed
from stagewise.training import Metrics, descend

_SETTINGS = "baseline.json"
CLIP, COLUMNS = 0.5, 20
"""Largest norm of the gradient; columns of text that are read side by side."""

Look = Callable[[Baseline], Any]
"""A measurement of a model at a step: plain numbers, lists or tensors, so that they can be saved."""


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


class _State(NamedTuple):
    """How far a training has come, with the loss and the gradient's norm of every minibatch so far."""

    step: int
    losses: list[float]
    norms: list[float]
    seen: dict[int, Any]


def train_baseline(
    setting: Setting,
    rows: Int[Tensor, "row column"],
    d_vocab: int,
    looks: Mapping[int, Look],
    folder: Path,
    *,
    recipe: Recipe | None = None,
    save_every: int = 100,
    progress: bool = True,
) -> Trained:
    """Train the model on the columns of a text, looking at it before the updates of the steps in `looks`.

    Every `save_every` minibatches and after every look all that is needed to resume is written to `resume.pt`; dropout
    and block of step s are functions of (seed, s) alone. Checkpoints do not change the run; where some of those before
    the resumed step are not there, it starts over, and gives the same bits.

    Args:
        setting: of the model and its training.
        rows: from `columns`; blocks come in the order of the text, and again from the start.
        d_vocab: number of words.
        looks: step -> what to measure; `setting.steps` is after the last update.
        folder: where the settings and the state are kept.
        recipe: the record of the run, whose steps to save become checkpoints of the hooked model; None saves none.
        save_every: minibatches between two saves.
        progress: show a bar.

    Raises:
        ValueError: the folder holds a run of other settings, of another text, or with other checkpoints.
    """
    model = Baseline(d_vocab, setting.n_layers, setting.dropout, setting.seed)
    optimiser = _optimiser(model, setting)
    text = short_digest(rows)
    run_folder.claim(folder, {**dataclasses.asdict(setting), "text": text}, _SETTINGS)
    if recipe is not None:
        run_folder.claim(folder, recipe)
    saved = () if recipe is None else recipe.plan.saved_steps
    state = _resume(folder, model, optimiser, saved)

    def loss_at(step: int) -> Tensor:
        if step % _n_blocks(rows) == 0:
            optimiser.state.clear()  # the published code made a new optimiser for every pass over the text
        return _loss(model, *block(rows, step), derive_seed(setting.seed, TRAINING, step))

    metrics: list[Metrics] = []
    steps = descend(optimiser, loss_at, state.step, setting.steps, clip=CLIP, metrics=metrics)
    bar = tqdm(steps, initial=state.step, total=setting.steps, disable=not progress, desc=folder.name, unit="minibatch")
    for step in bar:
        state = state._replace(step=step)
        if metrics:  # none before the first update
            state.losses.append(metrics[-1]["loss"])
            state.norms.append(metrics[-1]["gradient_norm"])
        if step in looks and step not in state.seen:
            state.seen[step] = looks[step](model)
        if step in saved:
            _save_checkpoint(folder, state, model)
        if step in looks or step in saved or step % save_every == 0:
            _save(folder, state, model, optimiser)
    return Trained(state.losses, state.seen)


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


def _save_checkpoint(folder: Path, state: _State, model: Baseline) -> None:
    weights = hooked_weights(model.state_dict())
    run_folder.write(run_folder.checkpoint_file(folder, state.step), lambda partial: save_file(dict(weights), partial))
    frame = pd.DataFrame({"step": range(len(state.losses)), "loss": state.losses, "gradient_norm": state.norms})
    run_folder.write(folder / run_folder.METRICS, lambda partial: frame.to_parquet(partial, index=False))


def _save(folder: Path, state: _State, model: Baseline, optimiser: torch.optim.Optimizer) -> None:
    weights = {"model": model.state_dict(), "optimiser": optimiser.state_dict()}
    whole = {**state._asdict(), **weights}
    run_folder.write(folder / run_folder.RESUME, lambda partial: torch.save(whole, partial))


def _resume(folder: Path, model: Baseline, optimiser: torch.optim.Optimizer, saved: Collection[int]) -> _State:
    start = _State(0, [], [], {})
    if not (folder / run_folder.RESUME).exists():
        return start
    state = run_folder.read_resume(folder / run_folder.RESUME)
    past = [run_folder.checkpoint_file(folder, step) for step in saved if step <= state["step"]]
    if not all(file.exists() for file in past):
        return start
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    return _State(state["step"], state["losses"], state.get("norms", []), state["seen"])
