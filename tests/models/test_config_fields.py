"""Config fields: every one is off where a config does not give it; configs by name need no network."""

from typing import Any, cast

import pytest

from stagewise import models
from stagewise.architectures import full
from stagewise.models._config_fields import (
    HOOKS,
    NATIVE,
    NOT_MEASURED,
    OF_NATIVE_WITHOUT_EFFECT,
    TRAINING,
    WITHOUT_EFFECT,
    asked_beside,
)

CONFIG = vars(models.build(full(5, 4)).cfg)


@pytest.mark.hooked_only("there is no HookedTransformerConfig")
@pytest.mark.parametrize("covered", [TRAINING | WITHOUT_EFFECT | HOOKS, NATIVE | WITHOUT_EFFECT])
def test_an_ordinary_config_asks_for_nothing_that_a_pass_does_not_cover(covered: frozenset[str]) -> None:
    assert asked_beside(CONFIG, covered) == {}


def test_the_table_names_no_field_that_is_none() -> None:
    known = set(CONFIG) | {"tokenizer_appends_eos", "type", "architecture", "default_padding_side"}
    if models.has_hooked_transformer():
        named = TRAINING | NATIVE | WITHOUT_EFFECT | HOOKS | OF_NATIVE_WITHOUT_EFFECT | {*NOT_MEASURED}
        assert named <= known
    assert known >= NATIVE


@pytest.mark.parametrize(("field", "value"), [("use_qk_norm", True), ("clip_qkv", 5.0), ("attention_dir", "both")])
def test_a_field_that_is_set_is_asked_for(field: str, value: object) -> None:
    config = cast(dict[str, Any], {**CONFIG, field: value})
    asked = asked_beside({name: config[name] for name in NOT_MEASURED if name in config}, ())
    assert asked == {field: value}


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
