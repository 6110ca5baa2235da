"""Saved weights put into a bridge around a Hugging Face model: wrapped at the first checkpoint, copied from then on.

A bridge holds copies of parts of fused weights (GPT-NeoX's q, k and v), which only wrapping keeps consistent, and that
takes seconds. The first checkpoint shows which saved tensor, or which of its rows, each weight beneath the bridge is.
"""

import contextlib
import gc
import re
import warnings
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any, NamedTuple, TypeGuard, cast
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from stagewise.architecture import Architecture
from stagewise.config import in_a_line, line_of
from stagewise.models import _huggingface as huggingface
from stagewise.models._model import Bridge

_AGREE, _ROUNDING = 1e-3, 1e-5
"""Differences of a bridge's logits from Hugging Face's own that rounding explains: of their spread, of their size."""

_NO_MEMORY = "allocate memory|out of memory"
"""torch's words in a RuntimeError where Python would raise a MemoryError."""

_WRAPPER = "._original_component"
"""The part that a bridge adds to the name of each module that it wraps."""


def is_bridge(model: object) -> TypeGuard[Bridge]:
    """Whether it is a TransformerBridge."""
    from transformer_lens.model_bridge import TransformerBridge

    return isinstance(model, TransformerBridge)


def name_of(model: object) -> str:
    """Name the Hugging Face model beneath a bridge; of other models nothing is known but that they are one."""
    beneath = getattr(model, "original_model", None)
    return "the model" if beneath is None else type(beneath).__name__


@contextlib.contextmanager
def named_in_errors(model: object) -> Iterator[None]:
    """Name the model beneath a bridge in whatever its pass raises, but for a want of memory."""
    try:
        yield
    except Exception as reason:
        if not is_bridge(model) or isinstance(reason, ValueError | MemoryError) or re.search(_NO_MEMORY, str(reason)):
            raise
        raise ValueError(f"{name_of(model)} does not run on these tokens: {line_of(reason)}") from reason


def wrapped(module: Any) -> Bridge:
    """Put a bridge around a Hugging Face model, which is changed in place."""
    tokens = trial_tokens(module.config.vocab_size)
    with in_a_line(f"transformers' own {type(module).__name__} does not run"), torch.inference_mode():
        expected = module(tokens).logits
    head = module.get_output_embeddings()
    biased = head is None or getattr(head, "bias", None) is not None
    bridge = _wrapped(module)
    if not biased and (bias := getattr(bridge.unembed.original_component, "bias", None)) is not None:
        bias.requires_grad_(False)  # transformer-lens 3.9 adds one to every head: the model itself has none to train
    _check(bridge, tokens, expected)
    return bridge


def _wrapped(module: Any) -> Bridge:
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    kind = type(module).__name__
    try:
        with torch.random.fork_rng(devices=[]):
            built: Any = build_bridge_from_module(module, kind, hf_config=module.config, model_name=kind)
    except Exception as reason:  # bridges fail in many ways on a config that they do not know
        raise ValueError(f"TransformerLens has no bridge for {kind} of this config: {line_of(reason)}") from reason
    # No `isinstance` of a protocol: from Python 3.12 on it sees no submodule, which nn.Module looks up.
    if not all(hasattr(built, part) for part in ("cfg", "original_model", "embed", "blocks", "unembed")):
        raise ValueError(f"TransformerLens's bridge around {kind} shows no one stack of layers to measure")
    return cast(Bridge, built)


def trial_tokens(d_vocab: int, length: int = 6) -> Int[Tensor, "1 pos"]:
    """Return a few tokens on which a model is tested, as different as its vocabulary allows."""
    return (torch.randperm(max(d_vocab, length), generator=torch.Generator().manual_seed(0))[:length] % d_vocab)[None]


def _check(bridge: Bridge, tokens: Int[Tensor, "batch pos"], expected: Float[Tensor, "batch pos token"]) -> None:
    """Check that a bridge gives the logits of the Hugging Face model that it wraps, where those are finite."""
    try:
        with torch.inference_mode():
            difference = (bridge(tokens) - expected).abs().max().item()
    except Exception as reason:
        raise ValueError(f"the bridge around {name_of(bridge)} does not run: {line_of(reason)}") from reason
    allowed = _AGREE * expected.std().item() + _ROUNDING * expected.abs().max().item()
    if bool(expected.isfinite().all()) and not difference <= allowed:
        raise ValueError(
            f"the bridge of transformer-lens {metadata.version('transformer-lens')} around {name_of(bridge)} does not "
            f"give the model's logits: they differ by {difference:.2g}, their spread is {expected.std().item():.2g}. "
            "It would be measured as another model: use another version of transformer-lens"
        )


class _Source(NamedTuple):
    """A saved tensor that is a weight beneath a bridge; or those of its rows, where there are any."""

    name: str
    rows: Int[Tensor, " row"] | None = None

    def read(self, state: Mapping[str, Tensor]) -> Tensor:
        """Return the weight."""
        return state[self.name] if self.rows is None else state[self.name][self.rows]


_KNOWN: WeakKeyDictionary[Any, tuple[Mapping[str, torch.Size], Mapping[str, _Source]]] = WeakKeyDictionary()
"""Where the weights beneath a bridge lie in states with these shapes."""


def holding(architecture: Architecture, state: Mapping[str, Tensor], device: str | torch.device) -> Bridge | None:
    """Wrap a model that is made of saved weights; None where they have a bridge's names, or are two that its config
    ties: `load_bridge` copies these.
    """
    config, empty = huggingface.checked(architecture)
    if empty is None or any(_WRAPPER in name or name.startswith("blocks.") for name in state):
        return None
    bridge = cast(Bridge, wrapped(huggingface.loaded(type(empty), config, state)).to(device, print_details=False))
    if (tied := _tied(bridge)) is not None and tied[0].weight is not tied[1].weight:
        return None
    _remember(bridge, state)
    return bridge


def load_bridge(bridge: Bridge, state: Mapping[str, Tensor]) -> None:
    """Copy saved weights into a bridge, in place."""
    hf, (shapes, known) = bridge.original_model, _KNOWN.get(bridge, ({}, {}))
    known = known if shapes == _shapes(state) else {}
    names = (name for module in (bridge, hf) for name, _ in module.named_parameters())
    huggingface.check_fit(state, {source.name for source in known.values()} or {*names})
    if known:
        _put(bridge, hf, known, state)
        return
    for module in (bridge, hf):
        if state.keys() == whole_state(bridge).keys() == module.state_dict().keys():
            _put(bridge, module, {name: _Source(name) for name in state}, state)
            return
    plain = huggingface.loaded(type(hf), type(hf.config).from_dict(hf.config.to_dict()), state)
    read = wrapped(plain).original_model.state_dict()
    _put(bridge, hf, {name: _Source(name) for name in read}, read)
    del plain, read
    gc.collect()  # a wrapped model refers to itself: without this, many wait in memory for the collector
    _remember(bridge, state)


def _remember(bridge: Bridge, state: Mapping[str, Tensor]) -> None:
    """Keep where the weights that a bridge holds lie in the state that they were read from."""
    if (sources := _sources(bridge, state)) is not None:
        _KNOWN[bridge] = _shapes(state), sources


def _put(bridge: Bridge, module: Any, sources: Mapping[str, _Source], state: Mapping[str, Tensor]) -> None:
    """Copy weights into a bridge or the model beneath it, and check that it holds those that another may have changed,
    or that lie elsewhere by now, as they were read.
    """
    _tie_as_read(bridge, module, sources, state)
    held = module.state_dict()
    for name, source in sources.items():
        held[name].copy_(source.read(state))
    now, shared = module.state_dict(), _overlapping({name: held[name] for name in sources})
    doubtful = [name for name in sources if name in shared or now[name].data_ptr() != held[name].data_ptr()]
    huggingface.check_held(((name, sources[name].read(state)) for name in doubtful), now)


def _overlapping(weights: Mapping[str, Tensor]) -> set[str]:
    """Return the names of weights that lie in the memory of others."""
    found, before, end = set[str](), "", 0
    for (start, stop), name in sorted((_extent(weight), name) for name, weight in weights.items()):
        found |= {before, name} if start < end else set()
        before, end = (name, stop) if stop > end else (before, end)
    return found


def _tie_as_read(bridge: Bridge, module: Any, sources: Mapping[str, _Source], state: Mapping[str, Tensor]) -> None:
    """Make embedding and unembedding of a tied config two weights where they differ in a checkpoint, else one."""
    if (tied := _tied(bridge)) is None:
        return
    head, embedding = tied
    places = {part.weight.data_ptr() for part in tied}
    names = [name for name, weight in module.state_dict().items() if weight.data_ptr() in places]
    first, *others = [sources[name].read(state) for name in names if name in sources]
    alike = all(huggingface.same(first, other) for other in others)
    if alike and head.weight is not embedding.weight:
        head.weight = embedding.weight
    elif not alike and head.weight is embedding.weight:
        head.weight = nn.Parameter(head.weight.detach().clone(), head.weight.requires_grad)
        warnings.warn(
            "the config ties embedding and unembedding, and their weights differ in a checkpoint: they are read as two",
            stacklevel=2,
        )


def _tied(bridge: Bridge) -> tuple[Any, Any] | None:
    """Return the unembedding and the embedding of a tied config; None of another one."""
    head: Any = getattr(bridge.unembed, "original_component", None)
    embedding: Any = getattr(bridge.embed, "original_component", None)
    tied = getattr(bridge.original_model.config.get_text_config(), "tie_word_embeddings", False)
    weighted = all(getattr(part, "weight", None) is not None for part in (head, embedding))
    return (head, embedding) if tied and weighted else None


def _shapes(state: Mapping[str, Tensor]) -> Mapping[str, torch.Size]:
    return {name: weight.shape for name, weight in state.items()}


def _sources(bridge: Bridge, state: Mapping[str, Tensor]) -> Mapping[str, _Source] | None:
    """Return each weight beneath a bridge as the one just loaded that it equals; None where that is uncertain."""
    hf = bridge.original_model
    beneath, prefix = hf.state_dict(), f"{getattr(hf, 'base_model_prefix', '')}."
    saved_as = {name.removeprefix(prefix): name for name in state}
    bias = getattr(getattr(bridge.unembed, "original_component", None), "bias", None)  # TransformerLens may add it
    plain = {name: name.replace(_WRAPPER, "").removeprefix(prefix) for name in beneath}
    found, places = dict[str, _Source](), set[tuple[str, int]]()
    for name, weight in beneath.items():  # under several names, of which one is copied
        saved, place = saved_as.get(plain[name], ""), weight.data_ptr()
        if saved and (saved, place) not in places and huggingface.same(weight, state[saved]):
            found[name] = _Source(saved)
            places.add((saved, place))
    copied = [_extent(beneath[name]) for name in found]
    for name, weight in beneath.items():
        start, end = _extent(weight)
        is_held = any(first <= start and end <= last for first, last in copied)
        if is_held or (bias is not None and start == bias.data_ptr()):
            continue
        # A part of a fused bias belongs to that of the fused weight.
        fused = found.get(f"{name.removesuffix('bias')}weight") if name.endswith(".bias") else None
        split = fused and _Source(f"{fused.name.removesuffix('weight')}bias", fused.rows)
        siblings = [saved for short, saved in saved_as.items() if short.startswith(f"{plain[name].rsplit('.', 2)[0]}.")]
        source = split or next(filter(None, (_rows(weight, saved, state) for saved in siblings)), None)
        if source is None or source.name not in state or not huggingface.same(weight, source.read(state)):
            return None
        found[name] = source
        copied.append((start, end))
    return found


def _extent(weight: Tensor) -> tuple[int, int]:
    """Return the addresses of a weight's first byte and of the one behind its last."""
    last = sum((size - 1) * stride for size, stride in zip(weight.shape, weight.stride(), strict=True))
    return weight.data_ptr(), weight.data_ptr() + weight.element_size() * (last + 1)


def _rows(weight: Tensor, name: str, state: Mapping[str, Tensor]) -> _Source | None:
    """Return the rows of a saved tensor that a weight consists of; None where there are none, or several alike."""
    saved = state[name]
    if weight.ndim != 2 or saved.ndim != 2 or saved.shape[1] != weight.shape[1]:
        return None
    places = {row.tobytes(): place for place, row in enumerate(saved.to(weight).cpu().numpy())}
    rows = [places.get(row.tobytes()) for row in weight.cpu().numpy()]
    if len(places) < len(saved) or None in rows:
        return None
    return _Source(name, torch.tensor(rows))


def whole_state(bridge: Bridge) -> Mapping[str, Tensor]:
    """Return a bridge's state dict, or that of the modules beneath where its own leaves a mixture's experts out."""
    named, beneath = bridge.state_dict(), bridge.original_model.state_dict()
    pointers = {weight.data_ptr() for weight in named.values()}
    incomplete = any(".experts." in name and weight.data_ptr() not in pointers for name, weight in beneath.items())
    state: Mapping[str, Tensor] = beneath if incomplete else named
    return state
