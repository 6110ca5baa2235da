"""A model as data: its config, and how its weights start."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from stagewise.config import MOST_LAYERS, fields_of, huggingface_fields, with_d_head
from stagewise.fields import Count, check_fields, checked
from stagewise.init import AbstractInit, GaussianInit

_SIZES = dict.fromkeys(("n_layers", "d_model", "d_head", "n_ctx", "d_vocab"), Count) | {"n_heads": Count | Literal[-1]}


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A model as data: its config as plain data, and how its weights start.

    Args:
        config: a HookedTransformerConfig, a Hugging Face config, what `to_dict()` of one gives, or a dict of the fields
            of the first, n_layers and d_model among them; d_head may be left to d_model // n_heads. Fields that say how
            a config was run (`config.RUNTIME`) are left out.
        init: the initialisation; None takes the normal one that the config's initializer_range names.
        huggingface: of a Hugging Face causal language model its own config. The model is then a TransformerBridge
            around it, and `config` its sizes by TransformerLens's names.

    Raises:
        ValueError: `config` is none of these, a size is missing or out of range, or a field is no plain data.

    >>> Architecture({"n_layers": 1, "d_model": 8, "n_heads": 2, "n_ctx": 4, "d_vocab": 5}).config["d_head"]
    4
    """

    config: Any  # what it takes; what it then has are always fields
    init: AbstractInit = None  # type: ignore[assignment]  # likewise: then there is one
    huggingface: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        config = fields_of(self.config)
        if self.huggingface is None and "model_type" in config:
            config, huggingface = huggingface_fields(config)
            object.__setattr__(self, "huggingface", huggingface)
        object.__setattr__(self, "config", with_d_head(config))
        if missing := _SIZES.keys() - {"n_heads"} - self.config.keys():
            raise ValueError(
                f"the model config lacks {', '.join(sorted(missing))}; it has {', '.join(self.config) or 'no fields'}"
            )
        for size, kind in _SIZES.items():
            checked(self.config.get(size, -1), kind, f"the model config's {size}")
        if self.n_layers > MOST_LAYERS:
            raise ValueError(f"a model has at most {MOST_LAYERS} layers, got n_layers = {self.n_layers}")
        if self.n_heads < 1:
            raise ValueError(f"a model needs a head, got d_model = {self.config['d_model']} below d_head")
        if self.init is None:
            asked, default = self.config.get("initializer_range"), 0.8 / self.config["d_model"] ** 0.5
            own = self.huggingface is None and isinstance(asked, int | float) and asked > 0
            std = float(asked) if own and not math.isclose(asked, default) else None
            object.__setattr__(self, "init", GaussianInit(std))
        check_fields(self)

    @property
    def n_layers(self) -> int:
        """Number of blocks."""
        return int(self.config["n_layers"])

    @property
    def n_heads(self) -> int:
        """Number of heads in a layer; where it is not given, or -1, TransformerLens takes d_model // d_head."""
        n_heads = int(self.config.get("n_heads", -1))
        return int(self.config["d_model"] // self.config["d_head"]) if n_heads == -1 else n_heads

    @property
    def n_outputs(self) -> int:
        """Number of tokens, or of a regression numbers, that it predicts: d_vocab where none, or -1, is given.

        >>> sizes = {"n_layers": 1, "d_model": 8, "n_heads": 2, "n_ctx": 4, "d_vocab": 5}
        >>> Architecture(sizes).n_outputs, Architecture({**sizes, "d_vocab_out": 3}).n_outputs
        (5, 3)
        """
        given = int(self.config.get("d_vocab_out") or -1)
        return int(self.config["d_vocab"]) if given == -1 else given

    @property
    def bos(self) -> int | None:
        """The token that a text begins with, if the config names one of its own tokens."""
        named = (self.huggingface or {}).get("bos_token_id")
        return named if isinstance(named, int) and 0 <= named < int(self.config["d_vocab"]) else None
