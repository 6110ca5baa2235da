"""The models of a series, from a config of any kind, a model, a file, a name."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._table_file import read_json
from stagewise.config import line_of

CONFIG = "config.json"

TAKEN = (
    "a HookedTransformerConfig, a model, a dict of a config's fields, a JSON file of them, a Hugging Face config, or "
    "the name of a model that TransformerLens knows"
)
"""Forms of a config that `architecture_from` takes, in messages."""


class UnknownModelError(ValueError):
    """Nothing says which model weights belong to."""


def architecture_from(given: Any) -> Architecture:
    """Return the architecture that a config, its fields, JSON, a model, a file, a folder or a name stands for."""
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
        return _of_fields(_json(text))
    if path.is_dir():
        path = path / CONFIG
    if path.is_file() or path.name == CONFIG or path.suffix == ".json":
        return _of_fields(read_json(path, f"give {TAKEN}"))
    try:
        return _of_fields(models.named_config(text))
    except ValueError as reason:
        raise ValueError(f"`architecture` is {TAKEN}; {text!r} is no file, and {reason}") from reason


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
