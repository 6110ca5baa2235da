"""What counts as a model here."""

from collections.abc import Callable

from torch import nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.models._model import Bridge, Model


def test_what_a_config_makes_is_a_model_and_knows_its_sizes() -> None:
    built = models.build(
        Architecture({"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 5, "d_vocab": 3, "attn_only": True})
    )
    assert isinstance(built, Model)
    assert isinstance(built, Bridge) is not models.has_hooked_transformer()
    assert (built.cfg.n_layers, built.cfg.n_heads, built.cfg.d_vocab) == (1, 2, 3)


def test_a_bridge_is_one_and_the_model_beneath_is_none(hugging_face: Callable[..., nn.Module]) -> None:
    plain = hugging_face("GPT2")
    assert not isinstance(plain, Model)
    bridge = models.build(models.described(plain))
    assert isinstance(bridge, Bridge)
    assert type(bridge.original_model) is type(plain)
