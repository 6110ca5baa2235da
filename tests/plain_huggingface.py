"""GPT-2, Llama and OLMo-3 in plain torch, from their papers and their weights alone: no line of transformers."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

State = dict[str, Tensor]


def attend(q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
    """Causal attention of [pos head d_head], over the last `window` keys, query by query."""
    out = torch.zeros_like(q)
    share = q.shape[1] // k.shape[1]
    for head in range(q.shape[1]):
        for query in range(len(q)):
            first = 0 if window is None else max(0, query - window + 1)
            keys, values = (each[first : query + 1, head // share] for each in (k, v))
            weights = (keys @ q[query, head] / math.sqrt(q.shape[2])).softmax(0)
            out[query, head] = weights @ values
    return out


def gpt2(state: State, cfg: Any, tokens: Tensor) -> Tensor:
    """Radford et al. (2019): norms before each part, GELU by tanh, one matrix for words in and out."""

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], cfg.layer_norm_epsilon)

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ state[f"{name}.weight"] + state[f"{name}.bias"]

    x = state["transformer.wte.weight"][tokens] + state["transformer.wpe.weight"][: len(tokens)]
    for layer in range(cfg.n_layer):
        at = f"transformer.h.{layer}"
        heads = linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn").chunk(3, -1)
        q, k, v = (each.unflatten(-1, (cfg.n_head, -1)) for each in heads)
        x = x + linear(attend(q, k, v).flatten(1), f"{at}.attn.c_proj")
        inner = F.gelu(linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, f"{at}.mlp.c_proj")
    return (norm(x, "transformer.ln_f") @ state["transformer.wte.weight"].T).log_softmax(-1)


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def turned(x: Tensor, angles: Tensor, scale: float = 1.0) -> Tensor:
    """Su et al. (2021): the first half of dimensions and the second are the coordinates that are turned."""
    a, b = x.chunk(2, -1)
    cos, sin = (scale * each[:, None] for each in (angles.cos(), angles.sin()))
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def yarn(dim: int, base: float, rope: dict[str, Any]) -> tuple[Tensor, float]:
    """Peng et al. (2023), YaRN, arXiv:2309.00071, section 3.2: frequencies, and the factor of queries and keys."""
    own = base ** -(torch.arange(0, dim, 2) / dim)
    turns = rope["original_max_position_embeddings"] / (2 * math.pi)
    low, high = (dim * math.log(turns / rope[name]) / (2 * math.log(base)) for name in ("beta_fast", "beta_slow"))
    low, high = max(math.floor(low), 0), min(math.ceil(high), dim - 1)
    slow = ((torch.arange(dim // 2) - low) / (high - low)).clamp(0, 1)
    return own * (1 - slow) + own / rope["factor"] * slow, 0.1 * math.log(rope["factor"]) + 1


def llama(state: State, cfg: Any, tokens: Tensor) -> Tensor:
    """Touvron et al. (2023): RMS norms before each part, rotary positions, a gated MLP."""
    dim = cfg.hidden_size // cfg.num_attention_heads
    angles = torch.arange(len(tokens))[:, None] * 10_000.0 ** -(torch.arange(0, dim, 2) / dim)
    x = state["model.embed_tokens.weight"][tokens]
    for layer in range(cfg.num_hidden_layers):
        here = _here(state, layer)
        normed = rms(x, here["input_layernorm.weight"], cfg.rms_norm_eps)
        q, k, v = (
            (normed @ here[f"self_attn.{each}_proj.weight"].T).unflatten(-1, (-1, dim)) for each in ("q", "k", "v")
        )
        x = x + attend(turned(q, angles), turned(k, angles), v).flatten(1) @ here["self_attn.o_proj.weight"].T
        x = x + _gated(here, rms(x, here["post_attention_layernorm.weight"], cfg.rms_norm_eps))
    return (rms(x, state["model.norm.weight"], cfg.rms_norm_eps) @ state["lm_head.weight"].T).log_softmax(-1)


def olmo3(state: State, cfg: Any, tokens: Tensor, rope: dict[str, Any]) -> Tensor:
    """OLMo Team (2025): norms behind each part and of whole queries and keys, three windows and one whole context in
    turn, and only the whole ones scaled by YaRN.
    """
    dim = cfg.hidden_size // cfg.num_attention_heads
    plain = 500_000.0 ** -(torch.arange(0, dim, 2) / dim), 1.0
    x, eps = state["model.embed_tokens.weight"][tokens], cfg.rms_norm_eps
    for layer in range(cfg.num_hidden_layers):
        here, whole = _here(state, layer), (layer + 1) % 4 == 0
        frequencies, scale = yarn(dim, 500_000.0, rope) if whole else plain
        angles = torch.arange(len(tokens))[:, None] * frequencies
        q, k = (
            rms(x @ here[f"self_attn.{each}_proj.weight"].T, here[f"self_attn.{each}_norm.weight"], eps)
            for each in ("q", "k")
        )
        v = x @ here["self_attn.v_proj.weight"].T
        q, k, v = (each.unflatten(-1, (-1, dim)) for each in (q, k, v))
        q, k = (turned(each, angles, scale) for each in (q, k))
        attended = attend(q, k, v, None if whole else cfg.sliding_window).flatten(1) @ here["self_attn.o_proj.weight"].T
        x = x + rms(attended, here["post_attention_layernorm.weight"], eps)
        x = x + rms(_gated(here, x), here["post_feedforward_layernorm.weight"], eps)
    return (rms(x, state["model.norm.weight"], eps) @ state["lm_head.weight"].T).log_softmax(-1)


def _here(state: State, layer: int) -> State:
    before = f"model.layers.{layer}."
    return {name.removeprefix(before): weight for name, weight in state.items() if name.startswith(before)}


def _gated(here: State, x: Tensor) -> Tensor:
    gate, up, down = (here[f"mlp.{each}_proj.weight"].T for each in ("gate", "up", "down"))
    return (F.silu(x @ gate) * (x @ up)) @ down
