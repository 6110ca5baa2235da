"""Architectures: sizes that are missing, wrong or left to TransformerLens."""

from typing import Any

import pytest

from stagewise import models as model
from stagewise.architecture import Architecture


def test_the_number_of_heads_defaults_to_transformer_lenss() -> None:
    made = Architecture({"n_layers": 1, "d_model": 12, "d_head": 4, "n_ctx": 5, "d_vocab": 6})
    assert made.n_heads == model.build(made).cfg.n_heads == 3


def test_a_config_without_its_sizes_is_refused() -> None:
    with pytest.raises(ValueError, match="the model config lacks d_head, n_layers"):
        Architecture({"d_model": 8, "n_ctx": 4, "d_vocab": 5})


@pytest.mark.parametrize("size", ["n_layers", "d_model", "d_head", "n_ctx", "d_vocab", "n_heads"])
@pytest.mark.parametrize("value", ["two", 1.5, 0, -2, None, True, 10**30], ids=str)
def test_sizes_of_a_model_are_whole_numbers(size: str, value: Any) -> None:
    config = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 4, "d_vocab": 5, "n_heads": 2, size: value}
    with pytest.raises(ValueError, match=rf"the model config's {size}: expected a whole number of at least 1"):
        Architecture(config)
