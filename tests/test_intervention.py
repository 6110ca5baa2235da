"""Edits as data: what they refuse, and where a pass has to start."""

import pytest

from stagewise.intervention import (
    AblateHead,
    AblateMLP,
    AttributeEdges,
    AttributeHeads,
    RestrictContext,
    first_layer,
)
from tests.conftest import unchecked_types


@pytest.mark.parametrize("context", [0, -1])
def test_a_context_keeps_at_least_the_query(context: int) -> None:
    with pytest.raises(ValueError, match=f"context: expected a whole number of at least 1, got {context}"):
        RestrictContext(context)


@pytest.mark.parametrize(("layer", "head"), [(-1, 0), (0, -1)])
def test_layers_and_heads_count_from_zero(layer: int, head: int) -> None:
    with pytest.raises(ValueError, match=r"AblateHead\.(layer|head): expected a whole number of at least 0, got -1"):
        AblateHead(layer, head)


@pytest.mark.parametrize("kind", [AttributeHeads, AttributeEdges])
def test_an_attribution_takes_whole_steps(kind: type[AttributeHeads | AttributeEdges]) -> None:
    with pytest.raises(ValueError, match="steps: expected a whole number of at least 1, got 0"):
        kind(steps=0)
    message = rf"{kind.__name__}\.steps: expected a whole number of at least 1, got 1.5"
    with unchecked_types(), pytest.raises(ValueError, match=message):
        kind(steps=1.5)  # type: ignore[arg-type]


def test_an_attribution_of_an_unknown_kind_is_refused() -> None:
    message = r'AttributeHeads\.kind: expected "zero" or "mean", got .resample'
    with unchecked_types(), pytest.raises(ValueError, match=message):
        AttributeHeads("resample")  # type: ignore[arg-type]


def test_layers_of_mlps_count_from_zero() -> None:
    with pytest.raises(ValueError, match="layer: expected a whole number of at least 0, got -1"):
        AblateMLP(-1)


def test_an_ablation_starts_at_its_layer_and_a_context_at_the_first() -> None:
    assert first_layer((AblateHead(3, 1), AblateMLP(2))) == 2
    assert first_layer((AblateMLP(2), RestrictContext(2))) == 0


def test_equal_edits_are_one_key() -> None:
    assert len({(AblateHead(0, 1, "mean"),), (AblateHead(0, 1, "mean"),), (AblateHead(0, 1),)}) == 2
