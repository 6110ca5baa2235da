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
