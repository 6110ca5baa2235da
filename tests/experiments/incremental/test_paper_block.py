"""The paper's block in plain torch, with norms in front, is the library's full transformer."""

import torch

from stagewise import models
from stagewise.architectures import full
from tests.experiments.incremental.paper_block import HEADS, HIDDEN, WIDTH, Block, fresh, logits


def test_with_norms_in_front_it_is_the_full_transformer() -> None:
    torch.manual_seed(0)
    block = Block(norms_in_front=True)
    w = {name: weight.detach() for name, weight in fresh(block, 7, 9).items()}
    w |= {name: weight + 0.1 * torch.randn_like(weight) for name, weight in w.items() if name[:2] in ("w_", "b_")}
    by_head = {f"W_{name}": w[name].unflatten(0, (HEADS, -1)).mT for name in "QKV"}
    attention = {**by_head, "W_O": w["O"].T.unflatten(0, (HEADS, -1))}
    mlp = {"W_in": w["in"].T, "W_out": w["out"].T, "b_in": w["b_in"], "b_out": w["b_out"]}
    state = {"embed.W_E": w["E"].T, "pos_embed.W_pos": w["pos"], "unembed.W_U": w["U"].T}
    state |= {f"blocks.0.attn.{name}": weight for name, weight in attention.items()}
    state |= {f"blocks.0.mlp.{name}": weight for name, weight in mlp.items()}
    norms = {"blocks.0.ln1": "1", "blocks.0.ln2": "2", "ln_final": "final"}
    state |= {f"{norm}.{part}": w[f"{part}_{name}"] for norm, name in norms.items() for part in "wb"}
    model = models.build(full(7, 9, n_heads=HEADS, d_model=WIDTH, d_mlp=HIDDEN))
    state = {name: state.get(name, torch.zeros_like(weight)) for name, weight in models.weights(model).items()}
    models.load(model, state)
    tokens = torch.randint(7, (3, 9))
    with torch.no_grad():
        torch.testing.assert_close(logits(w, block, tokens, 4), model(tokens)[:, 4:], atol=1e-4, rtol=1e-4)
