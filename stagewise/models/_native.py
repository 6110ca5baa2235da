"""The model that transformer-lens 4 makes from a config, with a HookedTransformer's parameters, names and shapes."""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from stagewise.init import Config
from stagewise.models._config_fields import NATIVE, OF_NATIVE_WITHOUT_EFFECT, WITHOUT_EFFECT, asked_beside
from stagewise.models._model import Bridge, Model

_LETTERS = {
    **{"embed": "E", "pos_embed": "pos", "unembed": "U"},
    **{"q": "Q", "k": "K", "v": "V", "o": "O", "in": "in", "out": "out", "gate": "gate"},
}
_LAYOUTS = {
    **dict.fromkeys(["W_Q", "W_K", "W_V"], "(head d) m -> head m d"),
    **dict.fromkeys(["b_Q", "b_K", "b_V"], "(head d) -> head d"),
    "W_O": "m (head d) -> head d m",
    **dict.fromkeys(["W_in", "W_out", "W_gate", "W_U"], "o i -> i o"),
}


def is_native(model: object) -> TypeGuard[Bridge]:
    """Whether it is a TransformerBridge that TransformerLens made from a config, around no Hugging Face model."""
    return type(getattr(model, "original_model", None)).__name__ == "NativeModel"


def described(cfg: Config) -> dict[str, Any]:
    """Return the config of a native bridge as plain data, without the fields that it ignores."""
    return {field: getattr(cfg, field) for field in sorted(NATIVE)}


def supported_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a config that the model is made from."""
    known = NATIVE | WITHOUT_EFFECT | OF_NATIVE_WITHOUT_EFFECT | {"use_attn_scale"}
    asked, kind = asked_beside(config, known), config.get("positional_embedding_type", "standard")
    asked |= {} if kind in ("standard", "rotary", "shortformer") else {"positional_embedding_type": kind}
    for field, value in asked.items():
        raise ValueError(
            f"transformer-lens 4 has no {field} = {value} for a model made from a config: leave it out, or take "
            'transformer-lens 3.9 (pip install "transformer-lens<4")'
        )
    fields = {field: value for field, value in config.items() if field in NATIVE}
    fields |= {"positional_embedding_type": "standard"} if kind == "shortformer" else {}
    return {**fields, "attn_scale": -1.0} if _is_unscaled(config) else fields


def _is_unscaled(config: Mapping[str, Any]) -> bool:
    return config.get("use_attn_scale") is False or config.get("attn_scale") == 1


def complete(model: Bridge, config: Mapping[str, Any]) -> None:
    """Give the model what a HookedTransformer has beyond it: biases, shortformer positions, unscaled scores."""
    _add_bias(model.unembed.original_component)
    if _is_unscaled(config):
        model.cfg.attn_scale, model.cfg.use_attn_scale = 1.0, False
        for block in model.blocks:
            block.attn.original_component.scale = 1.0
    if config.get("positional_embedding_type") == "shortformer":
        model.cfg.positional_embedding_type = "shortformer"
        _move_positions(model)
    if model.cfg.gated_mlp and not model.cfg.attn_only:
        for block in model.blocks:
            _add_bias(block.mlp.out.original_component)
            _add_shift(block.mlp.out.original_component)


def _add_bias(linear: nn.Linear) -> None:
    linear._buffers.pop("bias", None)  # TransformerLens's constant zero
    linear.bias = nn.Parameter(linear.weight.new_zeros(linear.out_features))


def _add_shift(linear: Any) -> None:
    """Add b_in, which a HookedTransformer's gated MLP adds after the product with the gate."""
    linear.shift = nn.Parameter(linear.weight.new_zeros(linear.in_features))

    def forward(hidden: Tensor) -> Tensor:
        return F.linear(hidden + linear.shift, linear.weight, linear.bias)

    linear.forward = forward


def _move_positions(model: Any) -> None:
    """Add the positions to what queries and keys read, and no longer to the residual stream."""
    embedding = model.pos_embed.original_component
    embedding.forward = lambda positions: embedding.weight.new_zeros(*positions.shape, embedding.embedding_dim)
    for attention in (block.attn for block in model.blocks):
        for linear in (attention.q.original_component, attention.k.original_component):
            linear.forward = partial(_placed, linear, embedding)


def _placed(linear: nn.Linear, embedding: nn.Embedding, x: Tensor) -> Tensor:
    return F.linear(x + embedding.weight[: x.shape[1]], linear.weight, linear.bias)


def parameters(model: Model) -> dict[str, nn.Parameter]:
    """Return the model's own parameters, in its own layout, by a HookedTransformer's names."""
    named = {_hooked_name(name, model.cfg): weight for name, weight in model.state_dict(keep_vars=True).items()}
    for layer, block in enumerate(model.blocks):
        out = getattr(getattr(block, "mlp", None), "out", None)
        if (shift := getattr(out, "shift", None)) is not None:  # not in the state dict: TransformerLens knows no such
            named[f"blocks.{layer}.mlp.b_in"] = shift
    return named


def weights(model: Model) -> dict[str, Tensor]:
    """Return the model's parameters by a HookedTransformer's names and in its layout."""
    return _with_biases(views(parameters(model), model.cfg))


def hooked_state(state: Mapping[str, Tensor], cfg: Config) -> Mapping[str, Tensor]:
    """Return weights that transformer-lens 4 saved as a HookedTransformer names and shapes them; others as they are."""
    if not {"embed.weight", "unembed.weight", "blocks.0.attn.q.weight"} <= state.keys():
        return state
    return _with_biases(views({_hooked_name(name, cfg): weight for name, weight in state.items()}, cfg))


def _with_biases(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Add the biases, at zero, that transformer-lens 4 leaves out of a gated MLP."""
    for name in [name for name in state if name.endswith(".W_gate")]:
        d_model, d_mlp = state[name].shape
        state.setdefault(name.replace("W_gate", "b_in"), state[name].new_zeros(d_mlp))
        state.setdefault(name.replace("W_gate", "b_out"), state[name].new_zeros(d_model))
    return state


def _hooked_name(name: str, cfg: Config) -> str:
    """Return a HookedTransformer's name: "blocks.0.attn.q.weight" is "blocks.0.attn.W_Q"."""
    *stem, part, kind = name.split(".")
    if part not in _LETTERS:
        return ".".join([*stem, part, kind[0]])
    if part.endswith("embed"):
        stem.append(part)
    grouped = "_" if part in ("k", "v") and cfg.n_key_value_heads is not None else ""
    return ".".join([*stem, f"{grouped}{'W' if kind == 'weight' else 'b'}_{_LETTERS[part]}"])


def hooked(name: str, weight: Tensor, cfg: Config) -> Tensor:
    """Return a parameter in a HookedTransformer's layout, pairs that turn sorted into halves; gradients flow back."""
    last = name.rpartition(".")[2].lstrip("_")
    weight = _arranged(name, weight, _LAYOUTS[last], cfg) if last in _LAYOUTS else weight
    return _sorted_pairs(weight, "... (pair two) -> ... (two pair)", cfg) if _turns(last, cfg) else weight


def unhooked(name: str, weight: Tensor, cfg: Config) -> Tensor:
    """Return a HookedTransformer's parameter in the layout of transformer-lens 4: the inverse of `hooked`."""
    last = name.rpartition(".")[2].lstrip("_")
    weight = _sorted_pairs(weight, "... (two pair) -> ... (pair two)", cfg) if _turns(last, cfg) else weight
    if last not in _LAYOUTS:
        return weight
    theirs, ours = _LAYOUTS[last].split(" -> ")
    return _arranged(name, weight, f"{ours} -> {theirs}", cfg)


def _turns(last: str, cfg: Config) -> bool:
    rotary = cfg.positional_embedding_type == "rotary" and not cfg.rotary_adjacent_pairs
    return bool(rotary and last in ("W_Q", "W_K", "b_Q", "b_K"))


def _sorted_pairs(weight: Tensor, pattern: str, cfg: Config) -> Tensor:
    turned = cfg.rotary_dim or cfg.d_head
    # Only the first rotary_dim dimensions of a head turn; the others keep their place.
    return torch.cat([rearrange(weight[..., :turned], pattern, two=2), weight[..., turned:]], -1)


def _arranged(name: str, weight: Tensor, pattern: str, cfg: Config) -> Tensor:
    from einops import EinopsError

    try:
        return rearrange(weight, pattern, **({"d": cfg.d_head} if " d" in pattern else {}))
    except EinopsError as reason:
        raise ValueError(
            f"the weights do not fit the model: {name} has the shape {tuple(weight.shape)}, with d_head = {cfg.d_head}"
        ) from reason


def logits_from(model: Bridge, layer: int, x: Tensor, mask: Tensor | None = None) -> Float[Tensor, "batch pos token"]:
    """Run the model from a layer's input on; `mask` is true where a query must not look at a key."""
    inner, cap = model.original_model, model.cfg.output_logits_soft_cap
    positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    for block in inner.layers[layer:]:
        (x,) = block(x, attention_mask=mask, position_ids=positions)
    logits: Tensor = inner.head(inner.ln_out(x))
    return cap * (logits / cap).tanh() if cap > 0 else logits


def attn_scale(model: Model, layer: int) -> float:
    """Return the divisor of a layer's scores; transformer-lens 4 takes sqrt(d_head) where none is given."""
    if not is_native(model):
        return float(model.blocks[layer].attn.attn_scale)
    return float(model.cfg.attn_scale) if model.cfg.attn_scale > 0 else float(model.cfg.d_head**0.5)


def views(named: Mapping[str, Tensor], cfg: Config) -> dict[str, Tensor]:
    """Return the result of `parameters` in a HookedTransformer's layout; gradients flow back."""
    return {name: hooked(name, weight, cfg) for name, weight in named.items()}


def accept_vectors(model: Any) -> None:
    """Let a HookedTransformer read vectors [batch pos feature] as well as tokens [batch pos], in place."""
    embed, position = model.embed.forward, getattr(model, "pos_embed", None)

    def embed_forward(tokens: Tensor) -> Tensor:
        embedded: Tensor = tokens @ model.embed.W_E if tokens.is_floating_point() else embed(tokens)
        return embedded

    model.embed.forward = embed_forward
    if position is None:
        return
    of_tokens = position.forward

    def pos_embed_forward(tokens: Tensor, *rest: Any, **named: Any) -> Tensor:
        embedded: Tensor = of_tokens(tokens[..., 0] if tokens.is_floating_point() else tokens, *rest, **named)
        return embedded

    position.forward = pos_embed_forward


def native_accepts_vectors(bridge: Any) -> None:
    """Let a native bridge read vectors as well; by itself it takes vectors for embeddings, without W_E."""
    whole, embedding = bridge.original_model.forward, bridge.embed.original_component

    def embed_forward(tokens: Tensor) -> Tensor:
        return tokens @ embedding.weight if tokens.is_floating_point() else F.embedding(tokens, embedding.weight)

    def forward(input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **named: Any) -> Tensor:
        if inputs_embeds is not None:
            inputs_embeds = bridge.embed(inputs_embeds)
        logits: Tensor = whole(input_ids=input_ids, inputs_embeds=inputs_embeds, **named)
        return logits

    embedding.forward = embed_forward
    bridge.original_model.forward = forward
