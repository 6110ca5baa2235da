"""Heads of a real model drawn anew: when does induction come back, and where? Beside it the model, trained on as it is.

python -m stagewise.papers.continued_training MODEL TEXT FOLDER [--plain]

MODEL is a .gguf file or a folder of transformers', of a Llama. An hour on two cores; a second call resumes.
"""

import argparse
import dataclasses
import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from stagewise import models
from stagewise.analysis import Analysis, analyse
from stagewise.checkpoints.run_folder import write
from stagewise.checkpoints.series import open_series
from stagewise.probes import Accuracy, AttentionTo, KLToReference, Loss
from stagewise.table import Head, head_label
from stagewise.tasks import RepeatedTokens

DRAWN = {17: (1,), 18: (2,), 20: (2,), 23: (0, 2), 24: (0,)}
"""Layer -> key-value heads that are drawn anew, with all their queries: where SmolLM2-135M has most induction."""

_ATTENTION = "model.layers.{}.self_attn.{}_proj.weight"
_NAMED = 5
"""Heads that are named as those that moved most."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the model is trained on.

    Args:
        drawn: layer -> key-value heads whose keys and queries are drawn anew at first; none for a plain continuation.
        first: the first layer that is trained; layers below it and the embedding stay, and a step takes half the time.
        sequences: of a step.
        length: of a sequence, tokens.
        again: tokens of a sequence that come again at its end, from anywhere before; 0 for text as it is.
        rate: of AdamW.
        warmup: steps over which the rate rises.
        steps: in all.
        every: steps between two checkpoints.
    """

    drawn: Mapping[int, tuple[int, ...]]
    first: int = 17
    sequences: int = 4
    length: int = 128
    again: int = 32
    rate: float = 1e-3
    warmup: int = 5
    steps: int = 160
    every: int = 8

    def tokens(self, text: Int[Tensor, " token"], step: int, d_vocab: int) -> Int[Tensor, "batch pos"]:
        """Return the sequences of a step: text; where stretches come again, half of them of random tokens."""
        draw = torch.Generator().manual_seed(step)
        starts = torch.randint(len(text) - self.length, (self.sequences,), generator=draw).tolist()
        tokens = torch.stack([text[start : start + self.length] for start in starts])
        if self.again:
            half = tokens[: self.sequences // 2]
            half.copy_(torch.randint(d_vocab, half.shape, generator=draw))
            sources = torch.randint(self.length - 2 * self.again + 1, (self.sequences,), generator=draw).tolist()
            for row, start in zip(tokens, sources, strict=True):
                row[-self.again :] = row[start : start + self.again].clone()
        return tokens


AGAIN, PLAIN = Plan(DRAWN), Plan({}, again=0, rate=1e-4)
"""Some heads drawn anew, and the model trained on as it is."""


def _train_on(model: Any, text: Int[Tensor, " token"], folder: Path, plan: Plan) -> None:
    """Train a model of transformers on, and save its checkpoints in half precision.

    Args:
        model: as it was, or as it was drawn anew: with a state in the folder it is taken from there.
        text: tokens to train on.
        folder: holds the checkpoints, and the state from which a second call resumes.
        plan: how.
    """
    for name, weight in model.named_parameters():
        layer = name.partition(".layers.")[2].partition(".")[0]
        weight.requires_grad_(bool(layer) and int(layer) >= plan.first)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=plan.rate, betas=(0.9, 0.95), weight_decay=0.0)
    path, start = folder / "optimizer.pt", 0
    if path.exists():
        state = torch.load(path)
        start = state["step"]
        optimiser.load_state_dict(state["optimiser"])
        with torch.no_grad():
            for weight, value in zip(trained, state["weights"], strict=True):
                weight.copy_(value)
    for step in range(start, plan.steps + 1):
        if step % plan.every == 0:
            half = {name: weight.to(torch.bfloat16) for name, weight in model.state_dict().items()}
            model.save_pretrained(folder / f"checkpoint-{step}", state_dict=half)
            state = {"step": step, "optimiser": optimiser.state_dict(), "weights": trained}
            write(path, functools.partial(torch.save, state))
        tokens = plan.tokens(text, step, model.config.vocab_size)
        logits = model(tokens[:, :-1]).logits
        optimiser.zero_grad()
        torch.autograd.backward(F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.param_groups[0]["lr"] = plan.rate * min(1.0, (step + 1) / plan.warmup)
        optimiser.step()


def _draw_anew(model: Any, drawn: Mapping[int, tuple[int, ...]]) -> None:
    """Draw the keys of key-value heads, and the queries that read them, as at an initialisation."""
    config, draw = model.config, torch.Generator().manual_seed(0)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    queries = width * config.num_attention_heads // config.num_key_value_heads
    for layer, heads in drawn.items():
        attention = model.model.layers[layer].self_attn
        for weight, size in ((attention.q_proj.weight, queries), (attention.k_proj.weight, width)):
            for head in heads:
                rows = weight.data[head * size : (head + 1) * size]
                rows.copy_(torch.randn(rows.shape, generator=draw) * config.initializer_range)


def continued(source: Path, text: Path, folder: Path, plan: Plan) -> Analysis:
    """Train a model on, and analyse its checkpoints on repeated random tokens, with the model itself as a reference.

    Args:
        source: a .gguf file, or a folder of transformers'.
        text: a file of text.
        folder: of the checkpoints; the table and the report go beside it.
        plan: how the model is trained.
    """
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    place, file = (source.parent, {"gguf_file": source.name}) if source.is_file() else (source, {})
    loaded = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, **file)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(place, **file), dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())  # a quantised model cannot be saved
    tokenizer = AutoTokenizer.from_pretrained(place, **file)
    base = open_series(source)
    task = RepeatedTokens.for_model(base.architecture)
    batch = task.probe_batch(8, seed=0)
    log_probs, _ = models.clean_pass(base.model(base.steps[-1]), batch.tokens, ())
    _draw_anew(model, plan.drawn)
    ids = torch.tensor(tokenizer(text.read_text(encoding="utf8"))["input_ids"])
    _train_on(model, ids, folder / "checkpoints", plan)
    probes = [Loss(), Accuracy(), AttentionTo(), KLToReference(("the model before",))]
    batch = batch.with_references({"the model before": log_probs})
    return analyse(folder / "checkpoints", folder / "analysis", batch=batch, probes=probes)


def _heads_moved(before: Mapping[str, Tensor], after: Mapping[str, Tensor], n_heads: int) -> dict[Head, float]:
    """Return how far each head's queries and outputs have gone, as a part of their size before.

    Args:
        before: the weights of a Llama of transformers', by their names there.
        after: those of the same model later.
        n_heads: of a layer.
    """
    moved = {}
    for layer in itertools.takewhile(lambda layer: _ATTENTION.format(layer, "q") in before, itertools.count()):
        old, new = (_by_head(weights, layer, n_heads) for weights in (before, after))
        for head, part in enumerate(((new - old).norm(dim=1) / old.norm(dim=1)).tolist()):
            moved[layer, head] = part
    return moved


def _by_head(weights: Mapping[str, Tensor], layer: int, n_heads: int) -> Float[Tensor, "head weight"]:
    queries, outputs = (weights[_ATTENTION.format(layer, name)].float() for name in "qo")
    return torch.cat([part.reshape(n_heads, -1) for part in (queries, outputs.T)], dim=1)


def _main() -> None:
    """Read the command line, train, and print the answer and the heads that moved most."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plain", action="store_true", help="draw nothing anew, and train on text as it is")
    parser.add_argument("--steps", type=int, default=AGAIN.steps)
    given = parser.parse_args()
    plan = dataclasses.replace(PLAIN if given.plain else AGAIN, steps=given.steps)
    print(continued(given.model, given.text, given.folder, plan))
    base, later = open_series(given.model), open_series(given.folder / "checkpoints")
    moved = _heads_moved(base.load(base.steps[-1]), later.load(later.steps[-1]), base.architecture.n_heads)
    most = sorted(moved, key=lambda head: -moved[head])[:_NAMED]
    print("farthest from the model before:", ", ".join(f"{head_label(*head)} {moved[head]:.3f}" for head in most))


if __name__ == "__main__":
    _main()
