"""The demo as a script of one's own: models in plain torch, four probes at each checkpoint, one figure.

`python -m evidence.bench.lean_demo RUN OUT` begins where the run folder RUN of `stagewise run markov` began, and writes
checkpoints, numbers.csv and figure.svg into OUT. The data are those of the library's task, and nothing else is its.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from stagewise.tasks import MarkovChain
from stagewise.tasks.windows import Windows

STEPS, BATCH, WINDOWS, RATE, SEQUENCES = 900, 512, 1536, 0.08, 400
SAVED = sorted({0, 1, 2, 3, 5, 7, 10, *range(0, STEPS + 1, 15)})
CONTEXTS = (2, 4, 6)

Number = dict[str, Any]
"""A measured value, beside its step, its probe and what it is of."""


class OneHotAttention(torch.nn.Module):
    """One layer of heads on one-hot tokens and positions, without key or output projection: W_Q and W_V train.

    Queries before position `first` predict nothing that counts.
    """

    def __init__(self, W_Q: Tensor, d_vocab: int, first: int) -> None:
        """Take the initial W_Q [head, symbol, symbol]; values begin at zero."""
        super().__init__()
        self.d_vocab, self.first = d_vocab, first
        self.W_Q = torch.nn.Parameter(W_Q.clone())
        self.W_V = torch.nn.Parameter(torch.zeros(*W_Q.shape[:2], d_vocab))

    def projected(self, weight: Tensor, tokens: Tensor) -> Tensor:
        """Return W x [batch pos head out], from the rows of W of each token and each position."""
        of_symbol = weight.transpose(0, 1)
        of_tokens = F.embedding(tokens, of_symbol[: self.d_vocab].flatten(1)).view(*tokens.shape, *of_symbol.shape[1:])
        return of_tokens + of_symbol[self.d_vocab :]

    def heads(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return patterns [batch query head key] and values [batch head key token]."""
        length, width = tokens.shape[1], self.W_Q.shape[-1]
        x = torch.cat([F.one_hot(tokens, self.d_vocab).float(), torch.eye(length).expand(len(tokens), -1, -1)], -1)
        queries = self.projected(self.W_Q / width**0.5, tokens)[:, self.first :]
        scores = (queries.flatten(1, 2) @ x.mT).view(*queries.shape[:3], length)
        later = torch.ones(length, length).triu(1).bool()[self.first :, None]
        return scores.masked_fill(later, -torch.inf).softmax(-1), self.projected(self.W_V, tokens).transpose(1, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [batch query token]."""
        pattern, values = self.heads(tokens)
        return pattern.flatten(2) @ values.flatten(1, 2)


def train(model: OneHotAttention, batches: Callable[[int, int], Any], size: int) -> Iterator[int]:
    """Yield each step before its update, and the last one."""
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01, fused=True)
    for step in range(STEPS):
        yield step
        batch = batches(step, size)
        loss = F.cross_entropy(model(batch.tokens).flatten(0, 1), batch.targets[:, model.first :].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    yield STEPS


def restricted(model: OneHotAttention, tokens: Tensor, first: int) -> Tensor:
    """Return the log-probabilities [batch query token] of a model of windows, from position `first` on."""
    context = model.first + 1
    windows = tokens.unfold(1, context, 1)[:, first - model.first :]
    logits: Tensor = model(windows.flatten(0, 1))
    return logits.log_softmax(-1).view(*windows.shape[:2], -1)


def measure(model: OneHotAttention, batch: Any, references: Mapping[int, Tensor]) -> Iterator[Number]:
    """Yield the loss, attention to important positions, mean ablations, and KL to restricted models, at one step."""
    targets = batch.targets[:, model.first :].flatten()

    def loss(logits: Tensor) -> float:
        return F.cross_entropy(logits.flatten(0, 1), targets).item()

    pattern, values = model.heads(batch.tokens)
    written = pattern.transpose(1, 2) @ values
    logits = written.sum(1)
    yield {"probe": "loss", "value": (clean := loss(logits))}
    for head in range(pattern.shape[2]):
        for relation, keys in batch.relations.items():
            mass = (pattern[:, :, head] * keys[:, model.first :]).sum(-1).mean().item()
            yield {"probe": "attention", "head": head, "of": relation, "value": mass}
        ablated = loss(logits - written[:, head] + written[:, head].mean(0))
        yield {"probe": "ablation", "head": head, "value": ablated - clean}
    log_probs = logits.log_softmax(-1)
    for context, reference in references.items():
        kl = (reference.exp() * (reference - log_probs)).sum(-1).mean().item()
        yield {"probe": "KL", "of": f"trained c={context}", "value": kl}


def draw(numbers: list[Number], path: Path) -> None:
    """Draw the four probes over the steps, a panel each."""
    matplotlib.use("svg")
    from matplotlib import pyplot

    probes = ("loss", "attention", "ablation", "KL")
    figure, axes = pyplot.subplots(len(probes), 1, sharex=True, figsize=(7, 10), layout="constrained")
    for ax, probe in zip(axes, probes, strict=True):
        rows = [each for each in numbers if each["probe"] == probe]
        for head, of in dict.fromkeys((each.get("head"), each.get("of")) for each in rows):
            line = [each for each in rows if (each.get("head"), each.get("of")) == (head, of)]
            label = " ".join([*([] if head is None else [f"head {head}"]), *([of] if of else [])])
            ax.plot([each["step"] for each in line], [each["value"] for each in line], label=label)
        ax.set_ylabel(probe)
        ax.set_xscale("symlog")
        if len(ax.lines) > 1:
            ax.legend(fontsize=7)
    axes[-1].set_xlabel("step")
    figure.savefig(path)


def main(run: Path, out: Path) -> None:
    """Train the restricted models, then the full one, measured at each saved step; write the numbers and the figure."""
    torch.set_num_threads(1)
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    task = MarkovChain()
    batch = task.probe_batch(SEQUENCES, 0)

    def initial(folder: Path, n_ctx: int, first: int) -> OneHotAttention:
        W_Q = load_file(folder / "checkpoints" / "step-00000000.safetensors")["blocks.0.attn.W_Q"]
        return OneHotAttention(W_Q[:, : task.d_vocab + n_ctx], task.d_vocab, first)

    references, first = {}, task.window - 1
    for context in CONTEXTS:
        model = initial(run / "restricted" / str(context), context, context - 1)
        for _ in train(model, Windows(task, context).stream(0), WINDOWS):
            pass
        with torch.no_grad():
            references[context] = restricted(model, batch.tokens, first)
    model, numbers = initial(run, task.n_ctx, first), list[Number]()
    for step in train(model, task.stream(0), BATCH):
        if step in SAVED:
            torch.save(model.state_dict(), out / "checkpoints" / f"step-{step:08d}.pt")
            with torch.no_grad():
                numbers += [{"step": step, **each} for each in measure(model, batch, references)]
    with open(out / "numbers.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["step", "probe", "head", "of", "value"])
        writer.writeheader()
        writer.writerows(numbers)
    draw(numbers, out / "figure.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
