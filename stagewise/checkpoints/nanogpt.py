"""nanoGPT's checkpoints as the GPT-2 that they are: its config from what the script saved, its weights by their names.

nanoGPT keeps matrices [out, in], where Hugging Face's GPT-2 has [in, out], may leave out all biases, and computes the
exact GELU. Source: https://github.com/karpathy/nanoGPT, `model.py` and `train.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ARGUMENTS = "model_args"
"""The key under which the script saves the sizes, beside `model`, the weights."""

SIZES = {name: name for name in ("n_layer", "n_head", "n_embd", "vocab_size")} | {"block_size": "n_positions"}
"""nanoGPT's names of the sizes -> those of a GPT-2 config."""

WITHOUT_EFFECT = {"bias", "dropout"}
"""Other fields that it saves: weights show whether there are biases, and probes drop nothing out."""

FIRST = "transformer.h.0.attn.c_attn.weight"
MATRICES = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
NORMS = ("ln_1", "ln_2")


def is_nanogpt(weights: Mapping[str, Tensor]) -> bool:
    """Whether weights have GPT-2's names and nanoGPT's matrices: queries, keys and values lie along the first axis."""
    shape = weights[FIRST].shape if FIRST in weights else ()
    return len(shape) == 2 and shape[0] == 3 * shape[1]


def config_of(saved: Any, path: Path) -> dict[str, Any] | None:
    """Return the Hugging Face config of what a file of nanoGPT's holds, None where it is of another script.

    Raises:
        ValueError: the model has a part that nanoGPT's does not have.
    """
    arguments = saved.get(ARGUMENTS) if isinstance(saved, Mapping) else None
    if not isinstance(arguments, Mapping) or not set(SIZES) <= set(arguments):
        return None
    if more := [name for name in arguments if name not in SIZES and name not in WITHOUT_EFFECT]:
        raise ValueError(
            f"{path}: its {ARGUMENTS} name {', '.join(map(str, more))}, which nanoGPT's model does not have: say what "
            "the model is with `architecture`"
        )
    sizes = {name: arguments[of] for of, name in SIZES.items()}
    kind = {"model_type": "gpt2", "activation_function": "gelu", "architectures": ["GPT2LMHeadModel"]}
    named = saved["model"].items() if isinstance(saved.get("model"), Mapping) else ()
    # The unembedding is the embedding, as in nanoGPT's own model; names may begin with a prefix.
    ends = [each for name, each in named if str(name).endswith(("transformer.wte.weight", "lm_head.weight"))]
    return {**kind, "tie_word_embeddings": all(torch.equal(ends[0], other) for other in ends[1:]), **sizes}


def as_gpt2(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return nanoGPT's weights as those of a Hugging Face GPT-2, with biases of 0 where it has none."""
    named = {
        name: weight.T.contiguous() if name.removesuffix(".weight").endswith(MATRICES) else weight
        for name, weight in weights.items()
    }
    for name, weight in weights.items():
        owner = name.removesuffix(".weight")
        if name != owner and owner.endswith((*MATRICES, *NORMS, "ln_f")):
            named.setdefault(f"{owner}.bias", torch.zeros(len(weight), dtype=weight.dtype))
    return named
