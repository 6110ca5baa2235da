"""Why Figures 2, 3 and 18 come sooner here: the paper's full transformer in plain torch, one difference at a time.

    python -m tests.experiments.incremental.paper_block [--widest-last | --narrowest-last | --sgd] [NAME ...]

A block takes five minutes of a core. The task is that of Figure 3, or one where the group farthest back counts most, as
in Figure 8: the widest of the three or the narrowest; or that of Figure 18, by SGD, where a block takes half an hour.

The paper's block has its norms behind attention and MLP, a dropout of .1, no biases in attention, and weights that
start from Xavier's scale or orthogonal. TransformerLens's has its norms in front and no dropout; its weights start
Gaussian. Task, widths, rate and clipping are those of the paper's size; the batch is of 800 sequences in place of 3000,
by SGD of 400.
"""

import argparse
import dataclasses
import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from stagewise.experiments.incremental import markov
from stagewise.experiments.incremental.recipes import variants
from stagewise.loss import kl_divergence
from stagewise.measurement.probe_batch import usable
from stagewise.recipe import Recipe

WIDTH, HEADS, HIDDEN = 255, 3, 64
EVERY, SEQUENCES = 10, 200
DROPOUT = 0.1

WIDTHS = {"widest-last": (2, 4, 8), "narrowest-last": (8, 4, 2)}
"""Widths of the groups, from the nearest on, where the one farthest back counts most."""


class Block(NamedTuple):
    """A block: where its norms stand, its dropout while it trains, and how its weights start."""

    norms_in_front: bool = False
    dropout: float = DROPOUT
    gaussian: bool = False


BLOCKS = {
    "the paper's": Block(),
    "without dropout": Block(dropout=0),
    "Gaussian weights": Block(gaussian=True),
    "norms in front": Block(norms_in_front=True),
    "norms in front, without dropout": Block(norms_in_front=True, dropout=0),
    "norms in front, without dropout, Gaussian weights": Block(True, 0, True),
}


def fresh(block: Block, d_vocab: int, n_ctx: int) -> dict[str, Tensor]:
    """Return the weights, each as `F.linear` takes it."""
    shapes = {"E": (WIDTH, d_vocab), "pos": (n_ctx, WIDTH), "U": (d_vocab, WIDTH)}
    shapes |= {name: (WIDTH, WIDTH) for name in "QKVO"} | {"in": (HIDDEN, WIDTH), "out": (WIDTH, HIDDEN)}
    weights = {name: torch.empty(shape) for name, shape in shapes.items()}
    for name, weight in weights.items():
        if block.gaussian:
            torch.nn.init.normal_(weight, std=0.8 / math.sqrt(WIDTH))  # TransformerLens's own
        elif name in "EU":
            torch.nn.init.orthogonal_(weight)
        else:
            torch.nn.init.xavier_uniform_(weight)
    weights |= {"b_in": torch.zeros(HIDDEN), "b_out": torch.zeros(WIDTH)}
    for norm in ("1", "2", "final"):
        weights |= {f"w_{norm}": torch.ones(WIDTH), f"b_{norm}": torch.zeros(WIDTH)}
    return {name: weight.requires_grad_() for name, weight in weights.items()}


def logits(weights: dict[str, Tensor], block: Block, tokens: Tensor, first: int, training: bool = False) -> Tensor:
    """Return the logits from the position `first` on."""

    def dropped(x: Tensor) -> Tensor:
        return F.dropout(x, block.dropout, training)

    def normed(x: Tensor, name: str, here: bool) -> Tensor:
        return F.layer_norm(x, (WIDTH,), weights[f"w_{name}"], weights[f"b_{name}"]) if here else x

    def by_head(x: Tensor, name: str) -> Tensor:
        return F.linear(x, weights[name]).view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    front, behind = block.norms_in_front, not block.norms_in_front
    x = dropped(F.embedding(tokens, weights["E"].T) + weights["pos"][: tokens.shape[1]])
    read = normed(x, "1", front)
    q, k, v = by_head(read[:, first:], "Q"), by_head(read, "K"), by_head(read, "V")
    later = torch.full((tokens.shape[1],) * 2, -math.inf).triu(1)[first:]
    pattern = (q @ k.mT / math.sqrt(q.shape[-1]) + later).softmax(-1)
    z = (dropped(pattern) @ v).transpose(1, 2).flatten(2)
    x = normed(x[:, first:] + dropped(F.linear(z, weights["O"])), "1", behind)
    hidden = F.relu(F.linear(normed(x, "2", front), weights["in"], weights["b_in"]))
    x = normed(x + dropped(F.linear(hidden, weights["out"], weights["b_out"])), "2", behind)
    return F.linear(normed(x, "final", front), weights["U"])


def curves(block: Block, recipe: Recipe) -> dict[str, list[float]]:
    """Train a block on a task, and return its KL to each truncated reference (nats) at every tenth step."""
    task, plan = recipe.task, recipe.plan
    data = task.sample(task.n_sequences or plan.batch_size, plan.seeds.data)
    probe = usable(task.probe_batch(SEQUENCES, plan.seeds.evaluation))
    first = int(probe.scored.any(0).int().argmax())
    references = {name: probe.references[name][:, first:] for name in probe.nested_references}
    torch.manual_seed(plan.seeds.init)
    weights = fresh(block, task.d_vocab, task.n_ctx)
    optimiser = (
        torch.optim.SGD(weights.values(), lr=plan.learning_rate, momentum=plan.momentum)
        if plan.optimiser == "sgd"
        else torch.optim.AdamW(weights.values(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
    )
    found: dict[str, list[float]] = {name: [] for name in references}
    for step in range(plan.steps + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                law = logits(weights, block, probe.tokens, first).log_softmax(-1)
            for name, reference in references.items():
                found[name].append(float(kl_divergence(reference, law).mean()))
        rows = data[torch.randint(len(data), (plan.batch_size,))]
        predicted = logits(weights, block, rows.tokens, first, training=True)
        optimiser.zero_grad()
        F.cross_entropy(predicted.flatten(0, 1), rows.targets[:, first:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(weights.values(), plan.clip or math.inf)
        optimiser.step()
    return found


def chosen(task: str | None, steps: int | None) -> Recipe:
    """Return the recipe of a task: of the paper's size, but for its batches and its length."""
    if task == "sgd":
        recipe, length, batch_size = variants("paper")["full-sgd"], 4500, 400
    else:
        reverse: dict[str, Any] = {"reverse": True, "spans": WIDTHS[task]} if task else {}
        recipe, length, batch_size = markov.recipe("full", setting="paper", **reverse), 460, 800
    plan = dataclasses.replace(recipe.plan, steps=steps or length, batch_size=batch_size, save=())
    return dataclasses.replace(recipe, plan=plan)


def main() -> None:
    """Print a row a block: the lowest KL to each reference, and its step."""
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_mutually_exclusive_group()
    for name in (*WIDTHS, "sgd"):
        tasks.add_argument(f"--{name}", dest="task", action="store_const", const=name)
    parser.add_argument("--steps", type=int, help="4500 by SGD, else 460, if not given")
    parser.add_argument("blocks", nargs="*", metavar="NAME", help=", ".join(BLOCKS), default=list(BLOCKS))
    asked = parser.parse_args()
    recipe = chosen(asked.task, asked.steps)
    for name in asked.blocks:
        found = curves(BLOCKS[name], recipe)
        lowest = (f"{min(kl):.2f} to {to} at step {EVERY * kl.index(min(kl))}" for to, kl in found.items())
        last = ", ".join(f"{kl[-1]:.2f}" for kl in found.values())
        print(f"{name}: lowest KL {', '.join(lowest)}; at step {recipe.plan.steps} {last}", flush=True)


if __name__ == "__main__":
    main()
