"""The weights of a model as circuits: what each head's query-key and output-value matrices map, in factored form."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

Factored = Any
"""TransformerLens's FactoredMatrix, A B with `.AB`, `.eigenvalues`, `.norm()`; naming the type would import it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Circuits:
    """The weights that circuits are made of, as they are stored: normalisation and its gains are left out.

    Rows are inputs, columns outputs: x QK y^T is the attention score of query x and key y less its biases, x OV is what
    a head writes about x. Under grouped queries every query head has its own copy of the shared keys and values.

    Args:
        QK: W_Q W_K^T, [layer head model model] of rank d_head.
        OV: W_V W_O, [layer head model model] of rank d_head.
        W_E: embedding.
        W_U: unembedding, to tokens or to the outputs of a regression.
        W_pos: learned positions, None where a model has none.

    Source: Elhage et al. (2021), A Mathematical Framework for Transformer Circuits,
    transformer-circuits.pub/2021/framework.
    """

    QK: Factored
    OV: Factored
    W_E: Float[Tensor, "token model"]
    W_U: Float[Tensor, "model output"]
    W_pos: Float[Tensor, "pos model"] | None


def circuits_of(model: Any, factored: Callable[[Tensor, Tensor], Factored]) -> Circuits:
    """Return a model's weights as circuits, the products made by `factored`."""
    q, k, v, o = (_every_head(weight, model.cfg.n_heads) for weight in (model.W_Q, model.W_K, model.W_V, model.W_O))
    positions = None
    if model.cfg.positional_embedding_type == "standard":
        table = model.W_pos if hasattr(model, "W_pos") else model.pos_embed.weight
        positions = table.detach()[-model.cfg.n_ctx :]  # some tables have rows before position 0
    return Circuits(factored(q, k.mT), factored(v, o), model.W_E.detach(), model.W_U.detach(), positions)


def _every_head(weight: Float[Tensor, "layer kv_head a b"], n_heads: int) -> Float[Tensor, "layer head a b"]:
    """Give every query head its weights; under grouped queries several share them."""
    return weight.detach().repeat_interleave(n_heads // weight.shape[1], 1)
