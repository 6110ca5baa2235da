"""Building and loading: seeds, refusals, and saved weights put back; of models made from a config and of bridges."""

import dataclasses
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from stagewise import architectures, models
from stagewise.architecture import Architecture
from stagewise.architectures import OneHotInit
from stagewise.checkpoints._architectures import architecture_from
from stagewise.init import AbstractInit, Config, GaussianInit, InitialWeights, Shapes, WithoutPositions
from tests.models.conftest import ALSO, BRIDGED, CONFIG, CONFIGS

SAME = 1e-5
"""Log-probabilities of order one, sums in another order."""

SMALL = {"d_model": 12, "d_head": 4, "n_heads": 3, "n_ctx": 8, "d_vocab": 5, "act_fn": "relu", "d_mlp": 8}
TOKENS = torch.randint(5, (6, 8), generator=torch.Generator().manual_seed(0))

HOOKED = models.has_hooked_transformer()

NOT_IN_4: dict[str, dict[str, Any]] = {
    "parallel": {"parallel_attn_mlp": True},
    "alibi": {"positional_embedding_type": "alibi"},
    "local attention": {"use_local_attn": True, "window_size": 3, "attn_types": ["local", "global"]},
    "experts": {"num_experts": 2, "experts_per_token": 1, "gated_mlp": True},
    "scores scaled by layer": {"scale_attn_by_inverse_layer_idx": True},
    "norm of queries and keys": {"use_qk_norm": True},
    "results of heads": {"use_attn_result": True},
    "scaled rotary": {"positional_embedding_type": "rotary", "use_NTK_by_parts_rope": True},
}


BUILDS = f"""
import random
import numpy as np
import torch
from stagewise import architecture, architectures, models
def states():
    return random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()
before = states()
for change in ({{}}, {{"seed": 5}}):
    models.build(architecture.Architecture({{**{SMALL!r}, "n_layers": 1, **change}}), seed=3)
    models.build(architectures.minimal(4, 5), seed=3)
print([old == new for old, new in zip(before, states(), strict=True)])
"""


def states() -> dict[str, Any]:
    drawn = {"numpy": str(np.random.get_state()), "torch": torch.get_rng_state().tolist()}  # noqa: NPY002
    return {**drawn, "random": random.getstate()}


@pytest.mark.parametrize("change", [{}, {"seed": 5}], ids=str)
def test_building_leaves_every_global_generator_alone(change: dict[str, Any]) -> None:
    """The checker of these tests' type hints draws from Python's generator: what it goes on from must still count."""
    after = []
    for state in (1, 2):
        random.seed(state)
        before = states()
        models.build(Architecture({**SMALL, "n_layers": 1, **change}), seed=3)
        models.build(architectures.minimal(4, 5), seed=3)
        after.append(states())
        assert all(after[-1][name] == before[name] for name in ("numpy", "torch"))
    assert after[0]["random"] != after[1]["random"]


@pytest.mark.slow
def test_building_draws_nothing_from_any_global_generator() -> None:
    """In a process of its own, which checks no type hints."""
    built = subprocess.run([sys.executable, "-c", BUILDS], check=True, capture_output=True, text=True)
    assert built.stdout == "[True, True, True]\n"


@pytest.mark.parametrize("made", [architectures.minimal(4, 5), architectures.full(4, 5)], ids=["minimal", "full"])
def test_a_seed_gives_the_same_weights_whatever_the_global_generator(made: Architecture) -> None:
    one = models.weights(models.build(made, seed=3))
    torch.manual_seed(99)
    again, other = (models.weights(models.build(made, seed=seed)) for seed in (3, 4))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"no_such_field": 1}, "refuses this config: .*no_such_field"),
        ({"use_local_attn": True}, "refuses this config: .*(window_size must be specified|leave it out)"),
        ({"positional_embedding_type": "none"}, r"one of standard, .* got 'none'. A .*WithoutPositions"),
        ({"act_fn": "no_such_function"}, "refuses this config: .*no_such_function"),
    ],
    ids=str,
)
def test_a_config_that_transformer_lens_refuses_is_a_value_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        models.build(Architecture({**SMALL, "n_layers": 1, **change}))


@pytest.mark.skipif(HOOKED, reason="a HookedTransformer has all of these")
@pytest.mark.parametrize("change", NOT_IN_4.values(), ids=NOT_IN_4.keys())
def test_what_transformer_lens_4_would_ignore_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"TransformerLens refuses .*take transformer-lens 3.9 \(pip install"):
        models.build(Architecture({**SMALL, "n_layers": 1, **change}))


def test_without_positions_the_order_of_the_past_does_not_count() -> None:
    made = Architecture({**SMALL, "n_layers": 1}, WithoutPositions(GaussianInit(0.4)))
    built, backwards = models.build(made), TOKENS.clone()
    backwards[:, :-1] = TOKENS[:, :-1].flip(1)
    one, other = (models.clean_pass(built, tokens, ())[0][:, -1] for tokens in (TOKENS, backwards))
    torch.testing.assert_close(one, other, atol=SAME, rtol=0)
    assert not models.parameters(built)["pos_embed.W_pos"].requires_grad


@dataclasses.dataclass(frozen=True)
class Scaled(AbstractInit):
    """The residual stream is multiplied by a parameter of the hook point on it."""

    hook: str = "blocks.0.hook_resid_post"

    def initial(self, cfg: Config, shapes: Shapes, generator: torch.Generator) -> InitialWeights:
        drawn = GaussianInit(0.4).initial(cfg, shapes, generator)
        tensors = {**drawn.tensors, f"{self.hook}.w": torch.full((cfg.d_model,), 2.0)}
        return InitialWeights(tensors, hooks={self.hook: lambda x, hook: x * hook.w})


@pytest.mark.skipif(not HOOKED, reason="a native bridge knows its own parameters alone")
def test_a_parameter_of_a_hook_point_is_one_of_the_model() -> None:
    config = {**SMALL, "n_layers": 1, "normalization_type": None}
    made, name = Architecture(config, Scaled()), "blocks.0.hook_resid_post.w"
    built, plain = models.build(made, seed=3), models.build(Architecture(config, GaussianInit(0.4)), seed=3)
    state = models.weights(built)
    assert state.keys() - models.weights(plain).keys() == {name}
    models.load(
        plain,
        {**{key: weight for key, weight in state.items() if key != name}, "unembed.W_U": 2 * state["unembed.W_U"]},
    )
    torch.testing.assert_close(built(TOKENS), plain(TOKENS), atol=SAME, rtol=SAME)
    built(TOKENS).square().sum().backward()
    gradient = models.parameters(built)[name].grad
    assert gradient is not None
    assert gradient.abs().min() > 0
    models.load(built, {**state, name: torch.zeros(12)})
    torch.testing.assert_close(built(TOKENS), state["unembed.b_U"].expand(6, 8, 5), atol=0, rtol=0)
    with pytest.raises(ValueError, match=f"do not fit the model: {name}: missing"):
        models.load(built, {key: weight for key, weight in state.items() if key != name})


@pytest.mark.skipif(not HOOKED, reason="a native bridge knows its own parameters alone")
def test_a_parameter_of_no_hook_point_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Scaled does not fit this model: the model has no 'blocks.0.hook_nothing'"):
        models.build(Architecture({**SMALL, "n_layers": 1}, Scaled("blocks.0.hook_nothing")))


def test_without_positions_needs_learned_ones() -> None:
    made = Architecture({**SMALL, "n_layers": 1, "positional_embedding_type": "rotary"}, WithoutPositions())
    with pytest.raises(ValueError, match=r'needs positional_embedding_type = "standard", .* got "rotary"'):
        models.build(made)


def test_a_whole_config_of_a_transformer_lens_model_builds() -> None:
    whole = models.build(Architecture({**SMALL, "n_layers": 1})).cfg.to_dict()
    assert models.build(Architecture(whole)).cfg.to_dict() == whole


@pytest.mark.skipif(not HOOKED, reason="native bridges have no such config")
def test_a_model_in_half_precision_is_measured_in_float32_as_its_config_is() -> None:
    half = models.build(Architecture({**SMALL, "n_layers": 1, "seed": 3})).to(torch.bfloat16)  # type: ignore[arg-type]  # takes both
    assert {weight.dtype for weight in models.weights(half).values()} == {torch.bfloat16}
    assert models.described(half) == architecture_from(half.cfg)
    assert {weight.dtype for weight in models.weights(models.build(models.described(half))).values()} == {torch.float32}


@pytest.mark.parametrize(
    ("change", "init", "message"),
    [
        ({"attn_scale": 0.0}, GaussianInit(), "attn_scale = 0, by which scores are divided"),
        ({"attn_only": True, "parallel_attn_mlp": True}, GaussianInit(), "needs: set one of the two"),
        ({"d_mlp": 0}, GaussianInit(), "d_mlp, the width of the MLPs, is at least 1, got 0"),
        ({"positional_embedding_type": "rotary", "rotary_dim": 3}, GaussianInit(), "rotary_dim is even"),
        (
            {"n_key_value_heads": 2, "n_heads": 2, "d_head": 11, "d_model": 16},
            OneHotInit(),
            "OneHotInit does not fit this model",
        ),
        ({"normalization_type": "X"}, GaussianInit(), "refuses this config"),
    ],
)
def test_a_config_that_makes_no_model_is_refused_in_a_line(
    change: dict[str, object], init: AbstractInit, message: str
) -> None:
    sizes = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}
    with pytest.raises(ValueError, match=message) as refused:
        models.build(Architecture({**sizes, **change}, init))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, "bfloat16", None])
def test_a_model_that_ran_in_half_precision_is_computed_in_single(dtype: object) -> None:
    sizes = {"n_layers": 1, "d_model": 8, "n_heads": 2, "d_head": 4, "n_ctx": 6, "d_vocab": 5}
    model = models.build(Architecture({**sizes, "dtype": dtype}))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def described(kind: str, hugging_face: Callable[..., nn.Module]) -> Architecture:
    if kind in CONFIGS:
        config = {name: value for name, value in CONFIGS[kind].items() if name != "without positions"}
        return Architecture({**CONFIG, "act_fn": "relu", **config})
    return models.described(hugging_face(kind))


def held(model: models.Model) -> dict[str, Tensor]:
    """Return all that a model holds, buffers that no file has among it.

    Fused queries, keys and values are left out, which a bridge computes with in parts, and has no file of.
    """
    module: Any = getattr(model, "original_model", model)
    whole = {**dict(module.named_parameters()), **dict(module.named_buffers()), **model.state_dict()}
    return {name: weight for name, weight in whole.items() if ".qkv." not in name}


@pytest.mark.one_of(4)
@pytest.mark.parametrize("kind", [*CONFIGS, *BRIDGED, *ALSO])
def test_a_loaded_model_is_the_one_that_was_drawn(kind: str, hugging_face: Callable[..., nn.Module]) -> None:
    made = described(kind, hugging_face)
    drawn = models.build(made, seed=3)
    other = models.holding(made, models.weights(drawn))
    expected, found = held(drawn), held(other)
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name].nan_to_num(), weight.nan_to_num()) for name, weight in expected.items())
    tokens = torch.arange(6)[None] % made.n_outputs
    with torch.inference_mode():
        assert torch.equal(other(tokens), drawn(tokens))


def test_the_global_generator_is_not_touched(hugging_face: Callable[..., nn.Module]) -> None:
    plain = hugging_face("GPT2")
    both = [described("LN and MLP", hugging_face), models.described(plain)]
    states = [models.weights(models.build(both[0])), plain.state_dict()]
    before = torch.get_rng_state()
    for made, state in zip(both, states, strict=True):
        models.build(made)
        models.holding(made, state)
    assert torch.equal(torch.get_rng_state(), before)
