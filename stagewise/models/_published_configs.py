"""The config of a published model by TransformerLens's name of it."""

from pathlib import Path
from typing import Any


def named_config(name: str) -> dict[str, Any]:
    """Return the fields of a model's HookedTransformerConfig, without its weights; some are looked up on the hub."""
    try:
        from transformer_lens.loading_from_pretrained import get_official_model_name, get_pretrained_model_config
    except ModuleNotFoundError:
        raise ValueError(
            f"transformer-lens 4 has no HookedTransformerConfig of the name {name!r}: give the model's config itself, "
            'or take transformer-lens 3.9 (pip install "transformer-lens<4")'
        ) from None
    try:
        if (official := Path(get_official_model_name(name))).exists():  # of some models it would run the code in it
            raise ValueError(f"there is a folder {official} here, which it would take for the repository of that name")
        fields: dict[str, Any] = get_pretrained_model_config(name).to_dict()
    except ValueError as reason:
        if "not found" in str(reason):  # the message goes on with all names
            raise ValueError(f"TransformerLens knows no model of the name {name!r}") from None
        raise ValueError(f"TransformerLens has no config for {name!r}: {reason}") from reason
    return fields
