"""Edits tried on a model by their effect, on a few tokens, before any number is read.

A model's hooks do not always show what their names say. An edit that does not do what it says is refused here.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AblateMLP, Ablation, RestrictContext
from stagewise.models._bridge_edits import values_by_key, weighted
from stagewise.models._bridge_loading import is_bridge, name_of, trial_tokens
from stagewise.models._edits import NothingLeftError, mlp_hook, restrict_pattern, well_known
from stagewise.models._held_attention import released
from stagewise.models._model import Model, Tokens
from stagewise.models._numbers import SAME, same
from stagewise.models._readout import clean_pass, edited_pass, has_mlp, hooks_for

_POSITIONS = 8
"""Positions of the sequence on which edits are tried."""

_ALIVE = 1e-2
"""Part of what attention writes that has to depend on its heads for an edit's effect to be seen."""

_Kind = type[AblateHead] | type[AblateMLP] | type[RestrictContext]

_TRIED: WeakKeyDictionary[Any, set[_Kind]] = WeakKeyDictionary()

SCORES = ".attn.hook_attn_scores"

_OF_SCORES: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""Hooks of each model that are known to hold scores."""


def check_edits(model: Model, kinds: Iterable[_Kind], tokens: Tokens) -> None:
    """Check by its effect that each kind of edit does on this model what it says; each is tried until it has one."""
    tried, few = _TRIED.setdefault(model, set()), _few(model, tokens)
    for kind in sorted(set(kinds) - tried, key=lambda kind: kind.__name__):
        with released(model):  # a context in which a held head sees none of its keys is no part of its pattern
            if _LAWS[kind](model, few):
                tried.add(kind)


def check_scores(model: Model, hooks: Iterable[str], tokens: Tokens) -> None:
    """Check that those of the hooks that are named for scores hold them: that the pattern is their softmax."""
    known = _OF_SCORES.setdefault(model, set())
    if not (names := {name for name in hooks if name.endswith(SCORES)} - known):
        return
    patterns = {name: name.replace("hook_attn_scores", "hook_pattern") for name in names}
    _, shown = clean_pass(model, _few(model, tokens), {*names, *patterns.values()}, regression=True)
    for name in sorted(names):
        scores, pattern = shown[name], shown[patterns[name]]
        if bool(pattern.isnan().any()):
            continue
        # An attention sink takes a share of each row that no key shows.
        if not same(scores.softmax(-1), pattern / pattern.sum(-1, keepdim=True)):
            raise ValueError(
                f"{name} of {name_of(model)} holds no attention scores, whose softmax would be the pattern: leave the "
                "probes that read it out, as by --without, or read hook_pattern"
            )
        known.add(name)


def _few(model: Model, tokens: Tensor) -> Tensor:
    few = tokens[:1, :_POSITIONS]
    return few if tokens.is_floating_point() else trial_tokens(model.cfg.d_vocab, few.shape[1]).to(tokens.device)


def _ablations_do_what_they_say(model: Model, tokens: Tensor) -> bool:
    """Try ablations in every layer; return whether their effect could be seen in all of them."""
    n_layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
    hooks = {hook for layer in range(n_layers) for hook in hooks_for(model, (AblateHead(layer, 0),))}
    outputs, clean = clean_pass(model, tokens, hooks, regression=True)
    if not bool(outputs.isfinite().all()):
        return False
    seen = True
    for layer in range(n_layers):
        z = clean[z_hook(layer)]
        every = tuple(AblateHead(layer, head) for head in range(n_heads))
        run = partial(edited_pass, model, clean=clean, regression=True, tokens=tokens)
        itself = partial(run, every, replacement=partial(_of_head, z))
        attention = model.blocks[layer].attn
        unedited = _output(attention, itself)  # some modules add the residual stream
        if not same(itself(), outputs):
            raise _refusal(model, AblateHead, f"heads of layer {layer} replaced by themselves change the predictions")
        for edit in (every, every[layer % n_heads :][:1]):
            rest = z.clone()
            rest[:, :, [part.head for part in edit]] = 0
            change = _mapped(model, layer, rest) - _mapped(model, layer, z)
            if not same(_output(attention, partial(run, edit)), unedited + change, of=unedited):
                fault = f"without some heads, attention of layer {layer} does not write what is left"
                raise _refusal(model, AblateHead, fault)
        whole, bias = _mapped(model, layer, z), _mapped(model, layer, torch.zeros_like(z))
        seen &= bool((whole - bias).abs().max() > _ALIVE * whole.abs().max())
    return seen


def _of_head(z: Tensor, part: Ablation) -> Tensor:
    assert isinstance(part, AblateHead)
    return z[:, :, part.head]


def _mlps_are_left_out(model: Model, tokens: Tensor) -> bool:
    """Try ablations of every MLP; return whether their effect could be seen in all of them."""
    layers = [layer for layer in range(model.cfg.n_layers) if has_mlp(model, layer)]
    hooks = {hook for layer in layers for hook in hooks_for(model, (AblateMLP(layer),))}
    outputs, clean = clean_pass(model, tokens, hooks, regression=True)
    if not bool(outputs.isfinite().all()):
        return False
    seen = True
    for layer in layers:
        added, block = clean[mlp_hook(layer)], model.blocks[layer]
        run = partial(edited_pass, model, (AblateMLP(layer),), clean, regression=True, tokens=tokens)
        itself = partial(run, replacement=lambda part, added=added: added)
        if not same(itself(), outputs):
            raise _refusal(model, AblateMLP, f"the MLP of layer {layer} replaced by itself changes the predictions")
        with_mlp, without = _output(block, itself), _output(block, run)
        left = (with_mlp - added - without).abs().max()
        if added.shape != with_mlp.shape or not bool(left <= SAME * with_mlp.abs().max()):
            raise _refusal(model, AblateMLP, f"without its MLP, layer {layer} does not leave what is left")
        seen &= bool(added.abs().max() > _ALIVE * with_mlp.abs().max())
    return seen


def _contexts_do_what_they_say(model: Model, tokens: Tensor) -> bool:
    """Try restricted contexts; return whether their effect could be seen."""
    if getattr(model.cfg, "attention_dir", "causal") != "causal":
        raise _refusal(model, RestrictContext, "its queries attend to later positions, which have no last c among them")
    pattern, values = "blocks.0.attn.hook_pattern", "blocks.0.attn.hook_v"
    edit = (RestrictContext(tokens.shape[1]),)
    outputs, clean = clean_pass(model, tokens, {*hooks_for(model, edit), pattern, values}, regression=True)
    if not bool(outputs.isfinite().all()):
        return False
    if not same(edited_pass(model, edit, clean, regression=True, tokens=tokens), outputs):
        raise _refusal(model, RestrictContext, "a context of all positions changes the predictions")
    attention = model.blocks[0].attn
    unedited = _output(attention, partial(edited_pass, model, edit, clean, tokens=tokens))
    clip = None if is_bridge(model) else getattr(model.cfg, "clip_qkv", None)  # behind the hook of a HookedTransformer
    v = values_by_key(model, 0, clean[values] if clip is None else clean[values].clamp(-clip, clip))
    of_whole = _mapped(model, 0, weighted(clean[pattern], v))
    for context in range(2, tokens.shape[1]):
        kept = well_known(clean[pattern], context).all(1)[0]
        few = torch.where(kept[:, None], clean[pattern], torch.eye(len(kept)).to(clean[pattern]))
        try:
            written = _output(attention, partial(edited_pass, model, (RestrictContext(context),), clean, tokens=tokens))
        except NothingLeftError:  # of these weights, in this context: a larger one is tried
            continue
        change = _mapped(model, 0, weighted(restrict_pattern(few, context), v)) - of_whole
        if not same(written[:, kept], (unedited + change)[:, kept]):
            fault = f"a context of {context} positions is not attention restricted to them"
            raise _refusal(model, RestrictContext, fault)
        seen = not same(written[:, kept], unedited[:, kept])
        if seen or bool(kept.all()):
            return seen
    return False


_LAWS: Mapping[_Kind, Callable[[Model, Tensor], bool]] = {
    AblateHead: _ablations_do_what_they_say,
    AblateMLP: _mlps_are_left_out,
    RestrictContext: _contexts_do_what_they_say,
}


def _output(module: Any, run: Callable[[], object]) -> Float[Tensor, "1 pos model"]:
    """Return the output of a module in a pass, by torch's own hook on it."""
    outputs: list[Tensor] = []

    def record(module: object, arguments: object, output: Any) -> None:
        outputs.append((output if isinstance(output, Tensor) else output[0]).detach())

    handle = module.register_forward_hook(record)
    try:
        run()
    finally:
        handle.remove()
    return outputs[-1]


def _mapped(model: Model, layer: int, z: Float[Tensor, "1 pos head d_head"]) -> Float[Tensor, "1 pos model"]:
    """Return the heads' outputs, by the layer's own output projection."""
    attention = model.blocks[layer].attn
    with torch.no_grad():
        if not is_bridge(model):
            return F.linear(z.flatten(2), attention.W_O.flatten(0, 1).T, attention.b_O)
        output: Tensor = attention.o.original_component(z.flatten(2))
        return output


def _refusal(model: Model, kind: _Kind, fault: str) -> ValueError:
    return ValueError(
        f"{kind.__name__} does not do on {name_of(model)} what it says: {fault}. Its effects would be wrong numbers: "
        "leave the probes that ask for it out, as by --without"
    )
