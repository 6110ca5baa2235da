"""Let a TransformerLens model read vectors in place of tokens; W_E maps a one-hot vector as it maps its token."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor


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
