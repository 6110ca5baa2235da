"""PyTorch's default initialisation with sinusoids for positions, as in papers on in-context learning."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Generator, Tensor

from stagewise.init import AbstractInit, Config, InitialWeights, Shapes, uniform


@dataclasses.dataclass(frozen=True)
class LinearInit(AbstractInit):
    """PyTorch's default: weights and biases U(-1/sqrt(fan_in), 1/sqrt(fan_in)), norms one, positions sinusoids.

    The positions do not train: W_pos[t, 2i] = sin(t / 10000^(2i / d_model)), and the cosine in the next column.

    Args:
        embedding: W_E as every other weight, its fan-in the number of tokens or features, or N(0, 1). Beside
            sinusoids of size one, its scale decides how fast a model learns.

    Source: Zucchet et al. (2025), arXiv:2505.17863, appendix D, which names the positions; the rest is PyTorch's.
    """

    embedding: Literal["uniform", "normal"] = "uniform"

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Draw the weights parameter by parameter, in the order of their names."""
        tensors = {name: self._drawn(name, shape, cfg, generator) for name, shape in sorted(shapes.items())}
        return InitialWeights(tensors, frozenset({"pos_embed.W_pos"} & shapes.keys()))

    def _drawn(self, name: str, shape: Sequence[int], cfg: Config, generator: Generator) -> Tensor:
        last = name.rpartition(".")[2]
        if last == "W_pos":
            angle = torch.arange(shape[0])[:, None] / 10_000 ** (torch.arange(0, shape[1], 2) / shape[1])
            return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, : shape[1]]
        if last == "W_E" and self.embedding == "normal":
            return torch.randn(*shape, generator=generator)
        if last in ("w", "b"):
            return torch.full(tuple(shape), 1.0 if last == "w" else 0.0)
        inner = {"W_O": cfg.n_heads * cfg.d_head, "W_out": cfg.d_mlp or 0, "W_E": cfg.d_vocab}
        return uniform(shape, inner.get(last.replace("b_", "W_"), cfg.d_model) ** -0.5, generator)
