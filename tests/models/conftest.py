"""Models of every kind, each with what computes the same without any hook; and the kinds by which tests run."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit, WithoutPositions
from stagewise.intervention import AblateHead, Edit, RestrictContext
from stagewise.models._edits import in_context
from tests import plain_torch

HOOKED = models.has_hooked_transformer()
"""A HookedTransformer, or what transformer-lens 4 has in its place: a native bridge."""

CONFIG = {"n_layers": 3, "d_model": 16, "d_head": 4, "n_heads": 4, "n_ctx": 9, "d_vocab": 7, "d_mlp": 12, "eps": 1e-5}
ROTARY = {"positional_embedding_type": "rotary"}
CONFIGS: dict[str, dict[str, Any]] = {
    "attention only": {"attn_only": True, "normalization_type": None},
    "LN and MLP": {"act_fn": "gelu"},
    "LNPre": {"normalization_type": "LNPre"},
    "RMS norm": {"normalization_type": "RMS"},
    "RMSPre": {"normalization_type": "RMSPre"},
    "rotary": ROTARY,
    "half rotary": {**ROTARY, "d_head": 8, "rotary_dim": 4},
    "adjacent rotary": {**ROTARY, "rotary_adjacent_pairs": True},
    "grouped queries": {"n_key_value_heads": 2},
    "as Llama": {**ROTARY, "normalization_type": "RMS", "gated_mlp": True, "act_fn": "silu", "n_key_value_heads": 2},
    "soft caps": {"attn_scores_soft_cap": 1.0, "output_logits_soft_cap": 2.0},
    "no positions": {"without positions": True},
    "wide output": {"d_vocab_out": 11},
    "gated": {"gated_mlp": True, "act_fn": "silu"},
    "one key-value head": {"n_key_value_heads": 1},
    "shortformer": {"positional_embedding_type": "shortformer"},
}
if HOOKED:
    CONFIGS |= {
        "alibi": {"positional_embedding_type": "alibi"},
        "parallel": {"parallel_attn_mlp": True},
        "as GPT-NeoX": {**ROTARY, "d_head": 8, "rotary_dim": 4, "parallel_attn_mlp": True, "act_fn": "gelu"},
        "experts": {"num_experts": 2, "experts_per_token": 1, "gated_mlp": True},
        "norms behind too": {"normalization_type": "RMS", "use_normalization_before_and_after": True},
        "local attention": {"use_local_attn": True, "window_size": 5, "attn_types": ["local", "global", "local"]},
    }
BRIDGED = ("GPT2", "GPTNeoX", "Llama", "Gemma2", "GPTJ")
ALSO = ("Bloom", "OPT", "Mixtral", "Mistral")
"""ALiBi; a kernel that shows no pattern unless it is the eager one; experts that a bridge's state dict leaves out; a
window that the config alone names."""

NO_REFERENCE = {"experts"}
TRUNCATED = ("attention only", "LN and MLP", "LNPre", "parallel", "gated", "one key-value head")

EDITS: dict[str, Edit] = {
    "context": (RestrictContext(2),),
    "zero": (AblateHead(1, 0),),
    "mean": (AblateHead(2, 1, "mean"),),
    "resample": (AblateHead(1, 2, "resample"),),
    "two layers": (AblateHead(2, 0), AblateHead(1, 1, "mean")),
    "context and head": (AblateHead(1, 0), RestrictContext(3)),
}

Make = Callable[..., "Subject"]


def _each(kinds: object) -> Any:
    @pytest.fixture(params=list(kinds))  # type: ignore[call-overload]
    def kind(request: pytest.FixtureRequest) -> str:
        return str(request.param)

    return kind


any_kind = _each([*CONFIGS, *BRIDGED, *ALSO])
kind = _each([each for each in (*CONFIGS, *BRIDGED) if each not in NO_REFERENCE])
kind_or_more = _each([each for each in (*CONFIGS, *BRIDGED, *ALSO) if each not in NO_REFERENCE])
config_kind = _each(CONFIGS)
added_as_written = _each([each for each in CONFIGS if each != "norms behind too"])
"""What attention writes is what it adds to the residual stream."""

plain_config_kind = _each([each for each in CONFIGS if each not in NO_REFERENCE])
bridged_kind = _each(BRIDGED)
truncated_kind = _each([each for each in TRUNCATED if each in CONFIGS])


@pytest.fixture(params=EDITS.values(), ids=list(EDITS))
def any_edit(request: pytest.FixtureRequest) -> Edit:
    edit: Edit = request.param
    return edit


def of_all(predictions: Tensor) -> tuple[Tensor, Tensor]:
    """Return predictions [batch pos token] as scored ones, one a row, and that all positions are scored."""
    return predictions.flatten(0, 1), torch.ones(predictions.shape[:2], dtype=torch.bool)


@dataclasses.dataclass(frozen=True, eq=False)
class Subject:
    """A model of some kind, tokens for it, and what computes the same without any hook.

    `plain(context, without)` gives log-probabilities where every layer sees `context` keys, and head (layer, head)
    writes nothing.
    """

    built: models.Model
    tokens: Tensor
    plain: Callable[..., Tensor]

    @property
    def length(self) -> int:
        return self.tokens.shape[1]

    def clean(self) -> Tensor:
        return models.clean_pass(self.built, self.tokens, ())[0]

    def edited(self, edit: Edit) -> Tensor:
        """The edited pass, from the activations of a clean one."""
        _, activations = models.clean_pass(self.built, self.tokens, models.hooks_for(self.built, edit))
        return models.edited_pass(self.built, edit, activations)

    def hooked(self, name: str, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The whole pass with one activation replaced: TransformerLens alone."""
        with torch.no_grad():
            logits: Tensor = self.built.run_with_hooks(self.tokens, fwd_hooks=[(name, lambda x, hook: change(x))])
        return logits.log_softmax(-1)


@pytest.fixture(scope="session")
def subject(hugging_face: Callable[..., nn.Module]) -> Make:
    """Make a model of a kind with random weights, biases too. It is made once: not to be changed."""

    @functools.cache
    def make(kind: str, n_layers: int | None = None, scale: float = 1.0) -> Subject:
        if kind in CONFIGS:
            return from_config(CONFIGS[kind], n_layers or 3, scale)
        layers = {} if n_layers is None else {"n_layer" if kind in ("GPT2", "GPTJ") else "num_hidden_layers": n_layers}
        return bridged(hugging_face(kind, **layers))

    return make


def from_config(change: dict[str, Any], n_layers: int, scale: float) -> Subject:
    gaussian = GaussianInit(0.2 if change.get("normalization_type", "LN") is None else 0.5)  # logits of order one
    init = WithoutPositions(gaussian) if "without positions" in change else gaussian
    fields = {name: value for name, value in change.items() if name != "without positions"}
    config = {"act_fn": "relu", **CONFIG, **fields, "n_layers": n_layers}
    built, generator = models.build(Architecture(config, init)), torch.Generator().manual_seed(1)
    state = {
        name: weight + (0.2 * torch.randn(weight.shape, generator=generator) if "W_pos" not in name else 0)
        for name, weight in sorted(models.weights(built).items())
    }
    state |= {name: scale * weight for name, weight in state.items() if name.endswith((".W_Q", ".W_K"))}
    models.load(built, state)
    tokens = torch.randint(7, (5, 9), generator=torch.Generator().manual_seed(0))

    def plain(context: int = 99, without: tuple[int, int] | None = None) -> Tensor:
        logits: Tensor = plain_torch.plain(state, config, tokens, context, without)
        return logits

    return Subject(built, tokens, plain)


def bridged(hf: nn.Module) -> Subject:
    """A bridge with the weights of a Hugging Face model, and Hugging Face's own pass with its own additive mask."""
    built = models.build(models.described(hf))
    models.load(built, hf.state_dict())
    tokens = torch.randint(32, (5, 12), generator=torch.Generator().manual_seed(0))

    def plain(context: int = 99, without: tuple[int, int] | None = None) -> Tensor:
        changed = copy.deepcopy(hf)
        if without is not None:
            weight, rows = projections(changed)[without[0]]
            with torch.no_grad():
                (weight if rows else weight.T)[8 * without[1] : 8 * without[1] + 8] = 0.0
        named = {"attention_mask": _additive_mask(context)} if context < 12 else {}
        with torch.no_grad():
            logits: Tensor = changed(tokens, **named).logits
            return logits.log_softmax(-1)

    return Subject(built, tokens, plain)


def _additive_mask(context: int) -> Tensor:
    mask = torch.zeros(12, 12).masked_fill(~in_context(12, 12, context), torch.finfo(torch.float32).min)
    return mask.expand(5, 1, -1, -1)


def projections(plain: nn.Module) -> list[tuple[Tensor, bool]]:
    """The output weights of attention in each layer, and whether their rows are the inputs."""
    found = {"c_proj.weight": True, "dense.weight": False, "o_proj.weight": False, "out_proj.weight": False}
    return [
        (weight, rows)
        for name, weight in plain.named_parameters()
        for ending, rows in found.items()
        if name.endswith(ending) and ".mlp." not in name
    ]


@pytest.fixture
def bridge_of() -> Make:
    """Put a bridge around a Hugging Face model, which stays as it is."""
    return bridged


@pytest.fixture
def additive_mask() -> Callable[[int], Tensor]:
    """Make Hugging Face's own mask of a context, for five sequences of twelve tokens."""
    return _additive_mask
