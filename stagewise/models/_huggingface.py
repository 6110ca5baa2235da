"""Hugging Face causal language models as plain torch modules: from a config, and from saved weights."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from stagewise.architecture import Architecture
from stagewise.config import huggingface_config, in_a_line
from stagewise.fields import MEMORY

_CONSTANTS = (".attention.bias", ".attention.masked_bias", ".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")
"""Buffers that older checkpoints hold beside the weights; the library computes them itself."""

_MISSING, _UNKNOWN = ": missing", ": not a parameter of the model"

_MOST_MODULES = 200_000
"""Modules that a model has at most: no published one has half as many."""

_SHOWN = 3
"""Names that are written out of each kind: a model of hundreds of weights has all of them wrong at once."""


def fresh(architecture: Architecture, seed: int) -> nn.Module:
    """Return a model of the library's own initialisation, without touching the global generator."""
    from transformers import AutoModelForCausalLM

    config, _ = checked(architecture)
    made = f"transformers makes no model of this config of a {config.model_type}"
    with in_a_line(made), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _eager(AutoModelForCausalLM.from_config(config, dtype=torch.float32))


def checked(architecture: Architecture) -> tuple[Any, nn.Module | None]:
    """Return the config of a model that has a bridge, and the model without memory; None where it cannot be made."""
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    assert architecture.huggingface is not None
    config = huggingface_config(architecture.huggingface)
    kind = config.model_type
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ValueError(f"transformers has no causal language model of the type {kind}")
    if (name := MODEL_FOR_CAUSAL_LM_MAPPING[type(config)].__name__) not in SUPPORTED_ARCHITECTURES:
        raise ValueError(f"transformer-lens {metadata.version('transformer-lens')} has no bridge for {name}")
    return config, _without_memory(config)


def _without_memory(config: Any) -> nn.Module | None:
    """Make a model without its weights, and refuse one that this machine cannot hold."""
    from transformers import AutoModelForCausalLM

    modules, entries = 0, 0

    def count(parent: Any, name: str, part: Any) -> None:
        nonlocal modules, entries
        modules += isinstance(part, nn.Module)
        entries += part.numel() if isinstance(part, Tensor) else 0
        if modules > _MOST_MODULES or 4 * entries > MEMORY:
            size = f"more than {4 * entries / 2**30:.3g} GiB of weights, this machine has {MEMORY / 2**30:.3g} GiB"
            size = size if modules <= _MOST_MODULES else f"more than {_MOST_MODULES} modules"
            raise _TooLargeError(f"a {config.model_type} of this config has {size}")

    hooks = register_module_module_registration_hook(count), register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"):
            made: nn.Module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        return made
    except _TooLargeError:
        raise
    except Exception:  # what is wrong, if anything is, shows where the model itself is made
        return None
    finally:
        for hook in hooks:
            hook.remove()


class _TooLargeError(ValueError):
    """A config of a model that no machine, or not this one, can hold."""


def loaded(kind: type[Any], config: Any, state: Mapping[str, Tensor]) -> nn.Module:
    """Return a model of a class and a config with saved weights, in float32."""
    state = {name: weight for name, weight in state.items() if not name.endswith(_CONSTANTS)}
    with _quietly():
        try:
            model, report = kind.from_pretrained(
                None,
                config=config,
                state_dict=state,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        except RuntimeError as reason:
            raise ValueError(f"the weights do not fit the model: {reason}") from reason
    names = [name for name, _ in model.named_parameters()]
    check_fit(state, names, *(report[f"{which}_keys"] for which in ("missing", "unexpected", "mismatched")))
    held = model.state_dict()
    check_held(((name, state[name]) for name in held if name in state), held)
    return _eager(model)


def check_held(read: Iterable[tuple[str, Tensor]], held: Mapping[str, Tensor]) -> None:
    """Refuse a model in which a weight is not what was read, as where another one took its place."""
    for name, weight in read:
        if not same(held[name], weight):
            raise ValueError(
                f"the model does not hold {name} as it was read: another weight of the checkpoint took its place, and "
                "it would be measured as another model. Please report it, with the model's config"
            )


def same(held: Tensor, read: Tensor) -> bool:
    """Whether a weight is the one that was read, to the bit, in its own type; nan is equal to nan."""
    if held.shape != read.shape:
        return False
    read = read.to(held)
    return torch.equal(held, read) or torch.allclose(held, read, 0.0, 0.0, equal_nan=True)


def check_fit(
    state: Mapping[str, Tensor],
    names: Iterable[str],
    missing: Iterable[str] = (),
    unknown: Iterable[str] = (),
    unlike: Iterable[tuple[str, Sequence[int], Sequence[int]]] = (),
) -> None:
    """Refuse weights that do not fit, with the first of each kind of fault and the number of others.

    Whole or complex numbers do not: copied as they are into the named parameters they would be other weights.
    """
    wrong = [*(f"{name}{_MISSING}" for name in missing), *(f"{name}{_UNKNOWN}" for name in unknown)]
    wrong += [f"{name}: {tuple(saved)} saved, {tuple(own)} in the model" for name, saved, own in unlike]
    given = {name: state[name] for name in names if name in state}
    wrong += [f"{name}: {each.dtype}, no real numbers" for name, each in given.items() if not each.is_floating_point()]
    if not wrong:
        return
    kinds: dict[str, list[str]] = {}
    for one in sorted(wrong):
        kinds.setdefault(next((kind for kind in (_MISSING, _UNKNOWN) if one.endswith(kind)), ""), []).append(one)
    shown = [one for of_kind in kinds.values() for one in of_kind[:_SHOWN]]
    more = sum(map(len, kinds.values())) - len(shown)
    listed = "; ".join([*shown, *([f"and {more} more"] if more else [])])
    raise ValueError(f"the weights do not fit the model: {listed}")


def _eager(model: Any) -> nn.Module:
    # Fused kernels compute no attention pattern: some bridges would silently have none to read.
    model.set_attn_implementation("eager")
    module: nn.Module = model.eval()
    return module


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Print no progress bar and no loading report for each checkpoint; faults are raised as errors."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
