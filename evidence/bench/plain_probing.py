"""Probing as a good TransformerLens script does it: one cached pass, then a pass with hooks for each edit."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from stagewise.task import Batch


def probe(model: Any, batch: Batch, contexts: tuple[int, ...]) -> Mapping[str, Tensor]:
    """Return what the default probes read, and mean ablations and restricted contexts, averaged over the batch."""
    with torch.no_grad():
        logits, cache = model.run_with_cache(
            batch.tokens, names_filter=lambda name: name.endswith(("hook_pattern", "hook_z"))
        )
        log_probs = logits.log_softmax(-1)
        layers = range(model.cfg.n_layers)
        patterns = torch.stack([cache[f"blocks.{layer}.attn.hook_pattern"] for layer in layers], 1)
        z = torch.stack([cache[f"blocks.{layer}.attn.hook_z"] for layer in layers], 1)
        found = {**predictions(log_probs, batch), **attention(patterns, batch), **outputs(z, batch), **weights(model)}
        ablations = {
            (layer, head): model.run_with_hooks(batch.tokens, fwd_hooks=[ablation(cache, layer, head)]).log_softmax(-1)
            for layer in layers
            for head in range(model.cfg.n_heads)
        }
        restricted = [
            model.run_with_hooks(batch.tokens, fwd_hooks=restriction(model, context)).log_softmax(-1)
            for context in contexts
        ]
        found["ablation loss"] = torch.stack([loss(each, batch) for each in ablations.values()])
        found["ablation kl"] = torch.stack([kl(log_probs, each, batch) for each in ablations.values()])
        found["context kl"] = torch.stack([kl(log_probs, each, batch) for each in restricted])
    return found


def over_scored(values: Tensor, batch: Batch) -> Tensor:
    """Average [batch ... pos] over the scored positions of each sequence, then over sequences."""
    scored = batch.scored.view(len(batch), *(1,) * (values.ndim - 2), -1)
    return ((values * scored).sum(-1) / scored.sum(-1)).mean(0)


def loss(log_probs: Tensor, batch: Batch) -> Tensor:
    """Return the mean cross-entropy of the scored predictions."""
    return over_scored(-log_probs.gather(-1, batch.targets[..., None])[..., 0], batch)


def kl(clean: Tensor, edited: Tensor, batch: Batch) -> Tensor:
    """Return the mean KL(clean || edited) of the scored predictions."""
    return over_scored((clean.exp() * (clean - edited)).sum(-1), batch)


def ablation(cache: Mapping[str, Tensor], layer: int, head: int) -> tuple[str, Callable[..., Tensor]]:
    """Replace a head's output by its mean over the batch."""
    name = f"blocks.{layer}.attn.hook_z"
    mean = cache[name][:, :, head].mean(0)

    def replace(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        z[:, :, head] = mean
        return z

    return name, replace


def restriction(model: Any, context: int) -> list[tuple[str, Callable[..., Tensor]]]:
    """Let every layer attend to the last `context` positions only."""

    def restrict(scores: Tensor, hook: Any) -> Tensor:
        query, key = torch.arange(scores.shape[-2])[:, None], torch.arange(scores.shape[-1])
        return scores.masked_fill(key <= query - context, -torch.inf)

    return [(f"blocks.{layer}.attn.hook_attn_scores", restrict) for layer in range(model.cfg.n_layers)]


def predictions(log_probs: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return losses, accuracy and the in-context learning score."""
    each = -log_probs.gather(-1, batch.targets[..., None])[..., 0]
    # Where no token can be foretold a loss above that of an even guess counts as the guess.
    kept = torch.where(batch.scored, each, each.clamp(max=math.log(log_probs.shape[-1])))
    last = each.shape[1] - 1
    return {
        "loss": over_scored(each, batch),
        "accuracy": over_scored((log_probs.argmax(-1) == batch.targets).float(), batch),
        "loss by position": each.mean(0),
        "in-context learning": (kept[:, last] - kept[:, last // 10]).mean(),
    }


def attention(patterns: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return what is read off the attention patterns [batch layer head query key]."""
    length = patterns.shape[-1]
    offset = torch.arange(length)[:, None] - torch.arange(length)
    masses = [over_scored((patterns * mask[:, None, None]).sum(-1), batch) for mask in batch.relations.values()]
    by_offset = [over_scored((patterns * (offset == k)).sum(-1), batch) for k in range(min(16, length))]
    return {
        "mass": torch.stack(masses),
        "by offset": torch.stack(by_offset),
        "entropy": over_scored(torch.special.entr(patterns).sum(-1), batch),
        "support": over_scored(1 / patterns.square().sum(-1), batch),
        "distance": over_scored((patterns * offset).sum(-1), batch),
        "maps": patterns.mean(0),
    }


def outputs(z: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return the participation ratio of each head's output [batch layer pos head d_head]."""
    rows = z.permute(1, 3, 0, 2, 4)[:, :, batch.scored].double()
    rows = rows - rows.mean(2, keepdim=True)
    covariance = rows.mT @ rows
    trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
    return {"participation ratio": trace**2 / covariance.square().sum((-2, -1))}


def weights(model: Any) -> dict[str, Tensor]:
    """Return composition scores and the copying of each head's OV circuit, from tokens to tokens."""
    # The eigenvalues of W_E W_V W_O W_U that are not zero are those of W_O W_U W_E W_V, d_head of them.
    circuit = model.W_O @ (model.W_U @ model.W_E) @ model.W_V
    eigenvalues = torch.linalg.eigvals(circuit)
    scores = [model.all_composition_scores(kind) for kind in ("Q", "K", "V")]
    return {
        "copying": eigenvalues.real.sum(-1) / eigenvalues.abs().sum(-1),
        "composition": torch.stack([getattr(score, "scores", score) for score in scores]),
    }
