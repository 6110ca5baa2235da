"""Hugging Face causal language models as plain torch modules: from a config, and from saved weights."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from stagewise.architecture import MOST_LAYERS, Architecture
from stagewise.fields import MEMORY

_CONSTANTS = (".attention.bias", ".attention.masked_bias", ".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")
"""Buffers that older checkpoints hold beside the weights; the library computes them itself."""

MISSING, UNKNOWN = ": missing", ": not a parameter of the model"
_CODE = "auto_map|trust_remote_code|_?(attn|experts)_implementation(_internal)?|quantization_config"
"""Names of a config's fields by which transformers would load code; quantised weights are no numbers to measure."""

_KINDS = (MISSING, UNKNOWN)
"""What weights that do not fit are, beside those of another shape or type."""

_MOST_MODULES = 200_000
"""Modules that a model has at most: no published one has half as many."""

_LONGEST = 400
"""Letters of an error of another library that are shown."""

_SHOWN = 3
"""Names that are written out of each kind: a model of hundreds of weights has all of them wrong at once."""


def described(config: Mapping[str, Any]) -> Architecture:
    """Return the architecture of a Hugging Face config, its sizes by TransformerLens's names.

    Raises:
        ValueError: it is no config of a causal language model; the message names its type.

    >>> from transformers import GPT2Config
    >>> small = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=16, vocab_size=64)
    >>> described(small.to_dict()).n_heads
    4
    """
    hf = _config(config)
    kind = config["model_type"]
    with in_a_line(f"a {kind} of this config cannot be measured"):
        if not any(_by_layer(hf, "num_attention_heads")):
            raise ValueError("it has no attention heads")
        heads = {*_by_layer(hf, "num_attention_heads"), *(getattr(hf, "num_attention_heads_per_layer", None) or ())}
        if len(heads) > 1:
            raise ValueError(f"its layers have different numbers of heads, {', '.join(map(str, sorted(heads)))}")
        sizes = {
            "n_layers": hf.num_hidden_layers,
            "d_model": hf.hidden_size,
            "n_heads": heads.pop(),
            "d_head": 1,
            "n_ctx": getattr(hf, "max_position_embeddings", 2048),
            "d_vocab": hf.vocab_size,
        }
        sizes["d_head"] = max(width or sizes["d_model"] // sizes["n_heads"] for width in _by_layer(hf, "head_dim"))
        fields = {key: value for key, value in config.items() if key not in ("_name_or_path", "transformers_version")}
        return Architecture(sizes, huggingface=fields)


def _by_layer(config: Any, name: str) -> list[Any]:
    """Return a field at each layer; Gemma 4's layers of full attention have wider heads."""
    return [getattr(layer, name, None) for layer in getattr(config, "per_layer_config", None) or [config]]


@contextlib.contextmanager
def in_a_line(what: str) -> Iterator[None]:
    """Turn whatever is raised over somebody else's config or model into one line that begins with what failed."""
    try:
        yield
    except Exception as reason:  # libraries fail in many ways on a config that they did not expect
        raise ValueError(f"{what}: {line_of(reason)}") from reason


def line_of(reason: BaseException) -> str:
    """Return an error in one line, without what a library explains in the others.

    >>> line_of(ValueError("Validation error for field 'n_head':\\n    TypeError: expected int"))
    "Validation error for field 'n_head': TypeError: expected int"
    >>> line_of(KeyError("gelu2"))
    "KeyError: 'gelu2'"
    """
    text = f"KeyError: {reason}" if isinstance(reason, KeyError) else str(reason)
    first, *others = [line.strip() for line in text.splitlines() if line.strip()] or [type(reason).__name__]
    return " ".join([first, *others[: first.endswith(":")]])[:_LONGEST]


def _config(config: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if "model_type" not in config:
        raise ValueError(f"a Hugging Face config names its `model_type`, this one has {', '.join(sorted(config))}")
    kind = str(config["model_type"])
    if kind not in CONFIG_MAPPING:
        raise ValueError(f"transformers does not know the model type {kind!r:.80}")
    _check_counts(config, kind)
    with in_a_line(f"transformers refuses the config of a {kind}"):
        fields = {name: value for name, value in _inert(config).items() if name != "model_type"}
        hf = AutoConfig.for_model(kind, **fields).get_text_config()
    names = config.get("architectures") or []
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"`architectures` of a {kind} is a list of classes' names, got {names!r:.80}")
    if not all(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names) or not _is_causal(hf):
        raise ValueError(
            f"stagewise reads causal language models; this is {', '.join(names) or kind}. An encoder, an "
            "encoder-decoder or a model with another head has no next-token predictions to measure"
        )
    return hf


def _inert(config: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a config without the fields that name code, of a repository or a compiled kernel, in its parts too."""
    return {
        name: _inert(value) if isinstance(value, Mapping) else value
        for name, value in config.items()
        if not re.fullmatch(_CODE, str(name))
    }


def _check_counts(fields: Mapping[Any, Any], kind: str) -> None:
    """Refuse more layers than any model has before transformers lists one by one what each of them is."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            _check_counts(value, kind)
        elif isinstance(value, int | float) and re.search("layers?$", str(name)) and value > MOST_LAYERS:
            raise ValueError(
                f"the config of a {kind} has {name} = {value:.6g}: a model has at most {MOST_LAYERS} layers"
            )


def _is_causal(config: Any) -> bool:
    """Whether attention is causal; in a masked language model's type it is not, unless the config sets is_decoder."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    sees_all = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    return not sees_all and not config.is_encoder_decoder


def fresh(architecture: Architecture, seed: int) -> nn.Module:
    """Return a model of the library's own initialisation, without touching the global generator.

    Raises:
        ValueError: the model type has no causal language model, or transformers makes none of this config.
    """
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    assert architecture.huggingface is not None
    config = _config(architecture.huggingface)
    kind = config.model_type
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ValueError(f"transformers has no causal language model of the type {kind}")
    _check_size(config)
    with in_a_line(f"transformers makes no model of this config of a {kind}"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _eager(AutoModelForCausalLM.from_config(config, dtype=torch.float32))


def _check_size(config: Any) -> None:
    """Refuse a model that this machine cannot hold, before any of its weights is made."""
    from transformers import AutoModelForCausalLM

    modules, entries = 0, 0

    def count_module(parent: Any, name: str, module: Any) -> None:
        nonlocal modules
        modules += 1
        if modules > _MOST_MODULES:
            raise _TooLargeError(f"a {config.model_type} of this config has more than {_MOST_MODULES} modules")

    def count_weight(module: Any, name: str, weight: Any) -> None:
        nonlocal entries
        entries += 0 if weight is None else weight.numel()
        if 4 * entries > MEMORY:
            size = f"more than {4 * entries / 2**30:.3g} GiB of weights, this machine has {MEMORY / 2**30:.3g} GiB"
            raise _TooLargeError(f"a {config.model_type} of this config has {size}")

    hooks = (
        register_module_module_registration_hook(count_module),
        register_module_parameter_registration_hook(count_weight),
    )
    try:
        with torch.device("meta"):
            AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except _TooLargeError:
        raise
    except Exception:  # what is wrong, if anything is, shows where the model itself is made
        pass
    finally:
        for hook in hooks:
            hook.remove()


class _TooLargeError(ValueError):
    """A config of a model that no machine, or not this one, can hold."""


def loaded(kind: type[Any], config: Any, state: Mapping[str, Tensor]) -> nn.Module:
    """Return a model of a class and a config with saved weights, in float32."""
    state = {name: weight for name, weight in state.items() if not name.endswith(_CONSTANTS)}
    with _quietly():
        try:
            model, report = kind.from_pretrained(
                None,
                config=config,
                state_dict=state,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        except RuntimeError as reason:
            raise ValueError(f"the weights do not fit the model: {reason}") from reason
    wrong = [f"{name}{MISSING}" for name in report["missing_keys"]]
    wrong += [f"{name}{UNKNOWN}" for name in report["unexpected_keys"]]
    wrong += [f"{name}: {tuple(a)} saved, {tuple(b)} in the model" for name, a, b in report["mismatched_keys"]]
    wrong += not_real(state, [name for name, _ in model.named_parameters()])
    if wrong:
        raise unfit(wrong)
    return _eager(model)


def unfit(wrong: Iterable[str]) -> ValueError:
    """Return the error for weights that do not fit, with the first of each kind of fault and the number of others.

    >>> wrong = [f"W_{number}: missing" for number in range(5)] + ["net.W: not a parameter of the model"]
    >>> str(unfit(wrong)).split(": ", 1)[1]
    'W_0: missing; W_1: missing; W_2: missing; net.W: not a parameter of the model; and 2 more'
    """
    kinds: dict[str, list[str]] = {}
    for one in sorted(wrong):
        kinds.setdefault(next((kind for kind in _KINDS if one.endswith(kind)), ""), []).append(one)
    shown = [one for of_kind in kinds.values() for one in of_kind[:_SHOWN]]
    more = sum(map(len, kinds.values())) - len(shown)
    listed = "; ".join([*shown, *([f"and {more} more"] if more else [])])
    return ValueError(f"the weights do not fit the model: {listed}")


def not_real(state: Mapping[str, Tensor], names: Iterable[str]) -> list[str]:
    """Say which of the named weights are whole or complex numbers: copied as they are they would be other weights."""
    given = {name: state[name] for name in names if name in state}
    return [f"{name}: {each.dtype}, no real numbers" for name, each in given.items() if not each.is_floating_point()]


def _eager(model: Any) -> nn.Module:
    # Fused kernels compute no attention pattern: some bridges would silently have none to read.
    model.set_attn_implementation("eager")
    module: nn.Module = model.eval()
    return module


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Print no progress bar and no loading report for each checkpoint; faults are raised as errors."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
