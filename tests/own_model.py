"""A config and a model as a person makes them with the installed TransformerLens, and code of pages that does so."""

import re
import warnings
from typing import Any

from stagewise.models import has_hooked_transformer


def own_config(**fields: Any) -> Any:
    """Return a HookedTransformerConfig; under version 4 the config of a native bridge."""
    if has_hooked_transformer():
        from transformer_lens import HookedTransformerConfig

        return HookedTransformerConfig(**fields)
    from transformer_lens.config import TransformerBridgeConfig

    return TransformerBridgeConfig(**fields)


def own_model(cfg: Any) -> Any:
    """Return a HookedTransformer of a config; under version 4 a native bridge."""
    if not has_hooked_transformer():
        from transformer_lens.model_bridge.sources.native import boot

        return boot(cfg, device="cpu")
    from transformer_lens import HookedTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return HookedTransformer(cfg)


def as_here(code: str) -> str:
    """Return code as docs/walks.md says to write it: under version 4 without the import of a HookedTransformer."""
    beside = re.sub(r"^from transformer_lens import Hooked.*\n", "", code, flags=re.MULTILINE)
    return code if has_hooked_transformer() else beside
