"""Edits as data: what they refuse, and where a pass has to start."""

import pytest

from stagewise.intervention import AblateHead, AblateMLP, RestrictContext


@pytest.mark.parametrize("context", [0, -1])
def test_a_context_keeps_at_least_the_query(context: int) -> None:
    with pytest.raises(ValueError, match=f"context >= 1, got {context}"):
        RestrictContext(context)


@pytest.mark.parametrize(("layer", "head"), [(-1, 0), (0, -1)])
def test_layers_and_heads_count_from_zero(layer: int, head: int) -> None:
    with pytest.raises(ValueError, match=f"count from 0, got L{layer}H{head}"):
        AblateHead(layer, head)


def test_layers_of_mlps_count_from_zero() -> None:
    with pytest.raises(ValueError, match="layers count from 0, got -1"):
        AblateMLP(-1)


def test_an_ablation_starts_at_its_layer_and_a_context_at_the_first() -> None:
    assert AblateHead(3, 1).first_layer == 3
    assert AblateMLP(2).first_layer == 2
    assert RestrictContext(2).first_layer == 0


def test_equal_edits_are_one_key() -> None:
    assert len({(AblateHead(0, 1, "mean"),), (AblateHead(0, 1, "mean"),), (AblateHead(0, 1),)}) == 2
