"""Edited passes by a model's own parameters: what an edit leaves as it was is taken from the clean pass.

An ablation needs no attention of its own layer: what the head wrote is added to the clean residual stream, less what it
writes instead. The last layer and the unembedding are computed at the scored positions alone.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AblateMLP, Ablation, Edit, RestrictContext, first_layer
from stagewise.models._edits import Replacement, mlp_hook
from stagewise.models._lean_attention import Heads, attend, project, shown
from stagewise.models._lean_reading import lean_weights, not_covered
from stagewise.models._lean_weights import LeanWeights
from stagewise.models._model import Model
from stagewise.models._numbers import same, widened
from stagewise.models._scored_positions import ScoredPositions

TRIED = 2
"""Sequences on which every checkpoint's lean pass is compared with its own."""


@dataclasses.dataclass(frozen=True, eq=False)
class LeanPass:
    """The edited passes of one checkpoint, by its weights, folded or not, and the activations of its clean pass."""

    weights: LeanWeights
    clean: Mapping[str, Tensor]
    scored: Bool[Tensor, "batch pos"]
    replacement: Replacement

    @cached_property
    def queries(self) -> ScoredPositions:
        """The scored positions."""
        return ScoredPositions.of(self.scored)

    def residual(self, edit: Edit) -> Float[Tensor, "scored sum"]:
        """Return the last layer's output at the scored positions: the residual stream, or logits of folded weights."""
        context = min((part.context for part in edit if isinstance(part, RestrictContext)), default=None)
        start = first_layer(edit)
        # Two ablations of one MLP are one: the later one replaces what the earlier put there.
        mlps = {part.layer: part for part in edit if isinstance(part, AblateMLP)}

        def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
            ablated = [part for part in edit if isinstance(part, AblateHead) and part.layer == number]
            # The first edited layer reads the clean stream: its attention changes by what the ablated heads wrote.
            if number == start and context is None:
                here, z, written = self._clean_layer(number, shown=bool(ablated))
                return here, written + self._change(number, ablated, z)
            here, heads = self._first if number == start == 0 else self._before(number, x)
            z = attend(self.weights.layers[number], heads, self._queries(number), context)
            for part in ablated:
                z[:, :, part.head] = self._replaced(part)
            return here, self.weights.layers[number].write(z)

        def mlp(number: int, x: Tensor) -> Tensor | None:
            return self._replaced(mlps[number]) if number in mlps else self.weights.layers[number].added_by_mlp(x)

        x = self.clean[f"blocks.{start}.hook_resid_pre"]
        return self.queries.flat(self.weights.through_layers(x, attention, mlp, start))

    def residuals(self, heads: Sequence[AblateHead]) -> Float[Tensor, "head_scored sum"]:
        """Return `residual` of the ablation of each of one layer's heads, one behind the other, in large products."""
        number = heads[0].layer
        here, z, written = self._clean_layer(number, shown=True)
        ablated = torch.cat([written + self._change(number, [part], z) for part in heads])
        many = dataclasses.replace(self, scored=self.scored.repeat(len(heads), 1))

        def attention(above: int, x: Tensor) -> tuple[Tensor, Tensor]:
            if above == number:
                return here.repeat(len(heads), 1, 1), ablated
            here_above, projected = many._before(above, x)
            layer = self.weights.layers[above]
            return here_above, layer.write(attend(layer, projected, many._queries(above), None))

        x = self.clean[f"blocks.{number}.hook_resid_pre"].repeat(len(heads), 1, 1)
        return many.queries.flat(self.weights.through_layers(x, attention, start=number))

    def _queries(self, number: int) -> ScoredPositions | None:
        return self.queries if number == len(self.weights.layers) - 1 else None

    def _before(self, number: int, x: Float[Tensor, "batch pos model"]) -> tuple[Tensor, Heads]:
        """Return the input of a layer's residual sum, and its queries, keys and values."""
        return self._entering(number, x), project(self.weights, number, x, self._queries(number))

    def _entering(self, number: int, x: Float[Tensor, "batch pos model"]) -> Float[Tensor, "batch query sum"]:
        queries = self._queries(number)
        return x if queries is None else self.weights.past_last(queries.take(x))

    @cached_property
    def _first(self) -> tuple[Tensor, Heads]:
        """The first layer in the clean pass: restricted contexts differ only in the keys that are seen."""
        x = self.clean["blocks.0.hook_resid_pre"]
        heads = shown(self.weights, self.clean, self._queries(0))
        return self._before(0, x) if heads is None else (self._entering(0, x), heads)

    def _clean_layer(self, number: int, shown: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return the residual stream that a layer's attention adds to in the clean pass, its heads' z, and its output.
        An edit takes the z that the clean pass shows where it replaces some of it. An MLP's ablation computes it, even
        where other edits have it shown: its bits would depend on who else asks.
        """
        if (number, shown) not in self._clean_layers:
            self._clean_layers.clear()  # edits come layer by layer
            x, queries = self.clean[f"blocks.{number}.hook_resid_pre"], self._queries(number)
            layer = self.weights.layers[number]
            if shown:
                here, z = self._entering(number, x), self.clean[z_hook(number)]
                z = z if queries is None else queries.take(z)
            else:
                here, heads = self._before(number, x)
                z = attend(layer, heads, queries, None)
            self._clean_layers[number, shown] = here, z, layer.write(z)
        return self._clean_layers[number, shown]

    @cached_property
    def _clean_layers(self) -> dict[tuple[int, bool], tuple[Tensor, Tensor, Tensor]]:
        return {}

    def _change(self, number: int, ablated: list[AblateHead], z: Tensor) -> Tensor:
        """Return the ablations' change of the layer's attention output."""
        change = torch.zeros((), device=self.scored.device)
        for part in ablated:
            difference = self._replaced(part) - z[:, :, part.head]
            change = change + widened(difference @ self.weights.layers[number].W_O[part.head])
        return change

    def _replaced(self, part: Ablation) -> Tensor:
        replaced, queries = self.replacement(part), self._queries(part.layer)
        return replaced if queries is None else queries.take(replaced)


def agreeing_weights(
    model: Model,
    clean: Mapping[str, Tensor],
    predictions: Float[Tensor, "batch pos token"],
    *,
    regression: bool = False,
) -> LeanWeights | None:
    """Return the weights for the lean pass if it gives the model's own predictions and z's; None if it does not. Its
    config is read, and the pass tried on the first sequences: a model that computes with anything that the lean pass
    does not know, or in another way, differs, and is run with hooks instead.
    """
    weights = lean_weights(model, clean)
    if weights is None or not_covered(model):
        return None
    agree = list[bool]()

    def compare(name: str, found: Tensor | None) -> None:
        if found is not None and name in clean:
            agree.append(same(found, clean[name][:TRIED]))

    # Layer by layer, so that what a model shows in between is compared too: errors may cancel at the end.
    def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
        z = attend(weights.layers[number], project(weights, number, x, None), None, None)
        compare(z_hook(number), z)
        return x, weights.layers[number].write(z)

    def mlp(number: int, x: Tensor) -> Tensor | None:
        added = weights.layers[number].added_by_mlp(x)
        compare(mlp_hook(number), added)
        return added

    with torch.inference_mode():
        try:
            x = weights.through_layers(clean["blocks.0.hook_resid_pre"][:TRIED], attention, mlp)
            logits = weights.unembedded(x)
        except RuntimeError:  # shapes that do not fit
            return None
        found = logits if regression else logits.log_softmax(-1)
    return weights if all(agree) and same(found, predictions[:TRIED]) else None
