"""A series of checkpoints that really trained."""

import json
from pathlib import Path

import pytest
import torch

from tests.checkpoints.audited import STEPS


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of a small GPT-NeoX that really trains, as transformers' Trainer writes them. Copy them first."""
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    folder = tmp_path_factory.mktemp("clean")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=12, max_position_embeddings=16, **sizes))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(STEPS[-1] + 1):
        if step in STEPS:
            model.save_pretrained(folder / f"checkpoint-{step}")
            state = {"global_step": step, "log_history": []}
            (folder / f"checkpoint-{step}" / "trainer_state.json").write_text(json.dumps(state))
        tokens = torch.randint(12, (8, 8)).repeat(1, 2)
        model(tokens, labels=tokens).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    return folder
