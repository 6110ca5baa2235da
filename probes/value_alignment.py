"""Each head's output: its value map against the task's features."""

import dataclasses
from collections.abc import Mapping

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.probe import AbstractProbe, Quantity, Reading, View


@dataclasses.dataclass(frozen=True, eq=False)
class ValueAlignment(AbstractProbe):
    """Cosine and projection of each head's value map V_h = (W_E W_V W_O W_U)^T on the features A*_k.

        cosine = <V_h, A*_k> / (||V_h|| ||A*_k||),   projection = <V_h, A*_k> / ||A*_k||^2   (Frobenius)

    The value map is from token to logits, the head's direct effect; it is readable only where no normalisation
    lies between. A head whose map is zero has cosine 0. While one head learns a feature, others may have a
    negative projection on it that cancels cross terms.

    Args:
        features: name -> matrix [token_out, token_in], as `MarkovChain.feature_matrices` gives.

    Source: Yüksel et al. (2026), arXiv:2602.19143, value alignment, Figure B; the value map is the OV circuit of
    Elhage et al. (2021), A Mathematical Framework for Transformer Circuits.

    A head that writes twice what it reads, and one that writes nothing:

    >>> from stagewise import architectures, models
    >>> from stagewise.probe import example_view
    >>> small = architectures.minimal(d_vocab=3, n_ctx=2, n_heads=2)
    >>> weights = models.weights(models.build(small))
    >>> weights["blocks.0.attn.W_V"][0, :3, :3] = 2 * torch.eye(3)
    >>> view = dataclasses.replace(example_view(tokens=[0, 1]), architecture=small, weights=weights)
    >>> readings = ValueAlignment({"copy": torch.eye(3)}).read(view)
    >>> {reading.quantity: reading.values.flatten().tolist() for reading in readings}
    {'cosine': [1.0, 0.0], 'projection': [2.0, 0.0]}
    """

    quantities = {
        "cosine": Quantity("cosine with the feature", range=(-1, 1), role="alignment of values"),
        "projection": Quantity("projection on the feature"),
    }
    reads_predictions = False

    features: Mapping[str, Float[Tensor, "token_out token_in"]]

    def __post_init__(self) -> None:
        if not self.features:
            raise ValueError("ValueAlignment compares value maps with features: give at least one matrix, got none")

    def __repr__(self) -> str:
        return f"ValueAlignment({', '.join(self.features)})"

    def read(self, view: View) -> list[Reading]:
        """Return `cosine` (in [-1, 1]) and `projection` by layer, head and feature."""
        maps = _value_maps(view.weights, view.architecture)
        features = torch.stack(list(self.features.values())).to(maps)
        if features.shape[1:] != maps.shape[2:]:
            raise ValueError(
                f"features are {tuple(features.shape[1:])}, the model's value maps {tuple(maps.shape[2:])} "
                "[token_out, token_in]"
            )
        inner = einsum(maps, features, "layer head output input, feature output input -> layer head feature")
        size = features.flatten(1).norm(dim=1)
        maps_size = maps.flatten(2).norm(dim=2, keepdim=True)
        cosine = torch.where(maps_size > 0, inner / (maps_size * size), 0.0)
        labels = {"feature": list(self.features)}
        return [
            Reading("layer head feature", cosine, "cosine", labels),
            Reading("layer head feature", inner / size**2, "projection", labels),
        ]


def _value_maps(
    weights: Mapping[str, Tensor], architecture: Architecture
) -> Float[Tensor, "layer head token_out token_in"]:
    norm = architecture.config.get("normalization_type", "LN")
    if norm is not None:
        raise ValueError(
            f"the value map is not readable through normalisation ({norm}): leave ValueAlignment out for this model"
        )
    maps = [
        einsum(
            weights["embed.W_E"],
            _per_head(weights, f"blocks.{layer}.attn", architecture.n_heads),
            weights[f"blocks.{layer}.attn.W_O"],
            weights["unembed.W_U"],
            "input model, head model d_head, head d_head after, after output -> head output input",
        )
        for layer in range(architecture.n_layers)
    ]
    return torch.stack(maps)


def _per_head(weights: Mapping[str, Tensor], attention: str, n_heads: int) -> Float[Tensor, "head model d_head"]:
    """Return the value weights of every head; under grouped-query attention several heads share one."""
    if f"{attention}.W_V" in weights:
        return weights[f"{attention}.W_V"]
    shared = weights[f"{attention}._W_V"]
    return shared.repeat_interleave(n_heads // shared.shape[0], 0)
