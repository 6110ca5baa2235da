"""The config of a model as plain data: TransformerLens's fields by name, or a Hugging Face config and its sizes."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

MOST_LAYERS = 1000
"""Layers of a model: no published one has a third as many, and each takes time to build."""

RUNTIME = {"device", "dtype", "torch_dtype", "seed", "n_devices"}
"""Fields of a config that say how it was run, not what it is."""

TAKEN = "a HookedTransformerConfig (`model.cfg`), a Hugging Face config, or a dict of the fields of one"
"""Forms of a config, in messages."""

CODE = "auto_map|trust_remote_code|_?(attn|experts)_implementation(_internal)?|quantization_config"
"""Names of a config's fields by which transformers would load code; quantised weights are no numbers to measure."""

LARGEST = 2**62
"""The largest size: a number of thousands of digits could not even be written into a message."""

LONGEST = 400
"""Letters of an error of another library that are shown."""


def fields_of(given: Any) -> dict[str, Any]:
    """Return the fields of a config as plain data, without those that say how it was run (`RUNTIME`).

    Args:
        given: a HookedTransformerConfig, a Hugging Face config, or what `to_dict()` of one gives, or a part of that.

    Raises:
        ValueError: it is none of these, or a field is no plain data; the message names it.

    >>> import numpy as np
    >>> fields_of({"n_layers": np.int64(2), "attn_types": ("global", "local"), "seed": 3})
    {'n_layers': 2, 'attn_types': ['global', 'local']}
    """
    fields = given if isinstance(given, Mapping) else getattr(given, "to_dict", None)
    if callable(fields) and not isinstance(given, type):
        fields = fields()
    if not isinstance(fields, Mapping):
        inside = next((name for name in ("cfg", "config") if hasattr(given, name)), None)
        advice = f": give its .{inside}" if inside else f": {given!r:.80}"
        kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise ValueError(f"a model's config is {TAKEN}; got {kind}{advice}")
    around = str(fields.get("architecture"))
    if around.endswith(("ForCausalLM", "LMHeadModel")):
        raise ValueError(
            f"this config of a bridge says less than its {around}: give the bridge itself where a series is opened, or "
            "the Hugging Face config, bridge.original_model.config"
        )
    return {name: _plain(value, name) for name, value in fields.items() if name not in RUNTIME}


def _plain(value: Any, name: str) -> Any:
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # numpy's and torch's numbers
        value = value.item()
    if isinstance(value, Mapping):
        return {key: _plain(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"the config's {name} is no plain data, as run.json holds it: {value!r:.80}; leave it out")


def with_d_head(config: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a config with d_head, from d_model and n_heads where it is left out.

    Raises:
        ValueError: d_model is no multiple of n_heads.

    >>> with_d_head({"d_model": 64, "n_heads": 4})["d_head"]
    16
    """
    width, heads = config.get("d_model"), config.get("n_heads")
    if "d_head" in config or not (type(width) is type(heads) is int and heads > 0):
        return config
    if width % heads:
        raise ValueError(f"d_model = {width} is no multiple of n_heads = {heads}: give d_head, the width of a head")
    return {**config, "d_head": width // heads}


def how_it_ran(given: Any, seed: int) -> str:
    """Return which fields of a config say how to run it, other than training does; nothing for none.

    >>> how_it_ran({"n_layers": 2, "seed": 7, "device": "cpu"}, seed=0)
    'seed = 7'
    """
    fields = given if isinstance(given, Mapping) else vars(given)
    usual = {"seed": str(seed), "device": "cpu", "n_devices": "1", "dtype": "torch.float32"}
    asked = {name: str(fields[name]) for name in usual if fields.get(name) is not None}
    return ", ".join(f"{name} = {value}" for name, value in asked.items() if not usual[name].endswith(value))


def huggingface_fields(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sizes of a Hugging Face config by TransformerLens's names, and its fields.

    Raises:
        ValueError: it is no config of a causal language model; the message names its type.

    >>> from transformers import GPT2Config
    >>> small = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=16, vocab_size=64)
    >>> huggingface_fields(small.to_dict())[0]["n_heads"]
    4
    """
    hf = huggingface_config(config)
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
            "n_ctx": 2048 if (longest := getattr(hf, "max_position_embeddings", -1)) == -1 else longest,
            "d_vocab": hf.vocab_size,
        }
        sizes["d_head"] = max(width or sizes["d_model"] // sizes["n_heads"] for width in _by_layer(hf, "head_dim"))
        if large := [name for name, size in sizes.items() if isinstance(size, int) and size > LARGEST]:
            raise ValueError(f"{large[0]} is beyond 2^62")
        fields = {key: value for key, value in config.items() if key not in ("_name_or_path", "transformers_version")}
        return sizes, fields


def _by_layer(config: Any, name: str) -> list[Any]:
    """Return a field at each layer; Gemma 4's layers of full attention have wider heads."""
    return [getattr(layer, name, None) for layer in getattr(config, "per_layer_config", None) or [config]]


def huggingface_config(config: Mapping[str, Any]) -> Any:
    """Return the config of a causal language model as transformers reads its fields.

    Raises:
        ValueError: it is none, or transformers refuses it.
    """
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

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
    # Attention of a masked language model's type is not causal, unless the config sets is_decoder.
    masked = hf.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(hf, "is_decoder", False)
    decoders = all(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names)
    if not decoders or masked or hf.is_encoder_decoder:
        raise ValueError(
            f"stagewise reads causal language models; this is {', '.join(names) or kind}. An encoder, an "
            "encoder-decoder or a model with another head has no next-token predictions to measure"
        )
    return hf


def _inert(config: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a config without the fields that name code, of a repository or a compiled kernel, in its parts too.
    Tuples, which a recipe that was read from run.json holds, are lists, as transformers checks them.
    """
    fields = {name: value for name, value in config.items() if not re.fullmatch(CODE, str(name))}
    as_lists = {name: [*value] for name, value in fields.items() if isinstance(value, tuple)}
    parts = {name: _inert(value) for name, value in fields.items() if isinstance(value, Mapping)}
    return {**fields, **as_lists, **parts}


def _check_counts(fields: Mapping[Any, Any], kind: str) -> None:
    """Refuse more layers than any model has before transformers lists one by one what each of them is."""
    for name, value in fields.items():
        if isinstance(value, Mapping):
            _check_counts(value, kind)
        elif isinstance(value, int | float) and re.search("layers?$", str(name)) and value > MOST_LAYERS:
            raise ValueError(
                f"the config of a {kind} has {name} = {value:.6g}: a model has at most {MOST_LAYERS} layers"
            )


@contextlib.contextmanager
def in_a_line(what: str) -> Iterator[None]:
    """Turn whatever is raised over somebody else's config or model into one line that begins with what failed.

    Raises:
        ValueError: for any error.
    """
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
    return " ".join([first, *others[: first.endswith(":")]])[:LONGEST]
