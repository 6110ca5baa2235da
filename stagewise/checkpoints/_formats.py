"""Other forms of checkpoints: adapters, torch's distributed folders, and those that a converter must read."""

import io
import math
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stagewise.checkpoints._digest import bytes_of, check_file
from stagewise.checkpoints._pickles import UNREADABLE, Stub, stub_of
from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints._weight_names import SHARDS, STEPS
from stagewise.config import line_of
from stagewise.fields import MEMORY

ADAPTER = "adapter_config.json"
"""The file that peft writes beside an adapter."""

_OTHERWISE = (
    *("alpha_pattern", "use_dora", "use_qalora", "use_bdlora", "lora_bias", "alora_invocation_tokens", "arrow_config"),
    *("kasa_config", "monteclora_config", "layer_replication", "trainable_token_indices"),
)
"""Settings of peft by which an adapter adds something other than s B A to the weights."""

_CHANGED_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")
"""Beginnings of `init_lora_weights` by which peft changes the weights that it adapts before it trains."""

EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight")
UNEMBEDDINGS = ("lm_head.weight", "embed_out.weight")

CONV1D = re.compile(r"\.(c_attn|c_proj|c_fc|q_attn)\.weight$")
"""Names of weights that GPT-2 has the other way round than a linear layer, and others of its names as one."""

BEGINNINGS = {
    b"version https://git-lfs": "is a pointer of Git LFS, not the file: run `git lfs pull`",
    b"\x1f\x8b": "is compressed: unpack it, as with gunzip",
    b"<": "is a page of the web, not the file: download it again",
}
"""First bytes of whole files that hold no weights in a form that is read -> what the file is, and what to do."""

REFUSALS = {
    "TorchScript archive": "is TorchScript: save `torch.jit.load(path).state_dict()` with `torch.save`",
    "Unsupported operand 149": "is a pickle of protocol 4 or later: save it as `torch.save` does, pickle_protocol=2",
}
"""torch's words for whole files that its reader of weights refuses -> the kind of file, and the remedy."""

SAVE = "save its weights with `torch.save`, or without compression"

MAGIC = b"\x8a\nl\xfc"
"""In the first bytes of torch's old format, which is a pickle, too."""


class OtherFormError(ValueError):
    """A file is whole, and holds no weights in a form that is read."""


def other_form(path: Path, reason: str) -> str:
    """Return in words what a whole file is that torch refused for a reason, and what to do; empty for damage."""
    with path.open("rb") as file:
        start = file.read(32)
        file.seek(max(0, path.stat().st_size - 1))
        is_pickle = start.startswith(b"\x80") and MAGIC not in start and file.read() == pickle.STOP
    known = [what for beginning, what in BEGINNINGS.items() if start.startswith(beginning)]
    known += ["is a pickle of Python's own: save its weights with `torch.save`"] if is_pickle else []
    by_torch = start.startswith((b"PK", b"\x80\x04", b"\x80\x05"))
    known += [what for said, what in REFUSALS.items() if by_torch and said in reason]
    return known[0] if known else ""


def is_safetensors(path: Path) -> bool:
    """Whether a file begins as one of safetensors does, whatever it is called; by its name where it is too short."""
    with path.open("rb") as file:
        start = file.read(9)
    return start.endswith(b"{") if len(start) == 9 else path.suffix == ".safetensors"


class _Reader(pickle.Unpickler):
    """Reads a pickle with a stub in the place of whatever it names: it calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        return stub_of(f"{module}.{name}")


def _part(folder: Path, name: str, place: Mapping[str, Any]) -> Any:
    """Read a part of a tensor, or a plain value, from where it lies; no code is run."""
    path = folder / place["relative_path"]
    if path.name != place["relative_path"]:
        raise ValueError(f"it names {place['relative_path']!r:.120}, which is no file beside it")
    if coded := place.get("transform_descriptors"):
        by = ", ".join(map(str, getattr(coded, "given", coded)))
        raise OtherFormError(f"{folder} is compressed ({by}): load it with torch.distributed.checkpoint, and {SAVE}")
    check_file(path)
    if is_safetensors(path):
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            return file.get_tensor(name)
    with open(path, "rb") as file:
        file.seek(place["offset"])
        return torch.load(io.BytesIO(file.read(place["length"])), map_location="cpu", weights_only=True)


def read_shards(folder: Path) -> dict[str, Any]:
    """Read a folder of torch.distributed.checkpoint; its description, a pickle, is read with stubs and not run."""
    try:
        described = _Reader(io.BytesIO(bytes_of(folder / SHARDS))).load().fields
        held = {name: one.fields for name, one in described["state_dict_metadata"].items() if one.fields}
        sizes = {name: tuple(fields["size"].given[0]) for name, fields in held.items()}
        if (claimed := sum(4 * math.prod(size) for size in sizes.values())) > MEMORY:
            raise ValueError(f"its tensors take {claimed} bytes, and this machine has memory for {MEMORY}")
        whole: dict[str, Any] = {}
        for key, place in ((key.fields, place.fields) for key, place in described["storage_data"].items()):
            if (name := key["fqn"]) in STEPS and name not in sizes:
                whole[name] = _part(folder, name, place)
            elif name in sizes:  # all else is plain data, which torch pickles
                part = _part(folder, name, place)
                target = whole.setdefault(name, torch.empty(sizes[name], dtype=part.dtype))
                start = key["offset"].given[0] if isinstance(key["offset"], Stub) else [0] * part.ndim
                target[tuple(slice(a, a + size) for a, size in zip(start, part.shape, strict=True))] = part
    except FileNotFoundError as reason:
        raise FileNotFoundError(f"{reason.filename} is gone, a part of the checkpoint {folder}") from reason
    except OtherFormError:
        raise
    except (*UNREADABLE, OSError) as reason:
        what = f"{folder / SHARDS} is damaged, or of another version of torch"
        raise ValueError(f"{what} ({line_of(reason)})") from reason
    return whole


def adapter_file(folder: Path) -> Path:
    """Return the file of an adapter's weights."""
    for name in ("adapter_model.safetensors", "adapter_model.bin"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(f"{folder} holds {ADAPTER} and no weights of the adapter")


def merged(base: Mapping[str, Tensor], adapter: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Return a model's weights with a LoRA adapter merged into them, as peft's `merge_and_unload` does.

        W + s B A,    s = alpha / r, or alpha / sqrt(r) where its config says so

    Source: Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models, arXiv:2106.09685, section 4.1.
    """
    config, weights = read_json(folder / ADAPTER), dict(base)
    initial = str(config.get("init_lora_weights")).lower()
    others = [name for name in _OTHERWISE if config.get(name)]
    others += [f"init_lora_weights {initial}"] if initial.startswith(_CHANGED_BASE) else []
    # Where it is tied, peft leaves the unembedding as it was.
    others += ["embeddings"] if any(".lora_embedding_A" in name for name in adapter) else []
    if config.get("peft_type") != "LORA" or others:
        kind = f"{config.get('peft_type')}{' with ' + ', '.join(others) if others else ''}"
        raise ValueError(f"{folder} holds an adapter of the kind {kind}: save `model.merge_and_unload()` in its place")
    embedding = next((name for name in base if name.endswith(EMBEDDINGS)), None)
    if embedding and not any(name.endswith(UNEMBEDDINGS) for name in base):  # tied, until the adapter changes either
        weights[UNEMBEDDINGS[0]] = base[embedding]
    # Rows of its weights are inputs, as of GPT-2's layers, if its fused query, key and value is wider than high.
    fused = next((weight for name, weight in base.items() if name.endswith("attn.c_attn.weight")), None)
    conv1d = fused is not None and fused.shape[0] < fused.shape[1]
    for name in sorted(adapter, key=lambda name: ".lora_" in name):  # whole weights first
        own, weight = name.removeprefix("base_model.model."), adapter[name]
        part = re.search(r"\.lora_([AB])\.weight$", own)
        target = f"{own[: part.start()]}.weight" if part else re.sub(r"\.(base_layer|modules_to_save)\b", "", own)
        full = next((each for each in weights if each == target or each.endswith(f".{target}")), None)
        if full is None:
            raise ValueError(f"{folder} adapts {target}, which the weights of `base` do not have: is it another model?")
        if part is None:
            weights[full] = weight
        elif part[1] == "A":
            other = adapter[name.replace(".lora_A.", ".lora_B.")]
            scale = config["lora_alpha"] / (math.sqrt(len(weight)) if config.get("use_rslora") else len(weight))
            change = scale * (other.float() @ weight.float())
            change = change.T if conv1d and CONV1D.search(full) else change
            if change.shape != weights[full].shape:
                shapes = f"{tuple(change.shape)}, and it is {tuple(weights[full].shape)}"
                raise ValueError(f"{folder} changes {full} by a matrix of {shapes}: save `model.merge_and_unload()`")
            weights[full] = (weights[full].float() + change).to(weights[full].dtype)
    return weights
