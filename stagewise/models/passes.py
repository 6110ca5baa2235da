"""A model run clean or edited: log-probabilities and activations; and its weights as circuits."""

from collections.abc import Iterable, Mapping
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.attention import Circuits, circuits_of
from stagewise.intervention import AblateHead, Edit, Intervention, RestrictContext, first_layer
from stagewise.models import bridge_edits, hooked_edits
from stagewise.models.edits import Replacement
from stagewise.models.edits import replacement as clean_replacement
from stagewise.models.model import Model
from stagewise.models.wrapping import is_bridge


def clean_pass(
    model: Model,
    tokens: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"],
    hooks: Iterable[str],
    *,
    regression: bool = False,
) -> tuple[Float[Tensor, "batch pos token"], dict[str, Tensor]]:
    """Run the model once; return its log-probabilities (nats) and the activations of the named hooks.

    For a regression the outputs themselves are returned in place of the log-probabilities.

    Raises:
        ValueError: the model has no such hook.
    """
    names = set(hooks)
    if unknown := sorted(names - model.hook_dict.keys()):
        raise ValueError(f"the model has no hook {', '.join(unknown)}; it has {', '.join(model.hook_dict)}")
    with torch.inference_mode():
        logits, cache = model.run_with_cache(tokens, names_filter=names.__contains__)
    return logits if regression else logits.log_softmax(-1), {name: cache[name] for name in names}


def hooks_for(model: Model, edit: Edit) -> set[str]:
    """Name the activations of the clean pass that `edited_pass` starts from.

    Raises:
        ValueError: a layer or a head that the model does not have.
    """
    for part in edit:
        _check(model, part)
    # Shortformer positions are not part of the residual stream: every layer receives them again.
    positions = {"hook_pos_embed"} if hooked_edits.is_shortformer(model) and not is_bridge(model) else set()
    replaced = {f"blocks.{part.layer}.attn.hook_z" for part in edit if isinstance(part, AblateHead)}
    return {f"blocks.{first_layer(edit)}.hook_resid_pre"} | positions | replaced


def edited_pass(
    model: Model,
    edit: Edit,
    clean: Mapping[str, Tensor],
    *,
    regression: bool = False,
    replacement: Replacement | None = None,
) -> Float[Tensor, "batch pos token"]:
    """Run the model with the edit, from the first layer that it touches; return log-probabilities (nats).

    For a regression, the outputs themselves.

    The model is unchanged afterwards.

    Args:
        model: what to run.
        edit: what to change.
        clean: the activations that `hooks_for(model, edit)` names.
        regression: whether the model predicts vectors.
        replacement: what an ablated head's output is replaced by; None computes it from `clean`.

    Raises:
        ValueError: a layer or a head that the model does not have.
    """
    for part in edit:
        _check(model, part)
    replacement = replacement or partial(clean_replacement, clean=clean)
    with torch.inference_mode():
        outputs: Tensor = (bridge_edits if is_bridge(model) else hooked_edits).edited_logits(
            model, edit, clean, replacement
        )
    return outputs if regression else outputs.log_softmax(-1)


def _check(model: Model, part: Intervention) -> None:
    if isinstance(part, RestrictContext):
        return
    if part.layer >= model.cfg.n_layers or part.head >= model.cfg.n_heads:
        raise ValueError(
            f"there is no head L{part.layer}H{part.head}: the model has {model.cfg.n_layers} layers "
            f"of {model.cfg.n_heads} heads, counted from 0"
        )


def circuits(model: Model) -> Circuits:
    """Return the model's weights as circuits, of every query head."""
    from transformer_lens import FactoredMatrix

    return circuits_of(model, FactoredMatrix)
