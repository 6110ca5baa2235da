"""What the models of a series are, from whatever its owner has: a config of any kind, a model, a file, a name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.json_files import read_json
from stagewise.config import line_of

CONFIG = "config.json"

TAKEN = (
    "a HookedTransformerConfig, a model, a dict of a config's fields, a JSON file of them, a Hugging Face config, or "
    "the name of a model that TransformerLens knows"
)
"""What `architecture_from` takes, in messages."""


def architecture_from(given: Any) -> Architecture:
    """Return the architecture that is meant by a config, a model, a file or a name.

    Args:
        given: an `Architecture`; the fields of a HookedTransformerConfig or of a Hugging Face config as a dict, as JSON
            text, as a JSON file or a folder that holds a config.json; one of these configs; a HookedTransformer, a
            TransformerBridge or a Hugging Face model; or the name of a model that TransformerLens knows.

    Raises:
        ValueError: it is none of these, or its fields do not make a model.
        OSError: TransformerLens looks the name up, and the hub does not answer.

    >>> small = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 4, "d_vocab": 5, "attn_only": True}
    >>> architecture_from(json.dumps(small)) == architecture_from(small)
    True
    """
    if isinstance(given, Architecture):
        return given
    if isinstance(given, str | Path):
        return _named(given)
    if hasattr(given, "state_dict"):
        return models.described(given)
    if isinstance(given, Mapping) or hasattr(given, "to_dict"):
        return _of_fields(given)
    raise ValueError(f"`architecture` is {TAKEN}; got {type(given).__name__}: {given!r:.80}")


def _of_fields(given: Any) -> Architecture:
    try:
        return Architecture(given)
    except (TypeError, AttributeError) as reason:
        raise ValueError(f"the fields of this config do not make a model: {line_of(reason)}") from reason


def _named(given: str | Path) -> Architecture:
    text, path = str(given), Path(given)
    if text.lstrip().startswith("{"):
        try:
            fields = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as reason:
            raise ValueError(f"`architecture` is {TAKEN}; this is no JSON ({reason}): {text:.80}") from reason
        return _of_fields(fields)
    if path.is_dir():
        path = path / CONFIG
    if path.is_file() or path.name == CONFIG or path.suffix == ".json":
        return _of_fields(read_json(path, f"give {TAKEN}"))
    try:
        return _of_fields(models.named_config(text))
    except ValueError as reason:
        raise ValueError(f"`architecture` is {TAKEN}; {text!r} is no file, and {reason}") from reason


def asked_for(name: str) -> str:
    """Return the question which model a series' weights belong to, with a line to copy."""
    return (
        f"nothing says which model the weights of {name!r} belong to: put its {CONFIG} beside them, or give it, as in "
        f"`open_series({name!r}, architecture=model.cfg)`, on the command line `--architecture {CONFIG}`. It is "
        f"{TAKEN}; `json.dump(model.cfg.to_dict(), open({CONFIG!r}, 'w'), default=str)` writes the "
        f"file, of a Hugging Face model `model.config.to_json_file({CONFIG!r})`"
    )
