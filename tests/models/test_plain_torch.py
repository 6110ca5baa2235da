"""Every kind of model that a config makes, and every edit of it, against the same computation in plain torch."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit, WithoutPositions
from stagewise.intervention import AblateHead, Edit, RestrictContext

FULL, CUT = 1e-5, 1e-4
"""Log-probabilities of order one in float32: the same sums, and sums in another order through three layers."""

CONFIG = {"n_layers": 3, "d_model": 16, "d_head": 4, "n_heads": 4, "n_ctx": 9, "d_vocab": 7, "d_mlp": 12, "eps": 1e-5}
TOKENS = torch.randint(7, (5, 9), generator=torch.Generator().manual_seed(0))

ROTARY = {"positional_embedding_type": "rotary"}
KINDS: dict[str, dict] = {
    "attention only": {"attn_only": True, "normalization_type": None},
    "LN and MLP": {"act_fn": "gelu"},
    "LNPre": {"normalization_type": "LNPre"},
    "RMS norm": {"normalization_type": "RMS"},
    "RMSPre": {"normalization_type": "RMSPre"},
    "rotary": ROTARY,
    "half rotary": {**ROTARY, "d_head": 8, "rotary_dim": 4},
    "adjacent rotary": {**ROTARY, "rotary_adjacent_pairs": True},
    "grouped queries": {"n_key_value_heads": 2},
    "as Llama": {**ROTARY, "normalization_type": "RMS", "gated_mlp": True, "act_fn": "silu", "n_key_value_heads": 2},
    "soft caps": {"attn_scores_soft_cap": 1.0, "output_logits_soft_cap": 2.0},
    "no positions": {"without positions": True},
    "wide output": {"d_vocab_out": 11},
}
if model.has_hooked_transformer():
    KINDS |= {
        "alibi": {"positional_embedding_type": "alibi"},
        "shortformer": {"positional_embedding_type": "shortformer"},
        "parallel": {"parallel_attn_mlp": True},
        "as GPT-NeoX": {**ROTARY, "d_head": 8, "rotary_dim": 4, "parallel_attn_mlp": True, "act_fn": "gelu"},
        "local attention": {"use_local_attn": True, "window_size": 5, "attn_types": ["local", "global", "local"]},
    }
every_kind = pytest.mark.parametrize("change", KINDS.values(), ids=KINDS.keys())


def made(change: dict, n_layers: int = 3) -> tuple[Architecture, torch.nn.Module, dict[str, Tensor]]:
    """A model whose parameters are all random, biases too, and its weights."""
    gaussian = GaussianInit(0.2 if change.get("normalization_type", "LN") is None else 0.5)  # logits of order one
    init = WithoutPositions(gaussian) if "without positions" in change else gaussian
    fields = {name: value for name, value in change.items() if name != "without positions"}
    architecture = Architecture({"act_fn": "relu", **CONFIG, **fields, "n_layers": n_layers}, init)
    built, generator = model.build(architecture), torch.Generator().manual_seed(1)
    state = {
        name: weight + (0.2 * torch.randn(weight.shape, generator=generator) if "W_pos" not in name else 0)
        for name, weight in sorted(model.weights(built).items())
    }
    model.load(built, state)
    return architecture, built, state


def passed(built: torch.nn.Module, edit: Edit) -> Tensor:
    log_probs, activations = model.clean_pass(built, TOKENS, model.hooks_for(built, edit) if edit else ())
    return model.edited_pass(built, edit, activations) if edit else log_probs


def plain(
    state: dict[str, Tensor], cfg: dict[str, Any], context: int = 99, without: tuple[int, int] | None = None
) -> Tensor:
    """The log-probabilities on TOKENS: every layer sees `context` keys; head (layer, head) writes nothing."""
    positions = state.get("pos_embed.W_pos", torch.zeros(9, cfg["d_model"]))[: TOKENS.shape[1]]
    kind = cfg.get("positional_embedding_type", "standard")
    x = state["embed.W_E"][TOKENS] + (positions if kind == "standard" else 0)
    for layer in range(cfg["n_layers"]):
        here = {name.removeprefix(f"blocks.{layer}."): w for name, w in state.items() if f"blocks.{layer}." in name}
        local = cfg.get("use_local_attn") and cfg["attn_types"][layer] == "local"
        window = min(context, cfg["window_size"]) if local else context
        silent = without[1] if without is not None and without[0] == layer else None
        shift = positions if kind == "shortformer" else 0
        attended = attention(here, cfg, norm(here, cfg, "ln1", x), shift, window, silent)
        between = x if cfg.get("parallel_attn_mlp") else x + attended
        x = x + attended
        if not cfg.get("attn_only"):
            x = x + mlp(here, cfg, norm(here, cfg, "ln2", between))
    logits = norm(state, cfg, "ln_final", x) @ state["unembed.W_U"] + state["unembed.b_U"]
    return capped(logits, cfg.get("output_logits_soft_cap")).log_softmax(-1)


def norm(here: dict[str, Tensor], cfg: dict[str, Any], name: str, x: Tensor) -> Tensor:
    kind = cfg.get("normalization_type", "LN")
    if kind is None:
        return x
    x = x - x.mean(-1, keepdim=True) if kind.startswith("LN") else x
    x = x / (x.square().mean(-1, keepdim=True) + cfg["eps"]).sqrt()
    return x * here.get(f"{name}.w", 1) + here.get(f"{name}.b", 0)


def mlp(here: dict[str, Tensor], cfg: dict[str, Any], x: Tensor) -> Tensor:
    act = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[cfg["act_fn"]]
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
        turn = torch.complex(x[..., one].clone(), x[..., two].clone()) * torch.polar(torch.ones(9), angles)
        x[..., one], x[..., two] = turn.real, turn.imag
    return x


def capped(x: Tensor, cap: float | None) -> Tensor:
    return x if cap is None else cap * (x / cap).tanh()


@every_kind
def test_the_clean_pass_is_plain_torchs(change: dict) -> None:
    architecture, built, state = made(change)
    expected = plain(state, dict(architecture.config))
    assert expected.std() > 0.1
    torch.testing.assert_close(passed(built, ()), expected, atol=CUT, rtol=0)


@every_kind
def test_patterns_sum_to_one_over_the_keys_before_the_query(change: dict) -> None:
    _, built, _ = made(change)
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(3)]
    _, activations = model.clean_pass(built, TOKENS, names)
    for name in names:
        torch.testing.assert_close(activations[name].sum(-1), torch.ones(5, 4, 9), atol=FULL, rtol=0)
        assert not activations[name].triu(1).any()


@every_kind
def test_a_context_as_long_as_the_sequence_changes_nothing(change: dict) -> None:
    _, built, _ = made(change)
    torch.testing.assert_close(passed(built, (RestrictContext(9),)), passed(built, ()), atol=FULL, rtol=0)


@every_kind
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_restricted_context_is_plain_torchs_attention_to_the_last_keys_in_every_layer(
    change: dict, layers: int
) -> None:
    architecture, built, state = made(change, layers)
    for context in (1, 4):
        expected = plain(state, dict(architecture.config), context)
        assert (expected - plain(state, dict(architecture.config))).abs().max() > 1e-2
        torch.testing.assert_close(passed(built, (RestrictContext(context),)), expected, atol=CUT, rtol=0)


@every_kind
def test_ablating_a_head_is_plain_torch_without_what_it_writes(change: dict) -> None:
    architecture, built, state = made(change)
    for layer, head in ((0, 3), (2, 1)):
        expected = plain(state, dict(architecture.config), without=(layer, head))
        assert (expected - plain(state, dict(architecture.config))).abs().max() > 1e-2
        torch.testing.assert_close(passed(built, (AblateHead(layer, head),)), expected, atol=CUT, rtol=0)


@every_kind
def test_a_head_is_ablated_inside_a_restricted_context(change: dict) -> None:
    architecture, built, state = made(change)
    expected = plain(state, dict(architecture.config), 3, without=(1, 2))
    torch.testing.assert_close(passed(built, (AblateHead(1, 2), RestrictContext(3))), expected, atol=CUT, rtol=0)


def test_attention_far_outside_the_context_can_still_be_cut_away() -> None:
    """In a pattern nothing would be left of the last key: exp(-200) is zero in float32."""
    architecture, built, state = made({"attn_only": True, "normalization_type": None}, 1)
    state |= {name: 40 * state[name] for name in ("blocks.0.attn.W_Q", "blocks.0.attn.W_K")}
    model.load(built, state)
    expected = plain(state, dict(architecture.config), 1)
    assert math.isfinite(expected.sum().item())
    torch.testing.assert_close(passed(built, (RestrictContext(1),)), expected, atol=CUT, rtol=0)
