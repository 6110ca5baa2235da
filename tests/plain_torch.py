"""A transformer of every kind that a config makes, in plain torch: head by head, query by query, without any mask."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def plain(
    state: dict[str, Tensor],
    cfg: dict[str, Any],
    tokens: Tensor,
    context: int = 99,
    without: tuple[int, int] | None = None,
) -> Tensor:
    """The log-probabilities: every layer sees `context` keys; head (layer, head) writes nothing."""
    positions = state.get("pos_embed.W_pos", torch.zeros(tokens.shape[1], cfg["d_model"]))[: tokens.shape[1]]
    kind = cfg.get("positional_embedding_type", "standard")
    x = state["embed.W_E"][tokens] + (positions if kind == "standard" else 0)
    for layer in range(cfg["n_layers"]):
        here = {name.removeprefix(f"blocks.{layer}."): w for name, w in state.items() if f"blocks.{layer}." in name}
        local = cfg.get("use_local_attn") and cfg["attn_types"][layer] == "local"
        window = min(context, cfg["window_size"]) if local else context
        silent = without[1] if without is not None and without[0] == layer else None
        shift = positions if kind == "shortformer" else 0
        attended = behind(here, cfg, "ln1_post", attention(here, cfg, norm(here, cfg, "ln1", x), shift, window, silent))
        between = x if cfg.get("parallel_attn_mlp") else x + attended
        x = x + attended
        if not cfg.get("attn_only"):
            x = x + behind(here, cfg, "ln2_post", mlp(here, cfg, norm(here, cfg, "ln2", between)))
    logits = norm(state, cfg, "ln_final", x) @ state["unembed.W_U"] + state["unembed.b_U"]
    return capped(logits, cfg.get("output_logits_soft_cap")).log_softmax(-1)


def behind(here: dict[str, Tensor], cfg: dict[str, Any], name: str, written: Tensor) -> Tensor:
    return norm(here, cfg, name, written) if cfg.get("use_normalization_before_and_after") else written


def norm(here: dict[str, Tensor], cfg: dict[str, Any], name: str, x: Tensor) -> Tensor:
    kind = cfg.get("normalization_type", "LN")
    if kind is None:
        return x
    x = x - x.mean(-1, keepdim=True) if kind.startswith("LN") else x
    x = x / (x.square().mean(-1, keepdim=True) + cfg["eps"]).sqrt()
    return x * here.get(f"{name}.w", 1) + here.get(f"{name}.b", 0)


def mlp(here: dict[str, Tensor], cfg: dict[str, Any], x: Tensor) -> Tensor:
    acts: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}
    act = acts[cfg["act_fn"]]
    if cfg.get("gated_mlp"):
        hidden = act(x @ here["mlp.W_gate"]) * (x @ here["mlp.W_in"]) + here["mlp.b_in"]
    else:
        hidden = act(x @ here["mlp.W_in"] + here["mlp.b_in"])
    return hidden @ here["mlp.W_out"] + here["mlp.b_out"]


def attention(
    here: dict[str, Tensor], cfg: dict[str, Any], x: Tensor, shift: Tensor | int, window: int, silent: int | None
) -> Tensor:
    """Head by head and query by query, over its own last keys: no mask, no softmax over what is not there."""
    out = here["attn.b_O"].expand_as(x).clone()
    for head in range(cfg["n_heads"]):
        q, k, v = (project(here, cfg, name, head, x + (0 if name == "V" else shift)) for name in "QKV")
        for query in range(x.shape[1]):
            first = max(0, query - window + 1)
            distance = torch.arange(query - first, -1, -1)
            scores = torch.einsum("bd,bkd->bk", q[:, query], k[:, first : query + 1]) / cfg["d_head"] ** 0.5
            if cfg.get("positional_embedding_type") == "alibi":
                scores = scores - 2 ** (-8 * (head + 1) / cfg["n_heads"]) * distance
            pattern = capped(scores, cfg.get("attn_scores_soft_cap")).softmax(-1)
            z = torch.einsum("bk,bkd->bd", pattern, v[:, first : query + 1])
            if head != silent:
                out[:, query] += z @ here["attn.W_O"][head]
    return out


def project(here: dict[str, Tensor], cfg: dict[str, Any], name: str, head: int, x: Tensor) -> Tensor:
    groups = cfg.get("n_key_value_heads")
    if groups is not None and name != "Q":
        head, name = head // (cfg["n_heads"] // groups), f"_{name}"
        weight, bias = here[f"attn._W_{name[1]}"][head], here[f"attn._b_{name[1]}"][head]
    else:
        weight, bias = here[f"attn.W_{name}"][head], here[f"attn.b_{name}"][head]
    rotary = cfg.get("positional_embedding_type") == "rotary" and "V" not in name
    return turned(cfg, x @ weight + bias) if rotary else x @ weight + bias


def turned(cfg: dict[str, Any], x: Tensor) -> Tensor:
    """Rotary positions: each pair of dimensions is a complex number, turned by position times frequency."""
    size, x = cfg.get("rotary_dim", cfg["d_head"]), x.clone()
    for pair in range(size // 2):
        one, two = (2 * pair, 2 * pair + 1) if cfg.get("rotary_adjacent_pairs") else (pair, pair + size // 2)
        angles = torch.arange(x.shape[1]) * 10_000 ** (-2 * pair / size)
        turn = torch.complex(x[..., one].clone(), x[..., two].clone()) * torch.polar(torch.ones_like(angles), angles)
        x[..., one], x[..., two] = turn.real, turn.imag
    return x


def capped(x: Tensor, cap: float | None) -> Tensor:
    return x if cap is None else cap * (x / cap).tanh()
