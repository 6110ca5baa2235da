"""A model from an architecture: a HookedTransformer, a native bridge, or a bridge around a Hugging Face model."""

import dataclasses
import warnings
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import torch

from stagewise.architecture import Architecture
from stagewise.config import line_of
from stagewise.init import AbstractInit
from stagewise.models import _huggingface as huggingface
from stagewise.models import _native as native
from stagewise.models._bridge_loading import holding as bridge_holding
from stagewise.models._bridge_loading import is_bridge, wrapped
from stagewise.models._config_fields import OF_NATIVE_WITHOUT_EFFECT, asked_beside
from stagewise.models._model import Bridge, Model, State, bare
from stagewise.models._native import accept_vectors, native_accepts_vectors
from stagewise.models._numbers import check_device
from stagewise.models._weights import load, parameters, put, shapes

_NORMS = (None, "LN", "LNPre", "RMS", "RMSPre")
_POSITIONS = ("standard", "rotary", "alibi", "shortformer")
_CODE = ("tokenizer_name", "trust_remote_code")
"""Fields by which a HookedTransformer loads a tokenizer, with code from its folder: tokens are made elsewhere."""


def build(architecture: Architecture, seed: int = 0, device: str | torch.device = "cpu") -> Model:
    """Build the model in float32 (or a float64 of its config) by its own initialisation and a generator of its own."""
    check_device(device)
    if architecture.huggingface is not None:
        return wrapped(huggingface.fresh(architecture, seed)).to(device, print_details=False)
    generator = torch.Generator().manual_seed(seed)
    config = {name: value for name, value in architecture.config.items() if name not in _CODE}
    if config.get("dtype") != torch.float64:
        config.pop("dtype", None)
    try:
        _check_fields(config)
        with torch.random.fork_rng(devices=[]):
            model = _hooked(config) if has_hooked_transformer() else _native(config)
    except MemoryError:
        raise
    except Exception as reason:  # of any kind, by the field that is wrong
        if "allocate memory" in str(reason):
            raise
        raise ValueError(f"TransformerLens refuses this config: {line_of(reason)}") from reason
    _initialise(model, architecture.init, generator)
    module: Any = model.to(device, print_details=False)
    built: Model = module.eval()
    return built


def _initialise(model: Model, init: AbstractInit, generator: torch.Generator) -> None:
    try:
        initial = init.initial(model.cfg, shapes(model), generator)
        _add_parameters(model, initial.tensors)
        put(model, initial.tensors)
    except (KeyError, RuntimeError) as reason:
        what = f"the model has no {reason}" if isinstance(reason, KeyError) else str(reason).partition("\n")[0]
        unfit = f"{type(init).__name__} does not fit this model: {what}"
        raise ValueError(f"{unfit}. Take another one, or another config") from reason
    for name, parameter in parameters(model).items():
        parameter.requires_grad_(name not in initial.frozen)
    for name, hook in initial.hooks.items():
        if native.is_native(model) and name.endswith("hook_attn_scores"):
            raise ValueError(
                f"{type(init).__name__} edits {name}, with which a model of transformer-lens 4 does not compute: take "
                'transformer-lens 3.9 (pip install "transformer-lens<4")'
            )
        model.hook_dict[name].add_perma_hook(hook)


def _add_parameters(model: Model, tensors: Mapping[str, torch.Tensor]) -> None:
    """Add the parameters of hook points, which are those that the model does not have without them."""
    added = tensors.keys() - shapes(model).keys()
    if added and native.is_native(model):
        raise RuntimeError(f"{min(added)} is a parameter of a hook point, for which take transformer-lens 3.9")
    for name in sorted(added):
        hook, _, own = name.rpartition(".")
        model.hook_dict[hook].register_parameter(own, torch.nn.Parameter(tensors[name].clone()))


def _check_fields(config: Mapping[str, Any]) -> None:
    if (norm := config.get("normalization_type", "LN")) not in _NORMS:
        raise ValueError(f"normalization_type is null or one of {', '.join(map(str, _NORMS[1:]))}, got {norm!r}")
    if config.get("attn_scale", 1) == 0:
        raise ValueError("attn_scale = 0, by which scores are divided: leave it out for the root of d_head")
    if (d_mlp := config.get("d_mlp")) is not None and d_mlp < 1 and not config.get("attn_only"):
        raise ValueError(f"d_mlp, the width of the MLPs, is at least 1, got {d_mlp}; attn_only leaves them out")
    if (config.get("rotary_dim") or 0) % 2 and config.get("positional_embedding_type") == "rotary":
        raise ValueError(f"rotary_dim is even: pairs of dimensions are turned; got {config['rotary_dim']}")
    if config.get("attn_only") and config.get("parallel_attn_mlp"):
        raise ValueError("attn_only leaves the MLP out that parallel_attn_mlp needs: set one of the two")
    if (kind := config.get("positional_embedding_type", "standard")) not in _POSITIONS:
        raise ValueError(
            f"positional_embedding_type is one of {', '.join(_POSITIONS)}, got {kind!r}. A model without positions has "
            "standard ones that stay zero: give the architecture init=WithoutPositions()"
        )


def has_hooked_transformer() -> bool:
    """Whether the TransformerLens that is installed has the HookedTransformer: versions before 4."""
    return int(metadata.version("transformer-lens").split(".")[0]) < 4


def _hooked(config: Mapping[str, Any]) -> Model:
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "HookedTransformer is deprecated", DeprecationWarning)
        known = {field.name for field in dataclasses.fields(HookedTransformerConfig)}
        for field, value in asked_beside(config, known | OF_NATIVE_WITHOUT_EFFECT).items():
            raise ValueError(f"a HookedTransformer has no {field}, which is {value!r}: leave it out")
        own = {name: value for name, value in config.items() if name in known}
        fields = {"act_fn": "relu", **own, "init_weights": False, "device": "cpu", "seed": None}
        model: Model = HookedTransformer(HookedTransformerConfig(**fields), move_to_device=False)
    accept_vectors(model)
    return model


def _native(config: Mapping[str, Any]) -> Bridge:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge.sources.native import boot

    fields = {**native.supported_fields(config), "init_weights": False, "device": "cpu"}
    model: Bridge = boot(TransformerBridgeConfig(**fields), device="cpu")
    native.complete(model, config)
    native_accepts_vectors(model)
    return model


def described(model: Any) -> Architecture:
    """Return the architecture of a model in memory: a HookedTransformer, a bridge, or a Hugging Face model."""
    model = bare(model)
    if native.is_native(model):
        return Architecture(native.described(model.cfg))
    if hasattr(model, "hook_dict") and not is_bridge(model):
        return Architecture(model.cfg)
    config: Any = getattr(getattr(model, "original_model", model), "config", None)
    if not getattr(type(config), "model_type", "") or not hasattr(config, "to_dict"):  # pyvene's config names no model
        raise ValueError(
            "a model in memory is a HookedTransformer, a TransformerBridge around a Hugging Face model, or a Hugging "
            f"Face model; got {type(model).__name__}. For weights by name, give `architecture` too"
        )
    return Architecture(config)


def hooked_module() -> type[Any]:
    """Return TransformerLens's base class of modules with hooks, for a model that is not made from a config."""
    from transformer_lens import HookedRootModule

    base: type[Any] = HookedRootModule
    return base


def hook_point() -> Any:
    """Return a new hook point for such a module."""
    from transformer_lens.hook_points import HookPoint

    return HookPoint()


def holding(architecture: Architecture, state: State, device: str | torch.device = "cpu") -> Model:
    """Build a model with a checkpoint's weights, by any of their names."""
    if architecture.huggingface is not None and (bridge := bridge_holding(architecture, state, device)) is not None:
        return bridge
    model = build(architecture, device=device)
    load(model, state)
    return model
