"""Every family of Hugging Face models is measured rightly, or refused in a sentence: docs/records/families.md."""

import re
from pathlib import Path

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.intervention import RestrictContext
from tests.models.families import edited, short, tried, widest
from tests.models.small_families import LENGTH, families, family_of, unbridged

TABLE = Path(__file__).parents[2] / "docs" / "records" / "families.md"
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", TABLE.read_text(encoding="utf8"), re.MULTILINE)
DOCUMENTED = {name: outcomes for name, *outcomes in ROWS[2:]}
"""Families of the table. Listing those of transformers imports all of it: seconds of every collection."""

ALL_IN_WINDOWS = ("ministral3", "mixtral", "phi3", "phi3, partly rotary", "starcoder2")
"""Beside Mistral: no layer of theirs sees the whole sequence."""


@pytest.mark.parametrize(
    "name", ["gpt_oss", *(pytest.param(name, marks=pytest.mark.slow) for name in ("deepseek_v3", "gemma4_text"))]
)
def test_sinks_latent_attention_and_tokens_that_are_read_again_come_out_right(name: str) -> None:
    outcomes = tried(family_of(name))
    assert outcomes["ablation"].agrees
    assert outcomes["context"].agrees or "not pattern times values" in outcomes["context"].refused


@pytest.mark.slow
def test_a_query_that_keeps_nothing_of_a_context_beside_a_sink_hinders_no_context() -> None:
    plain = family_of("gpt_oss").small()
    with torch.no_grad():
        for name, weight in plain.named_parameters():
            weight.mul_(4 if "q_proj" in name else 1).sub_(4 if "sinks" in name else 0)
    outcomes = edited(plain, {str(c): ((RestrictContext(c),),) for c in (1, 2, 5, LENGTH)})
    assert all(each.agrees for each in outcomes.values())


@pytest.mark.parametrize(
    "name",
    [
        "mistral",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("ministral3", "mixtral", "phi3", "phi3, partly rotary")
        ),
    ],
)
def test_a_context_beyond_the_window_of_every_layer_changes_nothing(name: str) -> None:
    family = family_of(name)
    narrow = family._replace(fields={**family.fields, "sliding_window": 2})
    assert widest(narrow.small().config) == 2
    assert all(outcome.agrees for outcome in tried(narrow).values())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("falcon, new decoder", "TransformerLens has no bridge for FalconForCausalLM of this config|does not give"),
        pytest.param(
            "jamba",
            "JambaForCausalLM has no hook .*: TransformerLens shows no attention heads in layer 0",
            marks=pytest.mark.slow,
        ),
        ("mamba", "a mamba of this config cannot be measured: it has no attention heads"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_line(name: str, reason: str) -> None:
    for outcome in tried(family_of(name)).values():
        assert re.search(reason, outcome.refused)
        assert "\n" not in outcome.refused


@pytest.mark.slow
def test_every_family_without_a_bridge_is_refused_by_its_name() -> None:
    configs, unnamed = unbridged(), {}
    assert len(configs) > 60
    for kind, config in configs.items():
        with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as refused:
            models.build(Architecture(config))
        if re.split("[-_]", kind)[0] not in str(refused.value).lower():
            unnamed[kind] = str(refused.value)
    assert unnamed == {}


@pytest.mark.slow
@pytest.mark.parametrize("by_hooks", [False, True], ids=["as measured", "by hooks"])
@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_edit_agrees_with_plain_transformers_or_is_refused(name: str, by_hooks: bool) -> None:
    for outcome in tried(family_of(name), by_hooks).values():
        assert outcome.agrees or outcome.refused


@pytest.mark.slow
@pytest.mark.hooked_only("the table is of 3.9")
def test_the_table_has_every_family() -> None:
    assert DOCUMENTED.keys() == families().keys()


@pytest.mark.slow
@pytest.mark.hooked_only("the table is of 3.9")
@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_table_says_what_comes(name: str) -> None:
    assert [short(outcome) for outcome in tried(family_of(name)).values()] == DOCUMENTED[name]
