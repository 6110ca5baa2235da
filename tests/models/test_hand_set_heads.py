"""A previous-token head and an induction head set by hand in every architecture: the scores find them alone."""

import dataclasses
from collections.abc import Callable, Mapping

import pandas as pd
import pytest
import torch
from torch import Tensor

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionTo
from stagewise.table import select
from stagewise.tasks import RepeatedTokens

TOKENS, HEADS, SHARP = 24, 4, 300.0
# Position 0 has no previous token and copies its own: without a BOS there, the first token seems to precede itself.
TASK = RepeatedTokens(TOKENS, length=12, bos=0)
WIDTH = HEADS * TOKENS
POSITIONS = TASK.n_ctx
CIRCUIT = ("Q0", "K0", "V0", "O0", "Q1", "K1")
"""The residual stream holds the token, the position and the previous token, each one-hot, and room to spare."""


def circuit() -> dict[str, Tensor]:
    """W_E, W_pos, and head 1 of layer 0 and head 2 of layer 1 [in, d_head]; d_head is the number of tokens."""
    token, position, previous = (torch.zeros(WIDTH, TOKENS) for _ in range(3))
    token[:TOKENS] = torch.eye(TOKENS)
    position[TOKENS : 2 * TOKENS] = torch.eye(TOKENS)
    previous[2 * TOKENS : 3 * TOKENS] = torch.eye(TOKENS)
    return {
        "W_E": token.T,
        "W_pos": position.T[:POSITIONS],
        "Q0": SHARP * position.roll(-1, 1),  # position t asks for key t - 1
        "K0": position,
        "V0": token,
        "O0": previous.T,
        "Q1": SHARP * token,  # the token asks for keys that it precedes
        "K1": previous,
    }


def native() -> tuple[Architecture, Mapping[str, Tensor]]:
    config = {"n_layers": 2, "d_model": WIDTH, "d_head": TOKENS, "n_heads": HEADS, "n_ctx": POSITIONS}
    made = Architecture({**config, "d_vocab": TOKENS, "attn_only": True, "normalization_type": None})
    state, parts = model.weights(model.build(made)), circuit()
    state |= {"embed.W_E": parts["W_E"], "pos_embed.W_pos": parts["W_pos"]}
    for name in ("W_O", "W_V"):
        state[f"blocks.0.attn.{name}"] = torch.zeros_like(state[f"blocks.0.attn.{name}"])
    for name in "QKVO":
        state[f"blocks.0.attn.W_{name}"][1] = parts[f"{name}0"]
    for name in "QK":
        state[f"blocks.1.attn.W_{name}"][2] = parts[f"{name}1"]
    return made, state


def gpt2() -> tuple[Architecture, Mapping[str, Tensor]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_positions": POSITIONS, "n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, "vocab_size": TOKENS}
    torch.manual_seed(0)
    plain = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    state, parts = {name: weight.detach().clone() for name, weight in plain.named_parameters()}, circuit()
    state |= {"transformer.wte.weight": parts["W_E"], "transformer.wpe.weight": parts["W_pos"]}
    for layer in range(2):  # an MLP that writes nothing leaves the one-hot blocks as they are
        state[f"transformer.h.{layer}.mlp.c_proj.weight"].zero_()
    state["transformer.h.0.attn.c_proj.weight"].zero_()
    state["transformer.h.0.attn.c_proj.weight"][TOKENS : 2 * TOKENS] = parts["O0"]
    for layer, head, names in ((0, 1, "QKV"), (1, 2, "QK")):
        for name in names:
            start = "QKV".index(name) * WIDTH + head * TOKENS
            state[f"transformer.h.{layer}.attn.c_attn.weight"][:, start : start + TOKENS] = parts[f"{name}{layer}"]
    return Architecture(plain.config), state


def rotary_circuit(d_model: int, d_head: int, turned: int) -> dict[str, Tensor]:
    """The same two heads where positions turn queries and keys, without a bias: a constant feature takes its place.

    Turned by the position, q . k of two constant vectors depends on the distance alone; a key turned one position
    ahead peaks at distance 1, and a pair that hardly turns takes a constant off, so that a soft cap does not matter.
    """
    frequencies = 10_000 ** (-2 * torch.arange(turned // 2) / turned)
    fast = torch.nonzero(frequencies > 0.09)[:, 0]
    distances = torch.arange(POSITIONS)
    peaks = torch.cos(frequencies[fast, None] * (1 - distances)).sum(0)  # by distance
    others = peaks[distances != 1].max()
    half, size = turned // 2, 80 / (len(fast) - others)
    ahead, base = torch.zeros(2, d_head)
    base[fast], base[half - 1] = size, -size * (len(fast) + others) / 2  # +40 at distance 1, at most -40 elsewhere
    ahead[fast], ahead[half + fast] = frequencies[fast].cos(), frequencies[fast].sin()
    ahead[half - 1] = 1.0
    # What the token is does not turn: dimensions that have no position, or hardly one within these few tokens.
    still = torch.tensor([i for i in range(d_head) if i >= turned or frequencies[i % half] < 0.01])[:TOKENS]
    constant, token, previous = TOKENS, range(TOKENS), range(TOKENS + 1, 2 * TOKENS + 1)
    parts = {"W_E": torch.zeros(TOKENS, d_model), **{name: torch.zeros(d_model, d_head) for name in CIRCUIT}}
    parts["W_E"][token, token], parts["W_E"][:, constant] = 1.0, 1.0
    parts["Q0"][constant], parts["K0"][constant] = base, ahead
    parts["V0"][token, token], parts["O0"][previous, token] = 1.0, 1.0
    parts["Q1"][token, still], parts["K1"][previous, still] = 80.0, 1.0
    return parts


def rotary(kind: str) -> tuple[Architecture, Mapping[str, Tensor]]:
    import transformers

    neox = kind == "GPTNeoX"
    sizes: dict[str, float] = {"hidden_size": 128 if neox else 64, "num_hidden_layers": 2, "num_attention_heads": HEADS}
    sizes |= {"vocab_size": TOKENS, "max_position_embeddings": POSITIONS, "intermediate_size": 16, "pad_token_id": 0}
    sizes |= {"rotary_pct": 0.25} if neox else {"num_key_value_heads": 2, "head_dim": 64}
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**sizes, bos_token_id=0, eos_token_id=0)
    plain = transformers.AutoModelForCausalLM.from_config(config)
    state = {name: weight.detach().clone() for name, weight in plain.named_parameters()}
    d_head, d_model = (32, 128) if neox else (64, 64)
    parts = rotary_circuit(d_model, d_head, 8 if neox else d_head)
    # A constant feature of size g in the residual stream is one of size g^2 in a score.
    zeros = torch.zeros(d_model).index_fill(0, torch.tensor([0, TOKENS]), 1.0)
    normed = (zeros - zeros.mean()) / zeros.std(correction=0) if neox else zeros / zeros.square().mean().sqrt()
    scaling = 16 if kind == "Gemma2" else d_head**0.5
    parts["Q0"] *= scaling / normed[TOKENS] ** 2
    stem = "gpt_neox" if neox else "model"
    state[f"{stem}.embed_in.weight" if neox else f"{stem}.embed_tokens.weight"] = parts["W_E"]
    for name, weight in state.items():  # an MLP that writes nothing leaves the one-hot blocks as they are
        if name.endswith(("mlp.down_proj.weight", "mlp.dense_4h_to_h.weight")):
            weight.zero_()
    for layer, head, names in ((0, 1, "QKV"), (1, 2, "QK")):
        for name in names:
            target, rows = projection(state, f"{stem}.layers.{layer}.", name, head, d_head, grouped=not neox)
            target[rows] = parts[f"{name}{layer}"].T
    out = state["gpt_neox.layers.0.attention.dense.weight" if neox else "model.layers.0.self_attn.o_proj.weight"]
    out.zero_()
    out[:, d_head : 2 * d_head] = parts["O0"]
    return Architecture(plain.config), state


def projection(
    state: Mapping[str, Tensor], layer: str, name: str, head: int, d_head: int, grouped: bool
) -> tuple[Tensor, slice]:
    """The weights of queries, keys or values, and the rows of one head; two heads share a key and a value head."""
    if not grouped:
        start = (3 * head + "QKV".index(name)) * d_head
        return state[f"{layer}attention.query_key_value.weight"], slice(start, start + d_head)
    start = (head if name == "Q" else head // 2) * d_head
    return state[f"{layer}self_attn.{name.lower()}_proj.weight"], slice(start, start + d_head)


def neox() -> tuple[Architecture, Mapping[str, Tensor]]:
    return rotary("GPTNeoX")


def llama() -> tuple[Architecture, Mapping[str, Tensor]]:
    return rotary("Llama")


def gemma2() -> tuple[Architecture, Mapping[str, Tensor]]:
    return rotary("Gemma2")


def scores(made: Architecture, state: Mapping[str, Tensor]) -> pd.DataFrame:
    batch = dataclasses.replace(TASK.probe_batch(16, seed=0), references={})
    return measure(CheckpointSeries("hand-set", made, (0,), lambda step: state), [AttentionTo()], batch, progress=False)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("make", [native, gpt2, neox, llama, gemma2])
def test_hand_set_heads_score_one_and_all_others_little(
    make: Callable[[], tuple[Architecture, Mapping[str, Tensor]]],
) -> None:
    table = scores(*make())
    for relation, head in (("previous token", (0, 1)), ("induction", (1, 2))):
        rows = select(table, "AttentionTo", "along", relation=relation).set_index(["layer", "head"])["value"]
        assert len(rows) == 2 * HEADS
        assert rows[head] >= 0.99
        assert rows.drop(head).max() < 0.2
