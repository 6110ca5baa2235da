"""The small models that every tool saves, the sequences that they learn, and their loss as each of them computes it."""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

STEPS = (0, 2, 4)
VOCABULARY, POSITIONS, WIDTH, LAYERS, HEADS = 64, 16, 32, 1, 4
SIZES = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0}
HIDDEN = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * WIDTH,
    "max_position_embeddings": POSITIONS,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "GPT2": {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS},
    "Llama": {**HIDDEN, "num_key_value_heads": 2},
    "GPTNeoX": HIDDEN,
}
"""Families of transformers, and their fields of a small model."""

MODELS = {family: family.lower().replace("neo", "_neo") for family in CONFIGS}
"""The names of their configs."""

RATE = 1e-2
Model = Any


def untrained(family: str, **fields: Any) -> Model:
    """Return a model of transformers, always with the same weights; `fields` are more of its config."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(MODELS[family], **SIZES, **CONFIGS[family], **fields)
    return AutoModelForCausalLM.from_config(config)


def tokens(seed: int = 0) -> Int[Tensor, "batch length"]:
    """Return sequences that count on from a random token by their own stride; the last token is only predicted."""
    start, stride = torch.randint(VOCABULARY, (2, 8, 1), generator=torch.Generator().manual_seed(seed))
    counted: Tensor = (start + (1 + stride % 3) * torch.arange(POSITIONS + 1)) % VOCABULARY
    return counted


def logits(model: Model, tokens: Int[Tensor, "batch pos"]) -> Tensor:
    """Return what a model predicts, whatever its class wraps it in."""
    out = model(tokens)
    predicted: Tensor = out if isinstance(out, Tensor) else out.logits
    return predicted


def cross_entropy(model: Model, tokens: Int[Tensor, "batch length"]) -> Tensor:
    """Return the mean cross-entropy of each token after the first, nats."""
    predicted = logits(model, tokens[:, :-1]).float()
    return F.cross_entropy(predicted.flatten(0, 1), tokens[:, 1:].flatten())


def loss(model: Model) -> float:
    """Return the loss on the fixed sequences, computed in float32, without dropout."""
    with torch.no_grad():
        return float(cross_entropy(model.float().eval(), tokens()))


def training(model: Model) -> Iterator[int]:
    """Train a model in place, and yield at each step that is to be saved."""
    torch.manual_seed(1)
    optimiser = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=RATE)
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            model.eval()
            yield step
        model.train()
        cross_entropy(model, tokens(1 + step)).backward()
        optimiser.step()
        optimiser.zero_grad()
