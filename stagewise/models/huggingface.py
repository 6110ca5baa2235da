"""Hugging Face causal language models as plain torch modules: from a config, and from saved weights."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from stagewise.architecture import Architecture

CONSTANTS = (".attention.bias", ".attention.masked_bias", ".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")
"""Buffers that older checkpoints hold beside the weights; the library computes them itself."""

MISSING, UNKNOWN = ": missing", ": not a parameter of the model"
CODE = "auto_map|trust_remote_code|_?(attn|experts)_implementation(_internal)?|quantization_config"
"""Names of a config's fields by which transformers would load code; quantised weights are no numbers to measure."""

KINDS = (MISSING, UNKNOWN)
"""What weights that do not fit are, beside those of another shape or type."""

SHOWN = 3
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
    if not hasattr(hf, "num_attention_heads"):
        raise ValueError(f"a model of the type {config['model_type']} has no attention heads to measure")
    sizes = {
        "n_layers": hf.num_hidden_layers,
        "d_model": hf.hidden_size,
        "n_heads": hf.num_attention_heads,
        "d_head": getattr(hf, "head_dim", None) or hf.hidden_size // hf.num_attention_heads,
        "n_ctx": getattr(hf, "max_position_embeddings", 2048),
        "d_vocab": hf.vocab_size,
    }
    fields = {key: value for key, value in config.items() if key not in ("_name_or_path", "transformers_version")}
    return Architecture(sizes, huggingface=fields)


def _config(config: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig

    if "model_type" not in config:
        raise ValueError(f"a Hugging Face config names its `model_type`, this one has {', '.join(sorted(config))}")
    kind = str(config["model_type"])
    try:
        fields = {name: value for name, value in _inert(config).items() if name != "model_type"}
        hf = AutoConfig.for_model(kind, **fields).get_text_config()
    except ValueError as reason:
        raise ValueError(f"transformers does not know the model type {kind!r}: {reason}") from reason
    names = list(config.get("architectures") or ())
    if not all(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names) or not _is_causal(hf):
        raise ValueError(
            f"stagewise reads causal language models; this is {', '.join(names) or kind}. An encoder, an "
            "encoder-decoder or a model with another head has no next-token predictions to measure"
        )
    return hf


def _inert(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without the fields that name code, of a repository or a compiled kernel, in its parts too."""
    return {
        name: _inert(value) if isinstance(value, Mapping) else value
        for name, value in config.items()
        if not re.fullmatch(CODE, str(name))
    }


def _is_causal(config: Any) -> bool:
    """Whether attention is causal; in a masked language model's type it is not, unless the config sets is_decoder."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    sees_all = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    return not sees_all and not config.is_encoder_decoder


def fresh(architecture: Architecture, seed: int) -> nn.Module:
    """Return a model of the library's own initialisation, without touching the global generator.

    Raises:
        ValueError: the model type has no causal language model.
    """
    from transformers import AutoModelForCausalLM

    assert architecture.huggingface is not None
    config = _config(architecture.huggingface)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return _eager(AutoModelForCausalLM.from_config(config, dtype=torch.float32))
    except ValueError as reason:
        raise ValueError(f"transformers has no causal language model of the type {config.model_type}") from reason


def loaded(kind: type[Any], config: Any, state: Mapping[str, Tensor]) -> nn.Module:
    """Return a model of a class and a config with saved weights, in float32.

    Raises:
        ValueError: a name is missing or unknown, or a shape differs.
    """
    state = {name: weight for name, weight in state.items() if not name.endswith(CONSTANTS)}
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
        kinds.setdefault(next((kind for kind in KINDS if one.endswith(kind)), ""), []).append(one)
    shown = [one for of_kind in kinds.values() for one in of_kind[:SHOWN]]
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
