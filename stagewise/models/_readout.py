"""Readout of the residual stream: the final norm and unembedding, and each head's output, for any model kind."""

import contextlib
import dataclasses
import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.attention import Circuits, residual_hooks_of, z_hook
from stagewise.intervention import AblateMLP, Edit, Intervention, RestrictContext, ablations, first_layer
from stagewise.models import _bridge_edits as bridge_edits
from stagewise.models import _hooked_edits as hooked_edits
from stagewise.models._bridge_loading import is_bridge, name_of, named_in_errors
from stagewise.models._edits import Replacement, by_head, mlp_hook, read_for
from stagewise.models._edits import replacement as clean_replacement
from stagewise.models._lean_reading import lean_weights, rotary_hooks
from stagewise.models._lean_weights import LeanWeights
from stagewise.models._model import Activations, Logits, Model, Rows, Scored, Tokens
from stagewise.models._numbers import Dtype, products_in, same, widened
from stagewise.table import check_head

_Z = r"blocks\.\d+\.attn\.hook_z"
"""Names of what the heads of a layer write before it is mapped into the residual stream."""


def clean_pass(
    model: Model, tokens: Tokens, hooks: Iterable[str], *, regression: bool = False, dtype: Dtype = "float32"
) -> tuple[Logits, dict[str, Tensor]]:
    """Run the model; return log-probabilities (nats), or outputs, and named activations, in float32 in any dtype."""
    logits, activations = _run(model, tokens, set(hooks), dtype)
    outputs = widened(logits)
    return outputs if regression else outputs.log_softmax(-1), activations


def scored_pass(
    model: Model, tokens: Tokens, hooks: Iterable[str], scored: Scored, *, others: bool = True,
    regression: bool = False, dtype: Dtype = "float32",
) -> tuple[Rows, Logits | None, dict[str, Tensor]]:  # fmt: skip
    """Run the model as `clean_pass` does; return the scored predictions, all where `others` are asked for, activations.

    The scored positions are unembedded by themselves: their predictions are the same with the others and without.
    """

    def unembed(own: Callable[..., Tensor], residual: Tensor, *args: Any, **named: Any) -> Tensor:
        if residual.shape[:2] != scored.shape or bool(scored.all()):
            return own(residual, *args, **named)
        rows = own(residual[scored][None], *args, **named)
        if not others:
            return rows
        whole = rows.new_empty(*scored.shape, *rows.shape[2:])
        whole[scored], whole[~scored] = rows[0], own(residual[~scored][None], *args, **named)[0]
        return whole

    logits, activations = _run(model, tokens, set(hooks), dtype, unembed)
    outputs = widened(logits)
    predictions = outputs if regression else outputs.log_softmax(-1)
    if predictions.shape[:2] == scored.shape:
        return predictions[scored], predictions, activations
    return predictions[0], None, activations


def activations_alone(
    model: Model, tokens: Tokens, hooks: Iterable[str], *, dtype: Dtype = "float32"
) -> dict[str, Tensor]:
    """Run the model once, but for its unembedding; return the activations of the named hooks, as `clean_pass` does."""
    names = set(hooks)
    return _run(model, tokens, names, dtype, lambda own, residual, *_, **__: residual[..., :1])[1] if names else {}


def _run(
    model: Model, tokens: Tokens, names: set[str], dtype: Dtype, unembed: Callable[..., Tensor] | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    points = model.hook_dict
    if unknown := sorted(names - points.keys()):
        raise ValueError(_absent(model, unknown))
    # What shows or changes logits at its own positions is given all of them.
    plain = not any("unembed" in name and (name in names or point.fwd_hooks) for name, point in points.items())
    unembedding = _unembedding(model, unembed) if unembed is not None and plain else contextlib.nullcontext()
    with torch.inference_mode(), products_in(dtype, tokens.device), named_in_errors(model), unembedding:
        logits, cache = model.run_with_cache(tokens, names_filter=names.__contains__)
    silent = names - set(cache.keys())
    # Positions as complex numbers have no cosine and sine.
    if silent and (missing := sorted(silent - rotary_hooks(model))):
        raise ValueError(f"a pass of {name_of(model)} does not show {', '.join(missing)}, although it has such a hook")
    shown = {name: widened(cache[name]) for name in names - silent}
    return logits, {name: by_head(x, model.cfg.n_heads) if re.fullmatch(_Z, name) else x for name, x in shown.items()}


@contextlib.contextmanager
def _unembedding(model: Model, unembed: Callable[..., Tensor]) -> Iterator[None]:
    """Let a function of the model's own unembedding, and of the residual stream that it reads, stand in for it."""
    part: Any = getattr(model.unembed, "original_component", None) or model.unembed
    own, before = part.forward, {"forward": part.forward} if "forward" in vars(part) else {}
    part.forward = partial(unembed, own)
    try:
        yield
    finally:
        del part.forward
        vars(part).update(before)


def _absent(model: Model, unknown: Sequence[str]) -> str:
    """Say which hooks a model does not have, and why where its layers are of another kind."""
    start = f"{name_of(model)} has no hook {', '.join(unknown)}"
    headless = [str(k) for k in range(model.cfg.n_layers) if z_hook(k) not in model.hook_dict]
    if headless and all(name.startswith("blocks.") for name in unknown):
        more = f" and {len(headless) - 3} others" if len(headless) > 3 else ""
        return f"{start}: TransformerLens shows no attention heads in layer {', '.join(headless[:3])}{more}"
    near = difflib.get_close_matches(unknown[0], list(model.hook_dict), n=5, cutoff=0)
    return f"{start}; it has {', '.join(near)} and {len(model.hook_dict) - len(near)} others"


def hooks_for(model: Model, edit: Edit) -> set[str]:
    """Name the activations of the clean pass that `edited_pass` starts from."""
    for part in edit:
        _check(model, part)
    # Shortformer positions are not part of the residual stream: every layer receives them again.
    positions = (
        {"hook_pos_embed"} if model.cfg.positional_embedding_type == "shortformer" and not is_bridge(model) else set()
    )
    replaced = {name for part in ablations(edit) for name in read_for(part)}
    return {f"blocks.{first_layer(edit)}.hook_resid_pre"} | positions | replaced


def edited_pass(
    model: Model,
    edit: Edit,
    clean: Activations,
    *,
    regression: bool = False,
    replacement: Replacement | None = None,
    tokens: Tokens | None = None,
    dtype: Dtype = "float32",
) -> Logits:
    """Run the model with the edit, from the first layer that it touches; return predictions as `clean_pass` does."""
    for part in edit:
        _check(model, part)
    replacement = replacement or partial(clean_replacement, clean=clean)
    start = clean[f"blocks.{first_layer(edit)}.hook_resid_pre"]
    with torch.inference_mode(), products_in(dtype, start.device):
        if is_bridge(model):
            logits = bridge_edits.edited_logits(model, edit, clean, replacement, tokens)
        else:
            logits = hooked_edits.edited_logits(model, edit, clean, replacement)
    outputs = widened(logits)
    return outputs if regression else outputs.log_softmax(-1)


def _check(model: Model, part: Intervention) -> None:
    if isinstance(part, RestrictContext):
        return
    if isinstance(part, AblateMLP):
        if not has_mlp(model, part.layer):
            raise ValueError(f"layer {part.layer} of {name_of(model)} has no MLP whose output could be replaced")
    else:
        check_head(part.layer, part.head, model.cfg.n_layers, model.cfg.n_heads)


def has_mlp(model: Model, layer: int) -> bool:
    """Whether a layer has an MLP, and shows what it writes."""
    return not model.cfg.attn_only and mlp_hook(layer) in model.hook_dict


def circuits(model: Model) -> Circuits:
    """Return the model's weights as circuits, of every query head."""
    from transformer_lens import FactoredMatrix

    module: Any = model
    weights = (weight.detach() for weight in (module.W_Q, module.W_K, module.W_V, module.W_O))
    # Under grouped queries several heads share their keys and values.
    q, k, v, o = (weight.repeat_interleave(model.cfg.n_heads // weight.shape[1], 1) for weight in weights)
    positions = None
    if model.cfg.positional_embedding_type == "standard":
        table = module.W_pos if hasattr(model, "W_pos") else module.pos_embed.weight
        positions = table.detach()[-model.cfg.n_ctx :]  # some tables have rows before position 0
    QK, OV = FactoredMatrix(q, k.mT), FactoredMatrix(v, o)
    return Circuits(QK, OV, module.W_E.detach(), module.W_U.detach(), positions)


@dataclasses.dataclass(frozen=True, eq=False)
class Readout:
    """The way from the residual stream to the predictions; whether it is a sum, and of what heads write, is asked."""

    weights: LeanWeights
    is_sum: bool = True
    adds_heads: Callable[[], bool] = lambda: True

    def logits(self, residual: Float[Tensor, "*axes model"]) -> Float[Tensor, "*axes token"]:
        """Return the logits (or outputs) of residual vectors, as if the last layer had left them: the logit lens."""
        return self.weights.unembedded(residual)

    def direct(
        self, part: Float[Tensor, "*axes model"], residual: Float[Tensor, "*axes model"], targets: Int[Tensor, "*axes"]
    ) -> Float[Tensor, "*axes"]:
        """Return a part's contribution to a target's logit over the mean logit, by the whole residual's norm."""
        if not self.is_sum:
            raise ValueError(
                "hooks that stay with this model change its residual stream, as a norm behind every layer does: what a "
                "part adds to a logit is not defined. Leave direct attribution out"
            )
        W_U = self.weights.W_U
        directions = W_U.T[targets] - W_U.mean(-1)
        return (self.weights.ln_final.of_part(part, residual) * directions).sum(-1)

    def written(self, layer: int, z: Float[Tensor, "*axes head d_head"]) -> Float[Tensor, "*axes head model"]:
        """Return each head's output to the residual stream in a layer, without the bias of attention."""
        if not self.adds_heads():
            raise ValueError(
                "this model multiplies or normalises what attention writes in a way that is not known here, so that "
                "what a head adds to a logit cannot be read: leave DirectLogitAttribution out"
            )
        of = self.weights.layers[layer]
        each = torch.einsum("...hd,hdm->...hm", z, of.W_O)
        if of.ln1_post is None:
            return each
        whole = each.sum(-2, keepdim=True) + of.bias_o
        return of.ln1_post.of_part(each, whole.expand(each.shape))


def readout(
    model: Model, clean: Activations, predictions: Rows, scored: Scored, *, regression: bool = False,
    tokens: Tokens | None = None,
) -> Readout:  # fmt: skip
    """Return a model's readout, checked by its effect: behind the last layer it gives the model's own predictions."""
    weights = lean_weights(model, clean, mlps=False)
    advice = "leave the probes that read logits from the residual stream, as LogitLens, out"
    if weights is None:
        raise ValueError(f"the final norm and unembedding of {name_of(model)} are of no known kind: {advice}")
    changed = any(point.fwd_hooks for name, point in model.hook_dict.items() if ".hook_resid_" in name)
    found = Readout(weights, is_sum=not changed)
    if tokens is not None and not changed:
        adds_heads = functools.partial(_adds_heads, model, weights, tokens[:1])
        found = dataclasses.replace(found, adds_heads=functools.cache(adds_heads))
    with torch.inference_mode():
        rows = clean[residual_hooks_of(len(weights.layers))[-1]][scored][: scored.shape[1]]
        logits = found.logits(rows)
        agree = same(logits if regression else logits.log_softmax(-1), predictions[: len(rows)])
    if not agree:
        read = f"the final norm and unembedding of {name_of(model)}, as they are read here"
        raise ValueError(f"{read}, do not give its own predictions: {advice}")
    return found


def _adds_heads(model: Model, weights: LeanWeights, tokens: Tensor) -> bool:
    """Whether the residual stream behind attention, without what the MLP adds, is what was read makes it."""
    behind = [_behind_attention(model, number) for number in range(len(weights.layers))]
    hooks = {f"blocks.{n}.{hook}" for n in range(len(behind)) for hook in ("hook_resid_pre", "attn.hook_z")}
    _, clean = clean_pass(model, tokens, hooks.union(*behind), regression=True)
    for number, (stream, *added) in enumerate(behind):
        x, z = clean[f"blocks.{number}.hook_resid_pre"], clean[z_hook(number)]
        with torch.inference_mode():
            computed = weights.layers[number].behind_attention(x, weights.layers[number].write(z))
            shown = clean[stream] - sum(clean[name] for name in added)
        if not same(computed, shown, of=clean[stream]):
            return False
    return True


def _behind_attention(model: Model, layer: int) -> tuple[str, ...]:
    """Name the residual stream behind a layer's attention; where its MLP is beside it, that behind both, and it."""
    if (between := f"blocks.{layer}.hook_resid_mid") in model.hook_dict:
        return (between,)
    return f"blocks.{layer}.hook_resid_post", *([mlp_hook(layer)] if has_mlp(model, layer) else [])
