"""A plain Hugging Face model under an edit: its output projections get another z, its attention another mask."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from stagewise.intervention import AblateHead, Edit, RestrictContext

PROJECTION = re.compile(
    r"(^|\.)(self_attn|attn|attention|self_attention|mixer)\.(?:output\.)?(o_proj|out_proj|dense|c_proj|Wo|wo)$"
)
"""Names of the linear maps from z to the residual stream."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """The plain model, run with an edit by torch's own hooks on its modules."""

    model: Any
    tokens: Tensor

    @property
    def n_heads(self) -> int:
        return int(self.model.config.num_attention_heads)

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
        heads, of_clean = (each.unflatten(-1, (self.n_heads, -1)).clone() for each in (z.flatten(2), clean.flatten(2)))
        by_position = (*self.tokens.shape, self.n_heads, -1)
        old = of_clean.view(by_position)[:, :, part.head]
        new = {"zero": old * 0, "mean": old.mean(0, keepdim=True).expand_as(old), "resample": old.roll(1, 0)}[part.kind]
        heads.view(by_position)[:, :, part.head] = new
        changed: Tensor = heads.view(z.shape)
        return changed

    def _masked(self, module: nn.Module, context: int) -> Callable[..., Any]:
        signature = inspect.signature(module.forward)

        def change(module: nn.Module, arguments: Any, named: dict[str, Any]) -> Any:
            bound = signature.bind_partial(*arguments, **named)
            bound.arguments["attention_mask"] = restricted(
                bound.arguments.get("attention_mask"), context, self.tokens.shape[1]
            )
            extra = bound.arguments.pop("kwargs", {})
            return (), {**bound.arguments, **extra}

        return change


def restricted(mask: Tensor | None, context: int, length: int) -> Tensor:
    """Return an attention mask that shuts out, beside what it shut out, the keys before the context."""
    query, key = torch.arange(length)[:, None], torch.arange(length)
    out = (key > query) | (key <= query - context)
    if mask is None or mask.dtype != torch.bool:
        least = torch.finfo(torch.float32).min
        added = torch.zeros(length, length).masked_fill(out, least)
        return added[None, None] if mask is None else torch.minimum(mask[..., :length], added)
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
