"""Train and measure a few small runs in a folder: test_versions.py does it here and under another TransformerLens."""

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, LlamaConfig

from stagewise import architectures
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionEntropy, AttentionTo, HeadAblation, KLToReference, Loss, RestrictedContextKL
from stagewise.recipe import Recipe, TrainPlan
from stagewise.tasks import MarkovChain
from stagewise.training import train

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=6, n_sequences=60)
SIZES = {"n_layers": 2, "d_model": 16, "d_head": 4, "n_ctx": TASK.n_ctx, "d_vocab": 4, "d_mlp": 24}
IDS = {"vocab_size": 4, "bos_token_id": 0, "eos_token_id": 0}
GPT2: dict[str, Any] = {"n_layer": 2, "n_head": 2, "n_embd": 16, "n_positions": TASK.n_ctx, **IDS}
LLAMA: dict[str, Any] = {
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24},
    **{"max_position_embeddings": TASK.n_ctx, **IDS},
}
ROTARY = {"positional_embedding_type": "rotary", "normalization_type": "RMS", "n_key_value_heads": 2}
KINDS = {
    "minimal": architectures.minimal(4, TASK.n_ctx, n_heads=2),
    "full": architectures.full(4, TASK.n_ctx, n_layers=2, n_heads=2, d_model=16, d_mlp=24),
    "rotary": Architecture({**SIZES, **ROTARY}),
    "gated": Architecture({**SIZES, "gated_mlp": True, "act_fn": "silu"}),
    "shortformer": Architecture({**SIZES, "positional_embedding_type": "shortformer", "use_attn_scale": False}),
    "GPT2": Architecture(GPT2Config(**GPT2)),
    "Llama": Architecture(LlamaConfig(**LLAMA)),
}
PLAN = TrainPlan(steps=20, batch_size=32, learning_rate=0.3, save=(10,), optimiser="sgd")
"""By SGD: AdamW divides by the gradient's size, and makes rounding as large as a step."""


def trained(folder: Path) -> None:
    """Train the runs, and keep a state dict as TransformerLens itself would save it."""
    for name, made in KINDS.items():
        train(Recipe(TASK, made, PLAN), folder / name, progress=False)
        built = model.build(made)
        model.load(built, open_series(folder / name).weights(20))
        whole = {key: weight.contiguous().clone() for key, weight in built.state_dict().items()}
        save_file(whole, folder / f"{name}.safetensors")


def measured(folder: Path, name: str) -> pd.DataFrame:
    """Measure one of the runs in a folder."""
    probes = [AttentionTo(), AttentionEntropy(), Loss(), KLToReference(), HeadAblation(), RestrictedContextKL((1, 2))]
    return measure(open_series(folder / name), probes, TASK.probe_batch(20, seed=0), progress=False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    theirs, ours = map(Path, sys.argv[1:])
    trained(ours)
    for each in KINDS:
        measured(ours, each).to_parquet(ours / f"{each}.parquet")
        measured(theirs, each).to_parquet(theirs / f"{each}.parquet")
