"""Configs by name: what TransformerLens knows without a network, and what it does not know."""

import pytest

from stagewise import models

HAS_NAMES = models.has_hooked_transformer()
hooked = pytest.mark.hooked_only("it has no table of HookedTransformerConfigs")


@hooked
def test_a_name_that_transformer_lens_knows_gives_its_config() -> None:
    fields = models.named_config("llama-7b")
    assert (fields["n_layers"], fields["n_heads"], fields["d_model"]) == (32, 32, 4096)


@hooked
def test_an_unknown_name_is_an_error_of_one_line() -> None:
    with pytest.raises(ValueError, match=r"^TransformerLens knows no model of the name 'no-such-model'$"):
        models.named_config("no-such-model")


@pytest.mark.skipif(HAS_NAMES, reason="transformer-lens 3 has the names")
def test_without_the_table_the_error_says_what_to_give() -> None:
    with pytest.raises(ValueError, match=r"transformer-lens 4 has no HookedTransformerConfig of the name 'llama-7b'"):
        models.named_config("llama-7b")
