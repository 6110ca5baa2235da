"""The config of a published model by TransformerLens's name of it."""

from typing import Any


def named_config(name: str) -> dict[str, Any]:
    """Return the fields of a model's HookedTransformerConfig, without its weights; some are looked up on the hub.

    Raises:
        ValueError: TransformerLens knows no such model.
        OSError: the hub does not answer.
    """
    from transformer_lens.loading_from_pretrained import get_pretrained_model_config

    try:
        fields: dict[str, Any] = get_pretrained_model_config(name).to_dict()
    except ValueError as reason:
        if "not found" in str(reason):  # the message goes on with all names
            raise ValueError(f"TransformerLens knows no model of the name {name!r}") from None
        raise ValueError(f"TransformerLens has no config for {name!r}: {reason}") from reason
    return fields
