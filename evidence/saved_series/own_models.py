"""What is written of models that are not of transformers: HookedTransformers, and nanoGPT's own model."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evidence.saved_series.models import HEADS, LAYERS, POSITIONS, VOCABULARY, WIDTH, Model
from evidence.saved_series.plain import BARE, compiled, loaded, of_key, torch_file, wrapped
from evidence.saved_series.way import Way, each

HOOKED: dict[str, dict[str, Any]] = {
    "GPT-2's form": {"act_fn": "gelu_new", "normalization_type": "LN"},
    "Llama's form": {
        "act_fn": "silu",
        "normalization_type": "RMS",
        "gated_mlp": True,
        "positional_embedding_type": "rotary",
        "rotary_dim": WIDTH // HEADS,
        "n_key_value_heads": 2,
    },
    "attention only": {"attn_only": True, "normalization_type": None},
}
"""HookedTransformers by what is unlike in them."""


def hooked(family: str) -> Model:
    """Return an untrained HookedTransformer."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    sizes = {"n_layers": LAYERS, "n_heads": HEADS, "d_model": WIDTH, "d_head": WIDTH // HEADS, "n_ctx": POSITIONS}
    return HookedTransformer(HookedTransformerConfig(**sizes, **HOOKED[family], d_vocab=VOCABULARY, seed=0))


class _Attention(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=bias)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, -1))
        weighted = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(weighted.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class _Norm(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.bias = nn.Parameter(torch.zeros(WIDTH)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,), self.weight, self.bias, 1e-5)


class _Block(nn.Module):
    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = _Norm(bias), _Attention(bias), _Norm(bias)
        sizes = {"c_fc": (WIDTH, 4 * WIDTH), "c_proj": (4 * WIDTH, WIDTH)}
        self.mlp = nn.ModuleDict({name: nn.Linear(*size, bias=bias) for name, size in sizes.items()})

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))  # type: ignore[no-any-return]


class NanoGPT(nn.Module):
    """The model of nanoGPT's model.py, by its names of weights: https://github.com/karpathy/nanoGPT."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        sizes = {"block_size": POSITIONS, "vocab_size": VOCABULARY, "n_layer": LAYERS, "n_head": HEADS}
        self.arguments = {**sizes, "n_embd": WIDTH, "dropout": 0.0, "bias": bias}
        embeddings = {"wte": nn.Embedding(VOCABULARY, WIDTH), "wpe": nn.Embedding(POSITIONS, WIDTH)}
        blocks = nn.ModuleList(_Block(bias) for _ in range(LAYERS))
        self.transformer = nn.ModuleDict({**embeddings, "h": blocks, "ln_f": _Norm(bias)})
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for weight in self.parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=1 / math.sqrt(WIDTH))
        self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits, [batch, pos, token]."""
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](torch.arange(tokens.shape[1]))
        for block in self.transformer["h"]:  # type: ignore[attr-defined]
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))  # type: ignore[no-any-return]


BIASES = {"with biases": True, "without biases": False}


def nano(family: str) -> NanoGPT:
    """Return nanoGPT's untrained model."""
    return NanoGPT(BIASES[family])


def _checkpoint(model: Model, step: int, state: Any = None) -> dict[str, Any]:
    beside = {"optimizer": {"state": {}}, "iter_num": step, "best_val_loss": torch.tensor(2.5), "config": {}}
    return {"model": state or model.state_dict(), "model_args": model.arguments, **beside}


def _compiled(model: Model, step: int) -> dict[str, Any]:
    return _checkpoint(model, step, compiled(model).state_dict())


def _from_checkpoint(saved: Any, model: Model) -> Model:
    """Load a checkpoint as nanoGPT's sample.py does."""
    return loaded({name.removeprefix("_orig_mod."): each for name, each in saved["model"].items()}, model)


def _save_folder(model: Model, folder: Path, step: int) -> None:
    place = folder / f"step-{step}"
    place.mkdir()
    torch.save(model.state_dict(), place / "pytorch_model.bin")


def _load_folder(folder: Path, step: int, model: Model) -> Model:
    return loaded(torch.load(folder / f"step-{step}" / "pytorch_model.bin"), model)


def _cfg_given(folder: Path, model: Model) -> dict[str, Any]:
    return {"architecture": model.cfg}


def ways() -> list[Way]:
    """Return what is written of these models."""

    def of_lens(way: Way, name: str) -> Way:
        return dataclasses.replace(
            way, name=name, tool="TransformerLens", families=tuple(HOOKED), make=hooked, options=_cfg_given
        )

    def of_nano(name: str, pack: Any) -> Way:
        way = torch_file(name, (pack, _from_checkpoint), "ckpt_{}.pt")
        return dataclasses.replace(way, tool="nanoGPT", families=tuple(BIASES), make=nano, options=Way.options)

    whole = (lambda model, step: model, lambda saved, model: saved)
    return [
        of_lens(torch_file("", BARE, "checkpoint_{}.pt"), "`state_dict`"),
        of_lens(torch_file("", of_key("model"), "{}.pth"), "`state_dict` under `model`"),
        of_lens(torch_file("", wrapped(compiled, "model")), "`state_dict` of a compiled one, under `model`"),
        of_lens(torch_file("", whole), "the model pickled whole"),
        of_lens(Way("", "", each(_save_folder), _load_folder), "`state_dict` in a folder for each step"),
        of_nano("ckpt.pt, kept for each step", _checkpoint),
        of_nano("ckpt.pt of a compiled model", _compiled),
    ]
