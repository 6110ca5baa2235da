"""Configs by name: what TransformerLens knows without a network, and what it does not know."""

import pytest

from stagewise import models


def test_a_name_that_transformer_lens_knows_gives_its_config() -> None:
    fields = models.named_config("llama-7b")
    assert (fields["n_layers"], fields["n_heads"], fields["d_model"]) == (32, 32, 4096)


def test_an_unknown_name_is_an_error_of_one_line() -> None:
    with pytest.raises(ValueError, match=r"^TransformerLens knows no model of the name 'no-such-model'$"):
        models.named_config("no-such-model")
