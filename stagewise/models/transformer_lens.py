"""The only importer of TransformerLens: build a model, load weights, run it clean or edited."""

import gc
import warnings
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.circuits import Circuits, circuits_of
from stagewise.intervention import AblateHead, Edit, Intervention, RestrictContext, first_layer
from stagewise.models import bridge_edits as bridge
from stagewise.models import hooked_edits as hooked
from stagewise.models import huggingface, native
from stagewise.models.vector_inputs import accept_vectors, native_accepts_vectors

Model = Any
"""A HookedTransformer (transformer-lens 3.9) or a TransformerBridge; naming the types would import them."""

CONSTANTS = (".mask", ".IGNORE", ".rotary_sin", ".rotary_cos")
"""Buffers that a HookedTransformer's state dict holds beside its weights, and other versions do not."""

HOOKS_OF_TOY = ("hook_attn_scores", "hook_pattern", "hook_z", "hook_out")

POSITIONS = ("standard", "rotary", "alibi", "shortformer")


def build(architecture: Architecture, seed: int = 0, device: str | torch.device = "cpu") -> Model:
    """Build the model with the architecture's own initialisation, leaving the global generator alone.

    A HookedTransformer; on transformer-lens 4, which has none, a native TransformerBridge with the same parameters;
    for a Hugging Face architecture a TransformerBridge, with eager attention.

    Raises:
        ValueError: TransformerLens refuses the config; the message holds its reason.
    """
    if architecture.huggingface is not None:
        return _checked(huggingface.fresh(architecture, seed)).to(device, print_details=False)
    generator = torch.Generator().manual_seed(seed)
    try:
        _check_positions(architecture.config)
        with torch.random.fork_rng(devices=[]):
            model = _hooked(architecture.config) if has_hooked_transformer() else _native(architecture.config)
    except (TypeError, ValueError, AssertionError) as reason:
        raise ValueError(f"TransformerLens refuses the config {dict(architecture.config)}: {reason}") from reason
    if native.is_native(model):
        native.initialise(model, architecture.init, generator)
    else:
        architecture.init.apply(model, generator)
    return model.to(device, print_details=False)


def _check_positions(config: Mapping[str, Any]) -> None:
    if (kind := config.get("positional_embedding_type", "standard")) not in POSITIONS:
        raise ValueError(
            f"positional_embedding_type is one of {', '.join(POSITIONS)}, got {kind!r}. A model without positions has "
            "standard ones that stay zero: give the architecture init=WithoutPositions()"
        )


def has_hooked_transformer() -> bool:
    """Whether the TransformerLens that is installed has the HookedTransformer: versions before 4."""
    return int(metadata.version("transformer-lens").split(".")[0]) < 4


def _hooked(config: Mapping[str, Any]) -> Model:
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "HookedTransformer is deprecated", DeprecationWarning)
        fields = {"act_fn": "relu", **config, "init_weights": False, "device": "cpu", "seed": None}
        model = HookedTransformer(HookedTransformerConfig(**fields), move_to_device=False)
    accept_vectors(model)
    return model


def _native(config: Mapping[str, Any]) -> Model:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge.sources.native import boot

    fields = {**native.honoured(config), "init_weights": False, "device": "cpu"}
    model = boot(TransformerBridgeConfig(**fields), device="cpu")
    native.complete(model)
    native_accepts_vectors(model)
    return model


def build_toy(n_positions: int, d: int) -> Model:
    """Build y = W sum_t softmax(a)_t x_t as a TransformerLens HookedRootModule, with a = 0 and W = 0.

    It maps vectors [batch pos feature] to outputs [batch output]. Parameters: `logits` a [pos] and `W` [output
    feature]. Hooks: `hook_attn_scores` and `hook_pattern` [batch pos], `hook_z` [batch feature], `hook_out`.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863, section 2.1.
    """
    from transformer_lens import HookedRootModule
    from transformer_lens.hook_points import HookPoint

    class ToyAttention(HookedRootModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.logits = torch.nn.Parameter(torch.zeros(n_positions))
            self.W = torch.nn.Parameter(torch.zeros(d, d))
            for name in HOOKS_OF_TOY:
                setattr(self, name, HookPoint())
            self.setup()

        def forward(self, x: Float[Tensor, "batch pos feature"]) -> Float[Tensor, "batch output"]:
            scores = self.hook_attn_scores(self.logits.expand(len(x), -1))
            pattern = self.hook_pattern(scores.softmax(-1))
            z = self.hook_z(torch.einsum("bt,btd->bd", pattern, x))
            outputs: Tensor = self.hook_out(z @ self.W.T)
            return outputs

    return ToyAttention()


def _wrapped(module: Any) -> Model:
    """Put a TransformerBridge around a Hugging Face model; the model is changed in place."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    kind = type(module).__name__
    try:
        with torch.random.fork_rng(devices=[]):
            return build_bridge_from_module(module, kind, hf_config=module.config, model_name=kind)
    except (KeyError, ValueError, NotImplementedError) as reason:
        raise ValueError(f"TransformerLens has no bridge for {kind}: {reason}") from reason


def _checked(module: Any) -> Model:
    """Wrap a Hugging Face model, and see that the bridge computes what the model does."""
    tokens = bridge.trial_tokens(module.config.vocab_size)
    with torch.inference_mode():
        expected = module(tokens).logits
    wrapped = _wrapped(module)
    bridge.check(wrapped, tokens, expected)
    return wrapped


def is_bridge(model: Model) -> bool:
    """Whether it is a TransformerBridge."""
    from transformer_lens.model_bridge import TransformerBridge

    return isinstance(model, TransformerBridge)


def described(model: Model) -> Architecture:
    """Return what a model in memory is: a HookedTransformer, a bridge, or a Hugging Face model.

    Raises:
        ValueError: it is none of these.
    """
    if native.is_native(model):
        return Architecture(native.described(model.cfg))
    if hasattr(model, "hook_dict") and not is_bridge(model):
        return Architecture(model.cfg.to_dict())
    config: Any = getattr(getattr(model, "original_model", model), "config", None)
    if not hasattr(config, "to_dict"):
        raise ValueError(
            "a model in memory is a HookedTransformer, a TransformerBridge around a Hugging Face model, or a Hugging "
            f"Face model; got {type(model).__name__}. For weights by name, give `architecture` too"
        )
    return huggingface.described(config.to_dict())


def parameters(model: Model) -> dict[str, torch.nn.Parameter]:
    """Return the model's own parameters by TransformerLens's names; a native bridge's are laid out in its own way."""
    return native.parameters(model) if native.is_native(model) else dict(model.named_parameters())


def weights(model: Model) -> dict[str, Tensor]:
    """Copy the model's parameters, by TransformerLens's names and without its constant masks."""
    if native.is_native(model):
        return native.weights(model)
    if is_bridge(model):
        return {name: weight.detach().clone() for name, weight in bridge.whole_state(model).items()}
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def load(model: Model, state: Mapping[str, Tensor]) -> None:
    """Copy saved parameters into the model, in place.

    They go by the names of `weights`, or, whichever version runs, by those that transformer-lens 4 saves its native
    models under. The parameters of a bridge around a Hugging Face model go by Hugging Face's own names, too.

    Raises:
        ValueError: a name is missing or unknown, or a shape differs; nothing is copied then.
    """
    if is_bridge(model) and not native.is_native(model):
        _load_bridge(model, state)
        return
    state = {name: weight for name, weight in state.items() if not name.endswith(CONSTANTS)}
    if native.is_native_state(state):
        state = native.hooked_state(state, model.cfg)
    there, is_native = parameters(model), native.is_native(model)
    shapes = native.shapes(model) if is_native else {name: parameter.shape for name, parameter in there.items()}
    wrong = [f"{name}: missing" for name in there.keys() - state.keys()]
    wrong += [f"{name}: not a parameter of the model" for name in state.keys() - there.keys()]
    wrong += [
        f"{name}: {tuple(state[name].shape)} saved, {tuple(shape)} in the model"
        for name, shape in shapes.items()
        if name in state and state[name].shape != shape
    ]
    if wrong:
        raise ValueError("the weights do not fit the model: " + "; ".join(sorted(wrong)))
    with torch.no_grad():
        for name, parameter in there.items():
            parameter.copy_(native.own(name, state[name], model.cfg) if is_native else state[name])


def _load_bridge(model: Model, state: Mapping[str, Tensor]) -> None:
    hf = model.original_model
    for module in (model, hf):
        if state.keys() == bridge.whole_state(model).keys() == module.state_dict().keys():
            module.load_state_dict(state)
            return
    # A bridge holds split copies of fused weights (GPT-NeoX's q, k, v), which only wrapping makes right.
    plain = huggingface.loaded(type(hf), type(hf.config).from_dict(hf.config.to_dict()), state)
    hf.load_state_dict(_checked(plain).original_model.state_dict())
    del plain
    gc.collect()  # a wrapped model refers to itself: without this, many wait in memory for the collector


def clean_pass(
    model: Model,
    tokens: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"],
    hooks: Iterable[str],
    *,
    regression: bool = False,
) -> tuple[Float[Tensor, "batch pos token"], dict[str, Tensor]]:
    """Run the model once; return its log-probabilities (nats) and the activations of the named hooks.

    Of a regression, the outputs themselves stand in the log-probabilities' place.

    Raises:
        ValueError: the model has no such hook.
    """
    wanted = set(hooks)
    if unknown := sorted(wanted - model.hook_dict.keys()):
        raise ValueError(f"the model has no hook {', '.join(unknown)}; it has {', '.join(model.hook_dict)}")
    with torch.inference_mode():
        logits, cache = model.run_with_cache(tokens, names_filter=wanted.__contains__)
    return logits if regression else logits.log_softmax(-1), {name: cache[name] for name in wanted}


def hooks_for(model: Model, edit: Edit) -> set[str]:
    """Name the activations of the clean pass that `edited_pass` starts from.

    Raises:
        ValueError: a layer or a head that the model does not have.
    """
    for part in edit:
        _check(model, part)
    # Shortformer positions are no part of the residual stream: every layer is handed them anew.
    positions = {"hook_pos_embed"} if hooked.is_shortformer(model) and not is_bridge(model) else set()
    return (
        {f"blocks.{first_layer(edit)}.hook_resid_pre"}
        | positions
        | {f"blocks.{part.layer}.attn.hook_z" for part in edit if isinstance(part, AblateHead) and part.kind == "mean"}
    )


def edited_pass(
    model: Model, edit: Edit, clean: Mapping[str, Tensor], *, regression: bool = False
) -> Float[Tensor, "batch pos token"]:
    """Run the model with the edit, from the first layer that it touches; return log-probabilities (nats).

    Of a regression, the outputs themselves.

    `clean` holds the activations that `hooks_for(model, edit)` names. The model is left as it was.

    Raises:
        ValueError: a layer or a head that the model does not have.
    """
    for part in edit:
        _check(model, part)
    with torch.inference_mode():
        outputs: Tensor = (bridge if is_bridge(model) else hooked).edited_logits(model, edit, clean)
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
