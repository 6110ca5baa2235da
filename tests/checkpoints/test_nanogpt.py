"""nanoGPT's checkpoints: opened without a config, and computed as nanoGPT computes them."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from stagewise import models
from stagewise.checkpoints.series import open_series

SIZES = {"n_layer": 2, "n_head": 4, "n_embd": 32, "block_size": 16, "vocab_size": 20}
LAYERS, HEADS, WIDTH, LENGTH, VOCABULARY = SIZES.values()
TOKENS = torch.randint(VOCABULARY, (3, LENGTH), generator=torch.Generator().manual_seed(0))


def weights(seed: int, *, bias: bool) -> dict[str, Tensor]:
    """Return random weights by nanoGPT's names, matrices as [out, in]."""
    generator, prefix = torch.Generator().manual_seed(seed), "transformer."
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}wte.weight": (VOCABULARY, WIDTH),
        f"{prefix}wpe.weight": (LENGTH, WIDTH),
    }
    for layer in range(LAYERS):
        block = f"{prefix}h.{layer}."
        matrices = {"attn.c_attn": (3, 1), "attn.c_proj": (1, 1), "mlp.c_fc": (4, 1), "mlp.c_proj": (1, 4)}
        for name, (outputs, inputs) in matrices.items():
            shapes[f"{block}{name}.weight"] = (outputs * WIDTH, inputs * WIDTH)
        shapes |= {f"{block}{norm}.weight": (WIDTH,) for norm in ("ln_1", "ln_2")}
    shapes[f"{prefix}ln_f.weight"] = (WIDTH,)
    if bias:
        owners = [name for name in shapes if not name.endswith(("wte.weight", "wpe.weight"))]
        shapes |= {name.replace(".weight", ".bias"): shapes[name][:1] for name in owners}
    state = {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {**state, "lm_head.weight": state[f"{prefix}wte.weight"]}


def computed(state: dict[str, Tensor]) -> Tensor:
    """Return the logits as nanoGPT's forward pass computes them."""

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,), state[f"{name}.weight"], state.get(f"{name}.bias"), 1e-5)

    x = state["transformer.wte.weight"][TOKENS] + state["transformer.wpe.weight"]
    for layer in range(LAYERS):
        block = f"transformer.h.{layer}."
        parts = linear(f"{block}attn.c_attn", norm(f"{block}ln_1", x)).split(WIDTH, -1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + linear(f"{block}attn.c_proj", z)
        x = x + linear(f"{block}mlp.c_proj", F.gelu(linear(f"{block}mlp.c_fc", norm(f"{block}ln_2", x))))
    return linear("lm_head", norm("transformer.ln_f", x))


def save(path: Path, state: dict[str, Tensor], step: int, prefix: str = "", **more: Any) -> None:
    """Write what nanoGPT's script saves."""
    arguments = {**SIZES, "bias": "transformer.ln_f.bias" in state, "dropout": 0.2, **more}
    model = {f"{prefix}{name}": weight for name, weight in state.items()}
    rest = {
        "optimizer": {"state": {}},
        "iter_num": step,
        "best_val_loss": torch.tensor(2.5),
        "config": {"out_dir": "out"},
    }
    torch.save({"model": model, "model_args": arguments, **rest}, path)


@pytest.mark.parametrize("bias", [False, True])
def test_a_series_needs_no_config_and_predicts_what_nanogpt_does(tmp_path: Path, bias: bool) -> None:
    states = {step: weights(step, bias=bias) for step in (0, 250)}
    for step, state in states.items():
        save(tmp_path / f"ckpt_{step}.pt", state, step, prefix="_orig_mod.")  # as torch.compile names them
    series = open_series(tmp_path)
    assert (series.steps, series.architecture.n_heads, series.architecture.config["n_ctx"]) == ((0, 250), HEADS, LENGTH)
    model = models.build(series.architecture)
    for step, state in states.items():
        models.load(model, series.weights(step))
        predicted, _ = models.clean_pass(model, TOKENS, hooks=())
        torch.testing.assert_close(predicted, computed(state).log_softmax(-1), atol=1e-5, rtol=1e-5)


def test_an_unembedding_of_its_own_is_read(tmp_path: Path) -> None:
    state = {**weights(0, bias=False), "lm_head.weight": weights(1, bias=False)["lm_head.weight"]}
    save(tmp_path / "ckpt_0.pt", state, 0, prefix="_orig_mod.")
    series = open_series(tmp_path)
    model = models.build(series.architecture)
    models.load(model, series.weights(0))
    predicted, _ = models.clean_pass(model, TOKENS, hooks=())
    torch.testing.assert_close(predicted, computed(state).log_softmax(-1), atol=1e-5, rtol=1e-5)


def test_a_variant_of_nanogpt_is_refused_by_the_name_of_what_it_adds(tmp_path: Path) -> None:
    save(tmp_path / "ckpt_0.pt", weights(0, bias=False), 0, use_rmsnorm=True)
    with pytest.raises(ValueError, match=r"ckpt_0.pt: its model_args name use_rmsnorm, which nanoGPT's model does not"):
        open_series(tmp_path)


def test_a_script_that_saves_no_sizes_is_asked_for_them(tmp_path: Path) -> None:
    torch.save({"model": weights(0, bias=False), "model_args": {"width": 32}}, tmp_path / "ckpt_0.pt")
    with pytest.raises(ValueError, match=r"nothing says which model the weights .* are named transformer.wte.weight, "):
        open_series(tmp_path)
