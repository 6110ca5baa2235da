"""How a model's weights start: owned here, so that a seed gives the same model on every TransformerLens version."""

import abc
import dataclasses
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn


class AbstractInit(abc.ABC):
    """An initialisation. A leaf is a frozen dataclass of its parameters."""

    @abc.abstractmethod
    def apply(self, model: Any, generator: Generator) -> None:
        """Write the initial weights into a HookedTransformer, and freeze those that do not train."""


@dataclasses.dataclass(frozen=True)
class GaussianInit(AbstractInit):
    """Weights N(0, std^2), biases zero, norms one: TransformerLens's own default, std = 0.8 / sqrt(d_model).

    Args:
        std: standard deviation of every weight; None takes the default.
        stds: other standard deviations, by a shell pattern of names, {"*.W_O": 0.0}; the first that matches counts.
    """

    std: float | None = None
    stds: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def apply(self, model: Any, generator: Generator) -> None:
        """Write the initial weights, parameter by parameter in the order of their names.

        Raises:
            ValueError: a pattern of `stds` selects no parameter.
        """
        named = dict(sorted(model.named_parameters()))
        std = by_pattern(list(named), 0.8 / model.cfg.d_model**0.5 if self.std is None else self.std, self.stds)
        with torch.no_grad():
            for name, parameter in named.items():
                if name.rpartition(".")[2].lstrip("_").startswith("W_"):  # _W_K, _W_V: grouped-query attention
                    parameter.copy_(std[name] * torch.randn(parameter.shape, generator=generator))
                else:
                    parameter.fill_(1.0 if name.endswith(".w") else 0.0)


@dataclasses.dataclass(frozen=True)
class OneHotInit(AbstractInit):
    """The minimal architecture, wired inside an attention-only HookedTransformer without norms.

        score_ij = (W_Q^h x_i) . x_j / sqrt(D),   x_i <- sum_h sum_j a^h_ij W_V^h x_j,   logits_i = (x_i)_{1..d}

    x starts as one-hot token (d) beside one-hot position (L), D = d + L. The residual stream holds a block for the
    input of every layer, the last one's d outputs behind them. W_E and W_pos write the first block, the heads of a
    layer read their own block and write the next one, W_U reads only the last, so nothing skips the heads. W_Q and
    W_V train; everything else, and the padding inside W_Q and W_V (whose gradient is exactly zero), stays as it is.

    Args:
        query_scale: W_Q ~ U(-s, s), or "xavier". Under about 1e-6 the heads of a float32 model can stay
            bit-identical for hundreds of steps: their difference is lost in the first Adam step. At 0, with values of
            0, they are one by symmetry: their gradients are averaged, or else rounding would part them late.
        value_scale: W_V = 0, or "xavier". Two layers of zeros have no gradient at all.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the minimal architecture of Figures 1, 4 and 11. What layers pass on
    to each other in Figure 11 is not on record: here it is all D coordinates.
    """

    query_scale: float | Literal["xavier"] = 1e-3
    value_scale: Literal[0, "xavier"] = 0

    def apply(self, model: Any, generator: Generator) -> None:
        """Write the wiring and the initial W_Q and W_V.

        Raises:
            ValueError: the config is not the one that `architecture.minimal` makes, or nothing could train.
        """
        layers, d, width = model.cfg.n_layers, model.cfg.d_vocab, model.cfg.d_vocab + model.cfg.n_ctx
        if (model.cfg.d_head, model.cfg.d_model) != (width, layers * width + d):
            raise ValueError(
                f"OneHotInit needs d_head = d_vocab + n_ctx = {width} and, with {layers} layer(s), "
                f"d_model = {layers * width + d}; got d_head = {model.cfg.d_head}, d_model = {model.cfg.d_model}"
            )
        if layers > 1 and self.value_scale == 0:
            raise ValueError('two layers that write nothing have no gradient: give value_scale "xavier", got 0')
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_().requires_grad_(False)
            nn.init.eye_(model.embed.W_E[:, :d])
            nn.init.eye_(model.pos_embed.W_pos[:, d:width])
            nn.init.eye_(model.unembed.W_U[layers * width :])
            for layer, block in enumerate(model.blocks):
                self._wire(block.attn, layer * width, width, d if layer == layers - 1 else width, generator)

    def _wire(self, attention: Any, start: int, width: int, written: int, generator: Generator) -> None:
        """Let heads read the block from `start` on, and write the first `written` numbers of the next one."""
        uniform = (6 / (2 * width)) ** 0.5
        read, write = slice(start, start + width), slice(start + width, start + width + written)
        attention.W_K[:, read] = torch.eye(width)
        attention.W_O[:, :written, write] = torch.eye(written)
        _fill_uniform(attention.W_Q[:, read], uniform if self.query_scale == "xavier" else self.query_scale, generator)
        if self.value_scale == "xavier":
            _fill_uniform(attention.W_V[:, read, :written], uniform, generator)
        for trained in (attention.W_Q, attention.W_V):
            trained.requires_grad_(True)
            if self.query_scale == 0 == self.value_scale:
                trained.register_hook(_average_over_heads)


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

    def __post_init__(self) -> None:
        if self.embedding not in ("uniform", "normal"):
            raise ValueError(f'embedding must be "uniform" or "normal", got {self.embedding!r}')

    def apply(self, model: Any, generator: Generator) -> None:
        """Write the initial weights, parameter by parameter in the order of their names."""
        cfg = model.cfg
        inner = {"W_O": cfg.n_heads * cfg.d_head, "W_out": cfg.d_mlp, "W_E": cfg.d_vocab}
        with torch.no_grad():
            for name, parameter in sorted(model.named_parameters()):
                last = name.rpartition(".")[2]
                if last == "W_pos":
                    parameter.copy_(_sinusoids(*parameter.shape)).requires_grad_(False)
                elif last == "W_E" and self.embedding == "normal":
                    parameter.copy_(torch.randn(parameter.shape, generator=generator))
                elif last in ("w", "b"):
                    parameter.fill_(1.0 if last == "w" else 0.0)
                else:
                    fan_in = inner.get(last.replace("b_", "W_"), cfg.d_model)
                    _fill_uniform(parameter, fan_in**-0.5, generator)


@dataclasses.dataclass(frozen=True)
class WithoutPositions(AbstractInit):
    """Another initialisation, without positions: W_pos is zero and stays so, since TransformerLens has no such model.

    Args:
        init: of all other weights.
    """

    init: AbstractInit = dataclasses.field(default_factory=GaussianInit)

    def apply(self, model: Any, generator: Generator) -> None:
        """Write the initial weights, then take the positions away.

        Raises:
            ValueError: the model has no learned positions.
        """
        if model.cfg.positional_embedding_type != "standard":
            raise ValueError(
                'WithoutPositions needs positional_embedding_type = "standard", whose W_pos it holds at zero; got '
                f'"{model.cfg.positional_embedding_type}"'
            )
        self.init.apply(model, generator)
        with torch.no_grad():
            model.pos_embed.W_pos.zero_().requires_grad_(False)


def _sinusoids(length: int, width: int) -> Tensor:
    angle = torch.arange(length)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


def _average_over_heads(gradient: Tensor) -> Tensor:
    return gradient.mean(0).expand_as(gradient).contiguous()


def _fill_uniform(weights: Tensor, scale: float, generator: Generator) -> None:
    weights.copy_(scale * (2 * torch.rand(weights.shape, generator=generator) - 1))


def matching(names: list[str], pattern: str) -> list[str]:
    """Return the parameter names that a shell pattern selects.

    Raises:
        ValueError: it selects none.

    >>> matching(["blocks.0.attn.W_Q", "blocks.0.attn.W_V"], "*.W_Q")
    ['blocks.0.attn.W_Q']
    """
    chosen = [name for name in names if fnmatch(name, pattern)]
    if not chosen:
        raise ValueError(f"no parameter is called {pattern!r}; there are {', '.join(names)}")
    return chosen


def by_pattern(names: list[str], default: float, others: Mapping[str, float]) -> dict[str, float]:
    """Return a number for each parameter name: of the first shell pattern that selects it, or the default.

    Raises:
        ValueError: a pattern selects none.

    >>> by_pattern(["attn.W_Q", "attn.W_V"], 0.1, {"*.W_Q": 0.3, "attn.*": 0.2})
    {'attn.W_Q': 0.3, 'attn.W_V': 0.2}
    """
    found = dict.fromkeys(names, default)
    for pattern, other in reversed(list(others.items())):
        found |= dict.fromkeys(matching(names, pattern), other)
    return found
