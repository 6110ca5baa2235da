"""The models of a series, from a config of any kind, a model, a file."""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._table_file import read_json
from stagewise.config import line_of

CONFIG = "config.json"

TAKEN = "a HookedTransformerConfig, a model, a dict of a config's fields, a JSON file of them, or a Hugging Face config"
"""Forms of a config that `architecture_from` takes, in messages."""


class UnknownModelError(ValueError):
    """Nothing says which model weights belong to."""


def architecture_from(given: Any) -> Architecture:
    """Return the architecture that a config, its fields, JSON, a model, a file, a folder or a name stands for."""
    if isinstance(given, Architecture):
        return given
    if isinstance(given, str | Path):
        if (text := str(given)).lstrip().startswith("{"):
            return _of_fields(_json(text))
        path = Path(text, CONFIG) if Path(text).is_dir() else Path(text)
        if path.is_file() or path.name == CONFIG or path.suffix == ".json":
            return _of_fields(read_json(path, f"give {TAKEN}"))
        raise ValueError(f"`architecture` is {TAKEN}; {text!r} is no file")
    if hasattr(given, "state_dict"):
        return models.described(given)
    if isinstance(given, Mapping) or hasattr(given, "to_dict"):
        return _of_fields(given)
    raise ValueError(f"`architecture` is {TAKEN}; got {type(given).__name__}: {given!r:.80}")


def some_fields(given: Any) -> Mapping[str, Any] | None:
    """Return fields, without sizes, that are given beside weights whose shapes say the rest; None of a whole config."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        given = _json(given)
    is_part = isinstance(given, Mapping) and not {"n_layers", "model_type"} & given.keys()
    return given if is_part else None


def read_off(weights: Mapping[str, Tensor], name: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a HookedTransformer's config by the names and shapes of its weights, and say what they do not hold."""
    shapes = {each: tuple(weight.shape) for each, weight in weights.items()}
    query, embed, unembed = (shapes.get(each, ()) for each in ("blocks.0.attn.W_Q", "embed.W_E", "unembed.W_U"))
    if (len(query), len(embed), len(unembed)) != (3, 2, 2) or any(".experts." in each for each in shapes):
        raise UnknownModelError(
            f"{asked_for(name)}. Its weights are named {', '.join([*shapes][:3])} and so on: those of a module of your "
            "own are first renamed to a HookedTransformer's, or to a Hugging Face model's"
        )
    block = {each.removeprefix("blocks.0.") for each in shapes if each.startswith("blocks.0.")}
    fields: dict[str, Any] = {
        "n_layers": 1 + max(int(each.split(".")[1]) for each in shapes if each.startswith("blocks.")),
        **dict(zip(("n_heads", "d_model", "d_head"), query, strict=True)),
        **{"d_vocab": embed[0], "d_vocab_out": unembed[1]},
        "attn_only": not any(each.startswith("mlp.") for each in block),
        "gated_mlp": "mlp.W_gate" in block,
    }
    if "attn._W_K" in block:
        fields["n_key_value_heads"] = shapes["blocks.0.attn._W_K"][0]
    if not fields["attn_only"]:
        fields |= {"d_mlp": shapes["blocks.0.mlp.W_in"][1], **({"act_fn": "solu_ln"} if "mlp.ln.w" in block else {})}
    if "ln1.w" in block:
        fields["normalization_type"] = "LN" if "ln1.b" in block else "RMS"
    fields |= {**_positions(weights), **known}
    open_fields = {
        "act_fn": "the MLPs' activation, relu, gelu, gelu_new or silu" if not fields["attn_only"] else "",
        "normalization_type": "null for no norms, or LNPre for norms without weights",
        "n_ctx": "the longest sequence",
        "positional_embedding_type": "rotary, alibi or none",
    }
    if missing := {each: why for each, why in open_fields.items() if why and each not in fields}:
        asked = "; ".join(f"{each} ({why})" for each, why in missing.items())
        sizes = ", ".join(f"{each} = {fields[each]}" for each in ("n_layers", "d_model", "n_heads", "d_vocab"))
        example = json.dumps(dict.fromkeys(missing, "..."))
        raise UnknownModelError(
            f"the weights of {name!r} are a HookedTransformer's with {sizes}, and do not show {asked}: give these, "
            f"`architecture={example}`, on the command line --architecture '{example}', or a whole {CONFIG}"
        )
    taken = {each: value for each, value in ASSUMED.items() if each not in fields}
    told = ", ".join(f"{each} = {value}" for each, value in taken.items())
    print(f"{name}: no {CONFIG}; sizes are read off the weights, and taken are {told}", file=sys.stderr)
    return fields | taken


ASSUMED = {"attention_dir": "causal", "use_attn_scale": True, "parallel_attn_mlp": False, "eps": 1e-5}
"""Fields that weights do not show, with TransformerLens's default values."""


def _positions(weights: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the kind of positions that weights, and the buffers beside them, show."""
    learnt, sines = weights.get("pos_embed.W_pos"), weights.get("blocks.0.attn.rotary_sin")
    mask = weights.get("blocks.0.attn.mask")
    if learnt is not None:
        return {"positional_embedding_type": "standard", "n_ctx": len(learnt)}
    if sines is None:
        return {} if mask is None else {"n_ctx": len(mask)}
    n_ctx, width = sines.shape
    first = [float(each) for each in sines[1]]
    adjacent = math.isclose(first[0], first[1], rel_tol=1e-4)
    second = first[2 if adjacent else 1] if width > 2 else math.sin(1e-4)
    # The second angle at position 1 is base^(-2 / width).
    fields = {"rotary_dim": width, "rotary_base": round(math.asin(second) ** (-width / 2)) if width > 2 else 10_000}
    return {"positional_embedding_type": "rotary", "n_ctx": n_ctx, "rotary_adjacent_pairs": adjacent, **fields}


def _of_fields(given: Any) -> Architecture:
    try:
        return Architecture(given)
    except (TypeError, AttributeError) as reason:
        raise ValueError(f"the fields of this config do not make a model: {line_of(reason)}") from reason


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as reason:
        raise ValueError(f"`architecture` is {TAKEN}; this is no JSON ({reason}): {text:.80}") from reason


def asked_for(name: str) -> str:
    """Return the question which model a series' weights belong to, with a line to copy."""
    return (
        f"nothing says which model the weights of {name!r} belong to: put its {CONFIG} beside them, or give it, as in "
        f"`open_series({name!r}, architecture=model.cfg)`, on the command line `--architecture {CONFIG}`. It is "
        f"{TAKEN}; `json.dump(model.cfg.to_dict(), open({CONFIG!r}, 'w'), default=str)` writes the "
        f"file, of a Hugging Face model `model.config.to_json_file({CONFIG!r})`"
    )
