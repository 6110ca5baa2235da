"""How a model's weights start: owned here, so that a seed gives the same model on every TransformerLens version."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Generator, Tensor


@runtime_checkable
class Config(Protocol):
    """The config of a model, complete with TransformerLens's defaults."""

    n_layers: int
    n_heads: int
    n_ctx: int
    d_model: int
    d_head: int
    d_vocab: int
    d_vocab_out: int
    d_mlp: int | None
    act_fn: str
    attn_only: bool
    attn_scale: float
    eps: float
    gated_mlp: bool
    n_key_value_heads: int | None
    normalization_type: str | None
    output_logits_soft_cap: float
    positional_embedding_type: str
    rotary_adjacent_pairs: bool
    rotary_dim: int | None
    use_attn_scale: bool

    def to_dict(self) -> dict[str, Any]:
        """Return all fields."""


Shapes = Mapping[str, Sequence[int]]
"""The shape of every parameter, by TransformerLens's names and in a HookedTransformer's layout."""


@dataclasses.dataclass(frozen=True, eq=False)
class InitialWeights:
    """An initialisation as data.

    Args:
        tensors: every parameter's values, in the requested shapes. A further name, as "blocks.0.hook_resid_mid.w", adds
            a parameter to a hook point: it trains and is saved like any other, and the hook reads it as `hook.w`.
        frozen: names of the parameters that do not train.
        hooks: hook name -> a function of its activation and hook point, permanent in the model.
    """

    tensors: Mapping[str, Tensor]
    frozen: frozenset[str] = frozenset()
    hooks: Mapping[str, Callable[[Tensor, Any], Tensor]] = dataclasses.field(default_factory=dict)


class AbstractInit(abc.ABC):
    """An initialisation. A leaf is a frozen dataclass of its parameters, pure."""

    @property
    def averaged(self) -> tuple[str, ...]:
        """Shell patterns of the parameters [head ...] whose gradients training averages over heads; none by default."""
        return ()

    @property
    def draws(self) -> bool:
        """Whether its hooks draw numbers in training, as dropout does: `train` seeds them at each step."""
        return False

    @property
    def trained_by(self) -> str | None:
        """The command that alone trains such a model, as one on a text in its order; None where `train` does."""
        return None

    @abc.abstractmethod
    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Return the initial weights of a model, a value for each name in `shapes`.

        Raises:
            ValueError: it does not fit the config.
        """


@dataclasses.dataclass(frozen=True)
class GaussianInit(AbstractInit):
    """Weights N(0, std^2), biases zero, norms one: TransformerLens's own default, std = 0.8 / sqrt(d_model).

    Args:
        std: standard deviation of every weight; None takes the default.
        stds: other standard deviations, by a shell pattern of names, {"*.W_O": 0.0}; the first that matches counts.
    """

    std: float | None = None
    stds: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Draw the weights parameter by parameter, in the order of their names."""
        std = by_pattern(sorted(shapes), 0.8 / cfg.d_model**0.5 if self.std is None else self.std, self.stds)
        tensors = {}
        for name, shape in sorted(shapes.items()):
            if name.rpartition(".")[2].lstrip("_").startswith("W_"):  # _W_K, _W_V: grouped-query attention
                tensors[name] = std[name] * torch.randn(*shape, generator=generator)
            else:
                tensors[name] = torch.full(tuple(shape), 1.0 if name.endswith(".w") else 0.0)
        return InitialWeights(tensors)


@dataclasses.dataclass(frozen=True)
class WithoutPositions(AbstractInit):
    """Another initialisation, without positions: W_pos is zero and stays so, since TransformerLens has no such model.

    Args:
        init: of all other weights.
    """

    init: AbstractInit = dataclasses.field(default_factory=GaussianInit)

    @property
    def averaged(self) -> tuple[str, ...]:
        """Those of the other initialisation."""
        return self.init.averaged

    @property
    def draws(self) -> bool:
        """That of the other initialisation."""
        return self.init.draws

    @property
    def trained_by(self) -> str | None:
        """That of the other initialisation."""
        return self.init.trained_by

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Return the other initialisation's weights with the positions taken away."""
        if cfg.positional_embedding_type != "standard":
            raise ValueError(
                'WithoutPositions needs positional_embedding_type = "standard", whose W_pos it holds at zero; got '
                f'"{cfg.positional_embedding_type}"'
            )
        initial, name = self.init.initial(cfg, shapes, generator), "pos_embed.W_pos"
        tensors = {**initial.tensors, name: torch.zeros(*shapes[name])}
        return dataclasses.replace(initial, tensors=tensors, frozen=initial.frozen | {name})


def check_trained_here(init: AbstractInit) -> None:
    """Refuse to train a model by `train` that another command trains."""
    if init.trained_by is not None:
        raise ValueError(
            f"a model of {type(init).__name__} is trained by {init.trained_by} alone: `train` would make another "
            "run. Folders of it can be measured and reported on"
        )


def zeros(shapes: Shapes) -> dict[str, Tensor]:
    """Return a zero of each shape, to be filled in."""
    return {name: torch.zeros(*shape) for name, shape in shapes.items()}


def uniform(shape: Sequence[int], scale: float, generator: Generator) -> Tensor:
    """Draw from U(-scale, scale)."""
    return scale * (2 * torch.rand(*shape, generator=generator) - 1)


def matching(names: list[str], pattern: str) -> list[str]:
    """Return the parameter names that a shell pattern selects.

    >>> matching(["blocks.0.attn.W_Q", "blocks.0.attn.W_V"], "*.W_Q")
    ['blocks.0.attn.W_Q']
    """
    chosen = [name for name in names if fnmatch(name, pattern)]
    if not chosen:
        raise ValueError(f"no parameter is called {pattern!r}; there are {', '.join(names)}")
    return chosen


def by_pattern(names: list[str], default: float, others: Mapping[str, float]) -> dict[str, float]:
    """Return a number for each parameter name: of the first shell pattern that selects it, or the default.

    >>> by_pattern(["attn.W_Q", "attn.W_V"], 0.1, {"*.W_Q": 0.3, "attn.*": 0.2})
    {'attn.W_Q': 0.3, 'attn.W_V': 0.2}
    """
    values = dict.fromkeys(names, default)
    for pattern, other in reversed(list(others.items())):
        values |= dict.fromkeys(matching(names, pattern), other)
    return values
