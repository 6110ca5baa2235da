"""A small Llama that learns to count, its data and a step of its training: what every tool here is given."""

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

SERIES = "audit run;measure run --sequences 8 --only Loss --quiet"
LOG = "stages"
CONFIG = LlamaConfig(
    vocab_size=32, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=4, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
STEPS = (0, 2, 4, 6, 8)


def model() -> nn.Module:
    """Return the untrained model, always with the same weights."""
    torch.manual_seed(0)
    return LlamaForCausalLM(CONFIG)


def tokens() -> Tensor:
    """Return sequences that count upwards."""
    return (torch.arange(8)[:, None] + torch.arange(16)) % 32


def step(network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    """Learn from the sequences once."""
    optimiser.zero_grad()
    network(tokens(), labels=tokens()).loss.backward()
    optimiser.step()


def losses(start: float = 3.0) -> list[float]:
    """Return a curve that falls from step 20 on: what every tracker is given."""
    return [start / (1 + 2.0 ** ((each - 20) / 2)) + 0.01 * (each % 3) for each in range(40)]
