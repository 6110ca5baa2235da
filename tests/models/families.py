"""Every edit on every family of Hugging Face's causal language models that TransformerLens bridges, made small.

python -m tests.models.families [NAME ...]      prints the table of docs/families.md

Each family is measured as any series is. The reference is the plain Hugging Face model: its output projections are
handed z with a head replaced, its attention modules another mask.
"""

import copy
import dataclasses
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from stagewise import models
from stagewise.intervention import AblateHead, Edit, RestrictContext
from stagewise.measurement.checkpoint import Checkpoint, Plan, readings
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.task import Batch

SAME = 1e-4
"""Largest difference of log-probabilities, over their spread, that sums in another order explain."""

LENGTH, HEADS, LAYERS, VOCAB = 12, 4, 2, 32

SIZES: Mapping[str, object] = {
    **{"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "max_position_embeddings": 32},
    **{"hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2},
    **{"head_dim": 8, "intermediate_size": 48, "ffn_dim": 48, "word_embed_proj_dim": 32, "sliding_window": 8},
    **{"n_positions": 32, "n_ctx": 32, "n_embd": 32, "n_layer": LAYERS, "n_head": HEADS, "rotary_dim": 4},
    **{"d_model": 32, "n_layers": LAYERS, "n_heads": HEADS, "max_seq_len": 32, "num_layers": LAYERS},
    **{"num_heads": HEADS, "attention_heads": HEADS},
    # mixtures of experts
    **{"num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1},
    **{"moe_intermediate_size": 16, "n_shared_experts": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "shared_expert_intermediate_size": 16,
    # latent attention: keys and values of other sizes than a head's share of the model
    **{"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12},
    **{"index_n_heads": 2, "index_head_dim": 16, "index_topk": 64},
    # state spaces and linear attention
    **{"mamba_d_state": 8, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_expand": 2, "mamba_d_ssm": 64},
    **{"mamba_n_groups": 1, "mamba_chunk_size": 4, "chunk_size": 4, "state_size": 8, "ssm_state_size": 8},
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    **{"mamba_num_heads": 4, "mamba_head_dim": 16, "lru_width": 32, "attention_window_size": 8},
}
"""Fields of a small config; each family takes those that it has."""

_LATENT = {"num_key_value_heads": HEADS, "head_dim": 8}
OWN: Mapping[str, Mapping[str, object]] = {
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "glm4_moe_lite": _LATENT,
    "glm_moe_dsa": _LATENT,
    "youtu": _LATENT,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "bamba": {"attn_layer_indices": [1]},
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "nemotron_h": {"layers_block_type": ["mamba", "attention"], "n_groups": 1},
    "qwen3_5_text": {"layer_types": ["linear_attention", "full_attention"]},
    "qwen3_5_moe_text": {"layer_types": ["linear_attention", "full_attention"]},
    "qwen3_next": {"layer_types": ["linear_attention", "full_attention"]},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "zamba2": {"layer_types": ["mamba", "hybrid"], "hybrid_layer_ids": [1], "num_mem_blocks": 1},
    "gemma4_text": {"vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8, "global_head_dim": 8},
}
"""What some families need beside it."""

VARIANTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "falcon, new decoder": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon, ALiBi": ("falcon", {"alibi": True}),
    "falcon, heads of their own": ("falcon", {"multi_query": False, "parallel_attn": False}),
    "gpt_bigcode, heads of their own": ("gpt_bigcode", {"multi_query": False}),
    "opt, norm behind": ("opt", {"do_layer_norm_before": False}),
    "qwen2, sliding window": ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}),
}
"""Families under other settings of theirs."""


class Family(NamedTuple):
    """A family of models: Hugging Face's name of it, its class, and the fields of a small config."""

    kind: str
    model: type[Any]
    config: type[Any]
    fields: Mapping[str, object]

    def small(self, seed: int = 0) -> Any:
        """Return a small model with random weights, so large that attention is far from uniform."""
        names = {*inspect.signature(self.config.__init__).parameters, *self.config().to_dict()}
        names |= set(getattr(self.config, "__dataclass_fields__", ()))
        shared = {name: value for name, value in SIZES.items() if name in names - set(self.config.attribute_map)}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.model(self.config(**{**shared, **self.fields})).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(6 if parameter.dim() > 1 else 1)
        return model


def family_of(name: str) -> Family:
    """Return a family or a variant by its name; nothing else is imported."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    kind, fields = VARIANTS.get(name, (name, {}))
    config = CONFIG_MAPPING[kind]
    return Family(kind, MODEL_FOR_CAUSAL_LM_MAPPING[config], config, {**OWN.get(kind, {}), **fields})


def families() -> dict[str, Family]:
    """Return every family of causal language models that TransformerLens bridges, and the variants."""
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    found: dict[str, Family] = {}
    seen = set()
    for kind, config in CONFIG_MAPPING.items():
        model = MODEL_FOR_CAUSAL_LM_MAPPING.get(config, None)
        if (name := getattr(model, "__name__", "")) in SUPPORTED_ARCHITECTURES and name.endswith(HEADED):
            if hasattr(config(), "vocab_size") and (config, model) not in seen and kind == config.model_type:
                found[kind] = family_of(kind)
            seen.add((config, model))
    found |= {name: family_of(name) for name in VARIANTS}
    return dict(sorted(found.items()))


HEADED = ("ForCausalLM", "LMHeadModel")

PROJECTION = re.compile(
    r"(^|\.)(self_attn|attn|attention|self_attention|mixer)\.(?:output\.)?(o_proj|out_proj|dense|c_proj|Wo|wo)$"
)
"""Names of the linear maps from z to the residual stream."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """The plain model, run with an edit by torch's own hooks on its modules."""

    model: Any
    tokens: Tensor

    def run(self, edit: Edit) -> Tensor:
        """Return the log-probabilities."""
        with removed_after(self._hooks(edit)), torch.no_grad():
            logits: Tensor = self.model(self.tokens).logits
        return logits.log_softmax(-1)

    def projections(self) -> list[nn.Module]:
        return [module for name, module in self.model.named_modules() if PROJECTION.search(name)]

    def _attentions(self) -> list[nn.Module]:
        modules = dict(self.model.named_modules())
        found = []
        for name in modules:
            if PROJECTION.search(name):
                parent = modules[name.rpartition(".")[0]]
                takes = "attention_mask" in inspect.signature(parent.forward).parameters
                found.append(parent if takes else modules[name.rpartition(".output")[0] or name.rpartition(".")[0]])
        return found

    def _hooks(self, edit: Edit) -> Iterator[Any]:
        clean = self._z() if any(isinstance(part, AblateHead) for part in edit) else []
        for part in edit:
            if isinstance(part, AblateHead):
                yield self.projections()[part.layer].register_forward_pre_hook(
                    lambda module, arguments, part=part: (self._replaced(arguments[0], clean[part.layer], part),)
                )
            elif isinstance(part, RestrictContext):
                for module in self._attentions():
                    change = self._masked(module, part.context)
                    yield module.register_forward_pre_hook(change, with_kwargs=True)

    def _z(self) -> list[Tensor]:
        z: list[Tensor] = []
        hooks = [one.register_forward_pre_hook(lambda m, a: z.append(a[0].clone())) for one in self.projections()]
        with removed_after(hooks), torch.no_grad():
            self.model(self.tokens)
        return z

    def _replaced(self, z: Tensor, clean: Tensor, part: AblateHead) -> Tensor:
        heads, of_clean = (each.unflatten(-1, (HEADS, -1)).clone() for each in (z.flatten(2), clean.flatten(2)))
        old = of_clean.view(len(self.tokens), LENGTH, HEADS, -1)[:, :, part.head]
        new = {"zero": old * 0, "mean": old.mean(0, keepdim=True).expand_as(old), "resample": old.roll(1, 0)}[part.kind]
        heads.view(len(self.tokens), LENGTH, HEADS, -1)[:, :, part.head] = new
        changed: Tensor = heads.view(z.shape)
        return changed

    def _masked(self, module: nn.Module, context: int) -> Callable[..., Any]:
        signature = inspect.signature(module.forward)

        def change(module: nn.Module, arguments: Any, named: dict[str, Any]) -> Any:
            bound = signature.bind_partial(*arguments, **named)
            bound.arguments["attention_mask"] = restricted(bound.arguments.get("attention_mask"), context)
            extra = bound.arguments.pop("kwargs", {})
            return (), {**bound.arguments, **extra}

        return change


def restricted(mask: Tensor | None, context: int) -> Tensor:
    """Return an attention mask that shuts out, beside what it shut out, the keys before the context."""
    query, key = torch.arange(LENGTH)[:, None], torch.arange(LENGTH)
    out = (key > query) | (key <= query - context)
    if mask is None or mask.dtype != torch.bool:
        least = torch.finfo(torch.float32).min
        added = torch.zeros(LENGTH, LENGTH).masked_fill(out, least)
        return added[None, None] if mask is None else torch.minimum(mask[..., :LENGTH], added)
    shuts = bool(mask[..., 0, -1].all())
    return mask | out if shuts else mask & ~out


@contextmanager
def removed_after(hooks: Iterable[Any]) -> Iterator[None]:
    """Remove torch's hooks in the end."""
    handles = list(hooks)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


EDITS: Mapping[str, tuple[Edit, ...]] = {
    "ablation": tuple(
        (AblateHead(layer, head, kind),)
        for kind in ("zero", "mean", "resample")
        for layer in range(LAYERS)
        for head in range(HEADS)
    ),
    "context": tuple((RestrictContext(context),) for context in (1, 3, LENGTH)),
}
"""What is tried on every family."""


@dataclasses.dataclass(frozen=True)
class Predictions(AbstractProbe):
    """The predictions of edited passes."""

    chosen: tuple[Edit, ...]

    def edits(self, architecture: Any) -> Iterable[Edit]:
        return self.chosen

    def read(self, view: View) -> list[Reading]:
        seen = [view.edited[edit].log_probs.reshape(view.log_probs.shape) for edit in self.chosen]
        values = torch.stack([view.log_probs, *seen], 1)
        labels = {"edit": range(values.shape[1]), "pos": range(LENGTH), "token": range(values.shape[3])}
        return [Reading("batch edit pos token", values, "predictions", labels)]


class Outcome(NamedTuple):
    """What came of a kind of edit: the largest difference from the reference over its spread, or why it is refused."""

    difference: float | None
    refused: str = ""

    @property
    def agrees(self) -> bool:
        return self.difference is not None and self.difference <= SAME

    def __str__(self) -> str:
        if self.difference is None:
            return f"refused: {self.refused}"
        return "agrees" if self.agrees else f"DIFFERS by {self.difference:.1g}"


def tried(family: Family, by_hooks: bool = False) -> dict[str, Outcome]:
    """Measure a small model of a family with every kind of edit, and hold it against the reference.

    Args:
        family: of the model.
        by_hooks: take hooks even where the lean pass agrees.
    """
    plain = family.small()
    plain.set_attn_implementation("eager")
    tokens = torch.randint(VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(0))
    reference = Reference(copy.deepcopy(plain), tokens)
    batch = Batch(tokens, tokens, torch.ones_like(tokens, dtype=torch.bool))
    outcomes: dict[str, Outcome] = {}
    for name, edits in EDITS.items():
        try:
            architecture = models.described(plain)
            built = models.build(architecture)
            models.load(built, plain.state_dict())
            plan = Plan(architecture, [Predictions(edits)], [batch], by_hooks)
            read = readings(plan, Checkpoint(built, 0, {})).of["Predictions"][0]
        except ValueError as reason:
            outcomes[name] = Outcome(None, str(reason))
            continue
        expected = [reference.run(edit) for edit in ((), *edits)]
        for edit, each in zip(edits, expected[1:], strict=True):
            whole = edit == (RestrictContext(LENGTH),)
            if bool((each - expected[0]).abs().max() < 1e-3) is not whole:
                raise AssertionError(f"the reference of {family.kind} does not make the edit {edit}")
        pairs = zip(read.values.unbind(1), expected, strict=True)
        outcomes[name] = Outcome(max(float((one - other).abs().max() / other.std()) for one, other in pairs))
    return outcomes


def short(outcome: Outcome) -> str:
    """Return an outcome for the table, its reason without the family's own name and the version."""
    text = re.sub(r"(?<=bridge) of transformer-lens [\d.]+", "", str(outcome)).partition(". ")[0]
    text = re.sub(r"( around| for| of)? ?\w+(For|LMHead)\w+", "", text.partition(": they differ")[0])
    text = re.sub(r"has no hook .*: (?=TransformerLens shows)", "", text)
    return text.partition(", so that")[0].replace("|", "/").replace(":  ", ": ")


def main(names: list[str]) -> None:
    """Print the table."""
    import transformers

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    print("| family | ablated heads | restricted context |\n| --- | --- | --- |")
    worst, counts = 0.0, [0, 0]
    for name, family in families().items():
        if not names or name in names:
            outcomes = tried(family)
            worst = max([worst, *(one.difference or 0.0 for one in outcomes.values())])
            counts = [count + one.agrees for count, one in zip(counts, outcomes.values(), strict=True)]
            print(f"| {name} | {' | '.join(short(outcome) for outcome in outcomes.values())} |", flush=True)
    print(f"\nAgree: {counts[0]} under ablation, {counts[1]} under a restricted context, to {worst:.0e} of the spread.")


if __name__ == "__main__":
    main(sys.argv[1:])
