"""Effects of heads on a behaviour: those of TransformerLens's own patching and attribution, on models of every kind."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformer_lens import ActivationCache, patching

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.batch import Prompts
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.measurement.engine import measure
from stagewise.probes import BehaviourHeads
from stagewise.table import select
from stagewise.task import Batch
from tests.models.small_families import VOCAB, family_of

SAME = 1e-4
"""Difference of effects, in nats, that sums in another order explain."""

FAMILIES = ("gpt2", "llama", "mistral", "qwen3", "gemma2", "gpt_neox", "phi", "olmo")
"""With grouped queries, soft caps, norms beside and behind attention, and norms that are not folded."""

SIZES = {"n_layers": 2, "n_heads": 4, "d_model": 32, "d_head": 8, "d_mlp": 24, "n_ctx": 10, "d_vocab": VOCAB}
NATIVE: dict[str, dict[str, Any]] = {
    "layer norm": {"act_fn": "gelu", "normalization_type": "LN"},
    "rotary, RMS, grouped": {
        "act_fn": "silu", "normalization_type": "RMS", "positional_embedding_type": "rotary", "rotary_dim": 8,
        "n_key_value_heads": 2, "gated_mlp": True,
    },
    "no norm": {"act_fn": "relu", "normalization_type": None},
}  # fmt: skip


def rows(lengths: tuple[int, ...] = (0, 0, 0, 0, 0, 0)) -> list[dict[str, Any]]:
    """Prompts of numbers: a, b, a again, whose right answer is b; the corrupted ones hold c for the second a."""
    made = []
    for number, more in enumerate(lengths):
        a, b, c = (1 + (number * k + k) % 30 for k in (3, 7, 11))
        start = " ".join(map(str, [33, *[34] * more]))
        prompt, corrupted, neutral = (
            f"{start} {a} 31 {b} 32 {a} 35",
            f"{start} {a} 31 {b} 32 {c} 35",
            f"{start} {a} 36 {b} 32 {a} 35",
        )
        made.append(
            {"prompt": prompt, "right": str(b), "wrong": str(a), "corrupted": corrupted, "neutral": neutral, "S2": -2}
        )
    return made


def prompts(lengths: tuple[int, ...] = (0, 0, 0, 0, 0, 0)) -> Prompts:
    return Batch.from_pairs(rows(lengths), lambda text: list(map(int, text.split())))


def measured(model: Any, batch: Prompts, probe: BehaviourHeads, **options: Any) -> pd.DataFrame:
    return measure(open_series([(0, model)]), [probe], batch, resamples=2, progress=False, **options)


def by_head(table: pd.DataFrame, quantity: str, **labels: Any) -> np.ndarray:
    own = select(table, "BehaviourHeads", quantity, **labels)
    return own.pivot(index="layer", columns="head", values="value").to_numpy(float)


def difference(batch: Prompts, logits: torch.Tensor) -> torch.Tensor:
    last = logits[torch.arange(len(batch)), batch.places["END"]]
    return (last.gather(1, batch.right) - last.gather(1, batch.wrong)).mean()


def expected_denoising(model: Any, batch: Prompts) -> np.ndarray:
    """TransformerLens's own patching of each head, less what it starts from."""
    corrupted = batch.others["corrupted"].tokens
    with torch.no_grad():
        _, clean = model.run_with_cache(batch.tokens)
        patched = patching.get_act_patch_attn_head_out_all_pos(
            model, corrupted, clean, lambda logits: difference(batch, logits)
        )
        return np.asarray((patched - difference(batch, model(corrupted))).cpu(), float)


def native(name: str) -> Any:
    return models.build(Architecture({**SIZES, **NATIVE[name]}, GaussianInit(0.2)), seed=2)


@pytest.mark.parametrize("name", NATIVE)
def test_patched_heads_are_those_of_transformerlens(name: str) -> None:
    model, batch = native(name), prompts()
    table = measured(model, batch, BehaviourHeads(("END", "S2")))
    found = by_head(table, "patched", kind="denoising", place="all positions")
    np.testing.assert_allclose(found, expected_denoising(model, batch), atol=SAME)
    assert np.abs(found).max() > 100 * SAME


@pytest.mark.parametrize("name", FAMILIES)
def test_patched_heads_of_bridges_are_those_of_transformerlens(name: str) -> None:
    plain = family_of(name).small()
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in plain.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    architecture = models.described(plain)
    built = models.build(architecture)
    models.load(built, plain.state_dict())
    batch = prompts()
    table = measured(plain, batch, BehaviourHeads())
    found = by_head(table, "patched", kind="denoising", place="all positions")
    np.testing.assert_allclose(found, expected_denoising(built, batch), atol=SAME)
    assert np.abs(found).max() > 10 * SAME
    if name in PARTS:
        np.testing.assert_allclose(by_head(table, "direct"), written_at_the_end(built, plain, batch, name), atol=SAME)


PARTS = {
    "gpt2": ("transformer.h.{}.attn.c_proj", "transformer.ln_f", ""),
    "llama": ("model.layers.{}.self_attn.o_proj", "model.norm", ""),
    "qwen3": ("model.layers.{}.self_attn.o_proj", "model.norm", ""),
    "gpt_neox": ("gpt_neox.layers.{}.attention.dense", "gpt_neox.final_layer_norm", ""),
    "gemma2": ("model.layers.{}.self_attn.o_proj", "model.norm", "model.layers.{}.post_attention_layernorm"),
}
"""Family -> the projection of its heads' outputs, its final norm, and a norm of what attention writes."""


def written_at_the_end(model: Any, plain: Any, batch: Prompts, name: str) -> np.ndarray:
    """Each head's part of the difference, by the parameters of the plain model, the scale of its norms held."""
    projection, final, behind = PARTS[name]
    end, shift = int(batch.places["END"][0]), float(name == "gemma2")
    with torch.no_grad():
        _, cache = model.run_with_cache(batch.tokens)
        n_layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
        residual = cache[f"blocks.{n_layers - 1}.hook_resid_post"][:, end]
        unembedding = plain.get_output_embeddings().weight
        direction = unembedding[batch.right[:, 0]] - unembedding[batch.wrong[:, 0]]
        effects = []
        for layer in range(n_layers):
            module = plain.get_submodule(projection.format(layer))
            weight = module.weight if type(module).__name__ == "Conv1D" else module.weight.T
            z = cache[f"blocks.{layer}.attn.hook_z"][:, end].reshape(len(batch), n_heads, -1)
            parts = torch.einsum("bhd,hdm->hbm", z, weight.view(n_heads, z.shape[2], -1))
            if behind:
                parts = normed(parts, parts.sum(0), plain.get_submodule(behind.format(layer)), shift)
            parts = normed(parts, residual, plain.get_submodule(final), shift)
            effects.append((parts * direction).sum(-1).mean(-1))
    return torch.stack(effects).numpy()


def normed(parts: torch.Tensor, whole: torch.Tensor, norm: Any, shift: float) -> torch.Tensor:
    if isinstance(norm, torch.nn.LayerNorm):
        parts, whole = parts - parts.mean(-1, keepdim=True), whole - whole.mean(-1, keepdim=True)
    eps = float(getattr(norm, "variance_epsilon", getattr(norm, "eps", 0.0)))
    scale: torch.Tensor = (norm.weight + shift) / (whole.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return parts * scale


@pytest.mark.hooked_only("`logit_attrs` knows a HookedTransformer's stack of heads")
@pytest.mark.parametrize("name", NATIVE)
def test_direct_effects_are_those_of_transformerlens(name: str) -> None:
    model, batch = native(name), prompts()
    found = by_head(measured(model, batch, BehaviourHeads()), "direct")
    model.set_use_attn_result(True)
    with torch.no_grad():
        _, cache = model.run_with_cache(batch.tokens)
        assert isinstance(cache, ActivationCache)
        end = int(batch.places["END"][0])
        heads = cache.stack_head_results(layer=-1, pos_slice=end)
        attributed = cache.logit_attrs(heads, batch.right[:, 0], incorrect_tokens=batch.wrong[:, 0], pos_slice=end)
    np.testing.assert_allclose(found, attributed.mean(-1).view(2, 4), atol=SAME)
    assert np.abs(found).max() > 100 * SAME


def test_ablations_are_by_means_over_prompts_of_one_length_at_each_position() -> None:
    model, batch = native("layer norm"), prompts((0, 0, 0, 1, 1))
    table = measured(model, batch, BehaviourHeads())
    changes = []
    with torch.no_grad():
        start = difference(batch, model(batch.tokens))
        z = model.run_with_cache(batch.tokens)[1]["blocks.1.attn.hook_z"]
        for head in range(4):
            replaced = z.clone()
            for rows in (slice(0, 3), slice(3, 5)):
                replaced[rows, :, head] = z[rows, :, head].mean(0)
            hook = [("blocks.1.attn.hook_z", lambda _, hook, replaced=replaced: replaced)]
            changes.append(float(start - difference(batch, model.run_with_hooks(batch.tokens, fwd_hooks=hook))))
    np.testing.assert_allclose(by_head(table, "ablated", kind="mean")[1], changes, atol=SAME)


def test_a_place_is_patched_alone_and_all_places_of_a_changed_token_are_the_whole() -> None:
    model, batch = native("no norm"), prompts()
    table = measured(model, batch, BehaviourHeads(("END", "S2")))
    whole, end, s2 = (
        by_head(table, "patched", kind="noising", place=place) for place in ("all positions", "END", "S2")
    )
    # In the last layer nothing behind attention reads what S2 holds, and only END is read.
    np.testing.assert_allclose(end[-1], whole[-1], atol=SAME)
    np.testing.assert_allclose(s2[-1], 0, atol=SAME)
    np.testing.assert_allclose(whole, by_head(table, "effect"), atol=SAME)


def test_a_neutral_prompt_is_patched_from_as_a_corrupted_one() -> None:
    model, batch = native("layer norm"), prompts()
    others = {**batch.others, "neutral": batch.others["corrupted"]}
    table = measured(model, dataclasses.replace(batch, others=others), BehaviourHeads((), ("noising", "neutral")))
    noising, neutral = (by_head(table, "patched", kind=kind) for kind in ("noising", "neutral"))
    np.testing.assert_array_equal(noising, neutral)


def test_a_control_is_the_mean_over_the_other_heads_of_the_layer() -> None:
    table = measured(native("no norm"), prompts(), BehaviourHeads())
    effect, control = by_head(table, "effect"), by_head(table, "control", kind="effect")
    np.testing.assert_allclose(control[:, 0], effect[:, 1:].mean(1), atol=SAME)


def test_estimates_are_exact_where_the_difference_is_linear_in_a_head_and_the_largest_are_patched() -> None:
    model, batch = native("no norm"), prompts()
    exact, large = measured(model, batch, BehaviourHeads()), measured(model, batch, BehaviourHeads(most=7, top=3))
    estimated, effect = by_head(large, "estimated_effect"), by_head(exact, "effect")
    assert np.corrcoef(estimated.ravel(), effect.ravel())[0, 1] > 0.8
    patched = select(large, "BehaviourHeads", "patched", kind="noising", place="all positions")
    assert len(patched) == 3
    for row in patched.to_dict("records"):
        assert row["value"] == pytest.approx(effect[row["layer"], row["head"]], abs=SAME)


@pytest.mark.parametrize("options", [{"by_hooks": True}, {"memory": 1}])
def test_hooks_and_slices_give_the_same(options: dict[str, Any]) -> None:
    model, batch, probe = native("layer norm"), prompts(), BehaviourHeads(("END",), most=7)
    one, other = (measured(model, batch, probe, **each) for each in ({}, options))
    np.testing.assert_allclose(one["value"].to_numpy(float), other["value"].to_numpy(float), atol=SAME)


def test_whole_answers_have_no_heads_patched() -> None:
    batch = Batch.from_pairs(rows(), lambda text: list(map(int, text.split())), summed=True)
    with pytest.raises(ValueError, match="heads are patched where first tokens of answers are compared"):
        measured(native("no norm"), batch, BehaviourHeads())
