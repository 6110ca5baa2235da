"""Edited passes through a HookedTransformer, whose hooks are all live and which can start at any layer."""

from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateMLP, Edit, Intervention, RestrictContext, first_layer
from stagewise.models._edits import Replacement, ablate, mlp_hook, restrict_scores
from stagewise.models._model import Activations, Hook, Logits, Model


def edited_logits(model: Model, edit: Edit, clean: Activations, replacement: Replacement) -> Logits:
    """Run the model from the first edited layer's clean input on; return its logits."""
    start, is_shortformer = first_layer(edit), model.cfg.positional_embedding_type == "shortformer"
    logits: Tensor = model.run_with_hooks(
        clean[f"blocks.{start}.hook_resid_pre"],
        start_at_layer=start,
        shortformer_pos_embed=clean["hook_pos_embed"] if is_shortformer else None,
        fwd_hooks=[hook for part in edit for hook in edit_hooks(model, part, replacement)],
    )
    return logits


def edit_hooks(model: Model, part: Intervention, replacement: Replacement) -> list[Hook]:
    """Return the hooks that make one edit."""
    if isinstance(part, RestrictContext):
        context = part.context
        return [
            (f"blocks.{layer}.attn.hook_attn_scores", lambda scores, hook: restrict_scores(scores, context))
            for layer in range(model.cfg.n_layers)
        ]
    if isinstance(part, AblateMLP):
        return [(mlp_hook(part.layer), lambda written, hook: replacement(part).expand_as(written).contiguous())]
    return [(z_hook(part.layer), lambda z, hook: ablate(z, part.head, replacement(part), model.cfg.n_heads))]
