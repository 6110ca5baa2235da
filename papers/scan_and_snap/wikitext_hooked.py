"""Scan and Snap's WikiText model inside a HookedTransformer: ordinary hook names, ordinary checkpoints."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor

from stagewise.architecture import Architecture
from stagewise.fields import Natural, Range
from stagewise.init import AbstractInit, Config, InitialWeights, Shapes
from stagewise.papers.scan_and_snap._wikitext_model import BLOCK, WIDTH, Baseline, positions

_NORMS = {"norm1": "hook_resid_mid", "norm2": "hook_resid_post"}
"""A layer's norms, and where in the residual stream their outputs stand."""


@dataclasses.dataclass(frozen=True)
class BaselineInit(AbstractInit):
    """`Baseline` without its dropout, as a HookedTransformer: the same predictions and patterns.

    The config has no norms: TransformerLens's stand before what they feed. The LayerNorms of the model, behind
    attention and behind the MLP, are hooks that stay with it and normalise the residual stream itself; their gain `w`
    and shift `b` are parameters of the hook points, so that checkpoints hold them. W_E holds the factor sqrt(200),
    W_pos the sinusoids. The weights are the published initial ones. Training, with dropout and over the text in its
    order, is that of `wikitext_training`, whose record is `baseline.json`.

    Args:
        seed: of the initial weights, as in `Baseline`.
        dropout: in training, for the record: the hooked model has none.

    Source: the code released with Tian et al. (2023), arXiv:2305.16380.
    """

    seed: Natural = 1
    dropout: Annotated[float, Range(0, 1)] = 0.2

    @property
    def trained_by(self) -> str:
        """The commands that train with dropout."""
        return "`stagewise run wikitext-baseline` or `stagewise run scan-and-snap --figure 7` (or 10)"

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Return the published initial weights and the norms.

        Raises:
            ValueError: the config is not the one that `baseline` makes.
        """
        if (cfg.n_heads, cfg.d_head, cfg.d_model, cfg.d_mlp) != (1, WIDTH, WIDTH, WIDTH) or "ln_final.w" in shapes:
            raise ValueError(
                f"BaselineInit needs layers of one head without norms, d_head = d_model = d_mlp = {WIDTH}; got "
                f"{cfg.n_heads} heads, d_head = {cfg.d_head}, d_model = {cfg.d_model}, d_mlp = {cfg.d_mlp}"
            )
        weights = Baseline(cfg.d_vocab, cfg.n_layers, self.dropout, self.seed).state_dict()
        hooks = {f"blocks.{layer}.{name}": _normalised for layer in range(cfg.n_layers) for name in _NORMS.values()}
        return InitialWeights(hooked_weights(weights, cfg.n_ctx), frozenset({"pos_embed.W_pos"}), hooks)


def baseline(d_vocab: int, n_layers: int = 1, init: BaselineInit | None = None, n_ctx: int = BLOCK) -> Architecture:
    """Return the model as an architecture that loads and is probed like any other; see `BaselineInit`."""
    config = {
        "n_layers": n_layers,
        "n_heads": 1,
        "d_head": WIDTH,
        "d_model": WIDTH,
        "d_mlp": WIDTH,
        "n_ctx": n_ctx,
        "d_vocab": d_vocab,
        "act_fn": "relu",
        "normalization_type": None,
    }
    return Architecture(config, init or BaselineInit())


def hooked_weights(state: Mapping[str, Tensor], n_ctx: int = BLOCK) -> dict[str, Tensor]:
    """Return a state dict of `Baseline` by the names and in the layout of the HookedTransformer, as copies."""
    named = {
        "embed.W_E": state["embedding.weight"] * math.sqrt(WIDTH),
        "pos_embed.W_pos": positions(n_ctx),
        "unembed.W_U": state["decoder.weight"].T,
        "unembed.b_U": state["decoder.bias"],
    }
    for layer in range(sum(name.endswith("norm1.weight") for name in state)):
        start = f"layers.{layer}."
        layer_state = {name.removeprefix(start): weight for name, weight in state.items() if name.startswith(start)}
        named |= {f"blocks.{layer}.{name}": weight for name, weight in _layer(layer_state).items()}
    return {name: weight.detach().clone(memory_format=torch.contiguous_format) for name, weight in named.items()}


def _layer(layer_state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of one layer; torch's map from the right, TransformerLens's from the left."""
    named = {
        "attn.W_O": layer_state["self_attn.out_proj.weight"].T[None],
        "attn.b_O": layer_state["self_attn.out_proj.bias"],
    }
    weights, biases = layer_state["self_attn.in_proj_weight"].chunk(3), layer_state["self_attn.in_proj_bias"].chunk(3)
    for letter, weight, bias in zip("QKV", weights, biases, strict=True):
        named |= {f"attn.W_{letter}": weight.T[None], f"attn.b_{letter}": bias[None]}
    for linear, name in (("linear1", "in"), ("linear2", "out")):
        named |= {f"mlp.W_{name}": layer_state[f"{linear}.weight"].T, f"mlp.b_{name}": layer_state[f"{linear}.bias"]}
    for norm, hook in _NORMS.items():
        named |= {f"{hook}.w": layer_state[f"{norm}.weight"], f"{hook}.b": layer_state[f"{norm}.bias"]}
    return named


def _normalised(residual: Float[Tensor, "batch pos model"], hook: Any) -> Tensor:
    return F.layer_norm(residual, residual.shape[-1:], hook.w, hook.b)
