"""The layout of transformer-lens 4's own models, and a HookedTransformer's: written out by hand, there and back."""

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.models import _native as native
from stagewise.models._model import Config

SMALL = {"n_layers": 1, "d_model": 6, "d_head": 4, "n_heads": 3, "n_ctx": 5, "d_vocab": 7, "act_fn": "relu", "d_mlp": 5}


def config(**change: object) -> Config:
    return models.build(Architecture({**SMALL, **change})).cfg


def test_the_rows_of_a_query_matrix_are_the_dimensions_of_its_heads_one_head_after_another() -> None:
    weight = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    ours = native.hooked("blocks.0.attn.W_Q", weight, config())
    assert ours.shape == (3, 6, 4)
    for head in range(3):
        for dimension in range(4):
            assert torch.equal(ours[head, :, dimension], weight[4 * head + dimension])


def test_rotary_pairs_that_are_adjacent_there_are_two_halves_here() -> None:
    bias = torch.arange(12.0)
    rotary = config(positional_embedding_type="rotary", rotary_dim=4)
    assert native.hooked("blocks.0.attn.b_Q", bias, rotary)[0].tolist() == [0, 2, 1, 3]
    assert native.hooked("blocks.0.attn.b_V", bias, rotary)[0].tolist() == [0, 1, 2, 3]
    assert native.hooked("blocks.0.attn.b_Q", bias, config())[0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("positions", ["standard", "rotary"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("W_Q", (12, 6)),
        ("W_V", (12, 6)),
        ("b_K", (12,)),
        ("W_O", (6, 12)),
        ("W_in", (5, 6)),
        ("W_U", (7, 6)),
        ("w", (6,)),
    ],
)
def test_there_and_back_is_the_same_weight(name: str, shape: tuple[int, ...], positions: str) -> None:
    cfg = config(positional_embedding_type=positions, **({"rotary_dim": 4} if positions == "rotary" else {}))
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(native.unhooked(name, native.hooked(name, weight, cfg), cfg), weight)


def test_a_weight_of_another_width_of_heads_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"blocks.0.attn.W_Q has the shape \(11, 6\), with d_head = 4"):
        native.hooked("blocks.0.attn.W_Q", torch.zeros(11, 6), config())


@pytest.mark.parametrize(
    "field", [{"positional_embedding_type": "alibi"}, {"use_local_attn": True}, {"parallel_attn_mlp": True}], ids=str
)
def test_what_would_be_ignored_is_refused_and_what_changes_nothing_is_dropped(field: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"take\s+transformer-lens 3.9"):
        native.supported_fields({**SMALL, **field})
    assert native.supported_fields({**SMALL, "model_name": "mine", "seed": 3, "use_attn_scale": True}) == SMALL
