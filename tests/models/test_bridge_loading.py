"""Every later checkpoint of a bridge is copied, and its weights and logits are those of a bridge wrapped for it."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import open_series
from stagewise.models import _bridge_loading as bridge_loading
from stagewise.models._model import Bridge
from tests.models.small_families import LENGTH, VOCAB, families

TOKENS = torch.randint(32, (2, 6), generator=torch.Generator().manual_seed(0))


def loaded_in_turn(*plain: Any) -> tuple[Any, Any]:
    """Return a bridge that held every model in turn, and one that held the last one alone."""
    architecture = models.described(plain[0])
    first, second = models.build(architecture), models.build(architecture)
    for each in plain:
        models.load(first, each.state_dict())
    models.load(second, plain[-1].state_dict())
    return first, second


def assert_alike(one: Any, other: Any, tokens: torch.Tensor = TOKENS) -> None:
    states = one.original_model.state_dict(), other.original_model.state_dict()
    assert states[0].keys() == states[1].keys()
    assert [name for name in states[0] if not torch.equal(states[0][name], states[1][name])] == []
    with torch.inference_mode():
        assert torch.equal(one(tokens), other(tokens))


@pytest.fixture
def wrappings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are wrapped to load a checkpoint."""
    seen: list[str] = []
    wrap = bridge_loading.wrapped

    def wrapped(model: Any) -> Bridge:
        seen.append(type(model).__name__)
        return wrap(model)

    monkeypatch.setattr(bridge_loading, "wrapped", wrapped)
    return seen


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Bloom", "Gemma2", "Mixtral", "OPT"])
def test_the_second_checkpoint_is_copied(kind: str, hugging_face: Callable[..., Any], wrappings: list[str]) -> None:
    one, other = loaded_in_turn(hugging_face(kind, 0), hugging_face(kind, 1))
    assert len(wrappings) == 2  # the first of one bridge, the only one of the other
    assert_alike(one, other)


@pytest.mark.parametrize(
    ("kind", "prefix"), [("GPT2", ""), ("GPT2", "transformer."), ("GPTNeoX", ""), ("Llama", ""), ("Mixtral", "")]
)
def test_a_model_that_is_built_for_its_weights_is_wrapped_once(
    kind: str, prefix: str, hugging_face: Callable[..., Any], wrappings: list[str]
) -> None:
    plain = [hugging_face(kind, seed, tie_word_embeddings=True) for seed in (0, 1)]
    states = [{name.removeprefix(prefix): each for name, each in one.state_dict().items()} for one in plain]
    held = models.holding(models.described(plain[0]), states[0])
    assert len(wrappings) == 1
    other = models.build(models.described(plain[0]))
    models.load(other, states[0])
    assert_alike(held, other)
    wrappings.clear()
    models.load(held, states[1])
    assert not wrappings
    models.load(other, states[1])
    assert_alike(held, other)


def test_rows_that_are_alike_say_nothing_and_the_next_checkpoint_is_wrapped_too(
    hugging_face: Callable[..., Any], wrappings: list[str]
) -> None:
    zero, plain = hugging_face("GPTNeoX", 0), hugging_face("GPTNeoX", 1)
    with torch.no_grad():
        zero.gpt_neox.layers[0].attention.query_key_value.weight.zero_()
    one, other = loaded_in_turn(zero, plain)
    assert len(wrappings) == 3
    assert_alike(one, other)


def test_weights_without_the_prefix_and_in_half_precision_are_copied_too(
    hugging_face: Callable[..., Any], wrappings: list[str]
) -> None:
    plain = [hugging_face("GPT2", seed) for seed in (0, 1)]
    bridge, other = (models.build(models.described(plain[0])) for _ in plain)
    states = [
        {name.removeprefix("transformer."): weight.bfloat16() for name, weight in one.transformer.state_dict().items()}
        for one in plain
    ]
    for state in states:
        models.load(bridge, state)
    assert len(wrappings) == 1
    models.load(other, states[-1])
    assert_alike(bridge, other)


def test_another_set_of_weights_is_refused_after_the_first_as_before(hugging_face: Callable[..., nn.Module]) -> None:
    plain = hugging_face("GPTNeoX")
    bridge, state = models.build(models.described(plain)), dict(plain.state_dict())
    models.load(bridge, state)
    del state["gpt_neox.layers.0.attention.query_key_value.weight"]
    with pytest.raises(ValueError, match=r"query_key_value\.weight: missing"):
        models.load(bridge, state)


@pytest.mark.slow
def test_every_family_is_copied_or_wrapped_rightly(wrappings: list[str]) -> None:
    tokens, copied = torch.randint(VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(0)), 0
    for name, family in families().items():
        plain = [family.small(seed) for seed in (0, 1)]
        wrappings.clear()
        try:
            one, other = loaded_in_turn(*plain)
        except ValueError:
            continue  # it is refused
        assert_alike(one, other, tokens)
        copied += len(wrappings) <= 2
        assert len(wrappings) <= 2, name
    assert copied > 60


def test_a_bridge_that_computes_something_else_is_refused() -> None:
    """Falcon with ALiBi, in 3.9 and in 4.3: its bridge scales the positions as it scales the scores."""
    from transformers import FalconConfig

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 32}
    with pytest.raises(ValueError, match="FalconForCausalLM does not give the model's logits: they differ by"):
        models.build(Architecture(FalconConfig(**sizes, alibi=True).to_dict()))


def test_a_bridge_around_a_model_gives_the_models_own_logits(hugging_face: Callable[..., nn.Module]) -> None:
    tokens = bridge_loading.trial_tokens(32)
    with torch.no_grad():
        expected = hugging_face("GPT2")(tokens).logits
        bridge = bridge_loading.wrapped(hugging_face("GPT2"))
        torch.testing.assert_close(bridge(tokens), expected, atol=1e-4, rtol=0)
    assert bridge_loading.is_bridge(bridge)
    assert not bridge_loading.is_bridge(hugging_face("GPT2"))
    bridge_loading._check(bridge, tokens, expected)
    with pytest.raises(ValueError, match=f"they differ by {expected.std():.2g}"):
        bridge_loading._check(bridge, tokens, expected + expected.std())
    apart = expected.index_fill(2, torch.tensor([3]), torch.nan)  # nothing to compare with
    bridge_loading._check(bridge, tokens, apart)


def test_trial_tokens_lie_in_the_vocabulary_and_differ() -> None:
    assert len(bridge_loading.trial_tokens(32).unique()) == 6
    assert len(bridge_loading.trial_tokens(7, 8).unique()) == 7  # no period of the vocabulary's own
    assert bridge_loading.trial_tokens(3).unique().tolist() == [0, 1, 2]


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("kind", "change"),
    [("GPT2", {}), ("Llama", {"tie_word_embeddings": True}), ("Gemma2", {"tie_word_embeddings": True})],
)
@pytest.mark.parametrize("saved", [False, True])
def test_untied_weights_of_a_tied_config_are_two_in_each_checkpoint_that_has_two(
    kind: str, change: dict[str, object], saved: bool, hugging_face: Callable[..., Any], tmp_path: Path
) -> None:
    plain = [hugging_face(kind, seed, **change) for seed in range(3)]
    for seed in (1, 2):
        generator = torch.Generator().manual_seed(seed)
        plain[seed].lm_head.weight = nn.Parameter(torch.randn(plain[seed].lm_head.weight.shape, generator=generator))
    for step, each in enumerate(plain):
        each.save_pretrained(tmp_path / f"checkpoint-{step}")
    series = open_series(tmp_path) if saved else open_series(list(enumerate(plain)))
    bridge: Any = models.build(series.architecture)
    for step in (0, 1, 2, 0, 1):
        line = "their weights differ in a checkpoint: they are read as two"
        with pytest.warns(UserWarning, match=line) if step == 1 else contextlib.nullcontext():
            models.load(bridge, series.load(step))
        assert torch.equal(bridge.unembed.original_component.weight, plain[step].lm_head.weight)
        assert torch.equal(bridge.embed.original_component.weight, plain[step].get_input_embeddings().weight)
        with torch.inference_mode():
            torch.testing.assert_close(bridge(TOKENS), plain[step](TOKENS).logits, atol=1e-4, rtol=1e-4)
    with pytest.warns(UserWarning, match="they are read as two"):
        built: Any = models.holding(series.architecture, series.load(1))
    assert_alike(built, bridge)


def test_a_weight_that_is_not_what_was_read_is_named(
    hugging_face: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = hugging_face("GPT2")
    bridge = models.build(models.described(plain))
    plain.lm_head.weight = nn.Parameter(plain.lm_head.weight + 1)
    monkeypatch.setattr(bridge_loading, "_tie_as_read", lambda *_: None)
    with pytest.raises(ValueError, match=r"does not hold transformer\.wte\S*weight as it was read"):
        models.load(bridge, plain.state_dict())
