"""Edited passes by a model's own parameters: what an edit leaves as it was is taken from the clean pass.

An ablation needs no attention of its own layer: what the head wrote is added to the clean residual stream, less what it
writes instead. The last layer and the unembedding are computed at the scored positions alone.
"""

import dataclasses
from collections.abc import Mapping
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AblateMLP, Ablation, Edit, RestrictContext, first_layer
from stagewise.models.edits import Replacement, mlp_hook
from stagewise.models.lean_attention import Heads, attend, project, shown
from stagewise.models.lean_reading import lean_weights, not_covered
from stagewise.models.lean_weights import Layer, LeanWeights
from stagewise.models.model import Model
from stagewise.models.precision import widened
from stagewise.models.rounding import same
from stagewise.models.scored_positions import ScoredPositions

TRIED = 2
"""Sequences on which every checkpoint's lean pass is compared with its own."""


@dataclasses.dataclass(frozen=True, eq=False)
class LeanPass:
    """The edited passes of one checkpoint on some sequences.

    Args:
        weights: of the model, folded or not.
        clean: the activations of the clean pass that `passes.hooks_for` names.
        scored: which predictions count.
        replacement: what an ablated head's output is replaced by.
    """

    weights: LeanWeights
    clean: Mapping[str, Tensor]
    scored: Bool[Tensor, "batch pos"]
    replacement: Replacement

    @cached_property
    def queries(self) -> ScoredPositions:
        """The scored positions."""
        return ScoredPositions.of(self.scored)

    def residual(self, edit: Edit) -> Float[Tensor, "scored sum"]:
        """Return what comes out of the last layer at the scored positions in the pass with the edit.

        The residual stream, or the logits where the weights are folded.
        """
        context = min((part.context for part in edit if isinstance(part, RestrictContext)), default=None)
        start, last = first_layer(edit), len(self.weights.layers) - 1
        x = self.clean[f"blocks.{start}.hook_resid_pre"]
        for number in range(start, last + 1):
            ablated = [part for part in edit if isinstance(part, AblateHead) and part.layer == number]
            queries = self._queries(number)
            # The first edited layer reads the clean stream: its attention changes by what the ablated heads wrote.
            if number == start and context is None:
                here, z, written = self._clean_layer(number, shown=bool(ablated))
                written = written + self._change(number, ablated, z)
            else:
                here, heads = self._first if number == start == 0 else self._before(number, x)
                z = attend(self.weights.layers[number], heads, queries, context)
                written = write(self.weights.layers[number], self._ablate(z, ablated, queries))
            # Two ablations of one MLP are one: the later one replaces what the earlier put there.
            mlps = [part for part in edit if isinstance(part, AblateMLP) and part.layer == number]
            if mlps:
                x = middle(self.weights, number, here, written) + self._replaced(mlps[-1], queries)
            else:
                x = behind(self.weights, number, here, written)
        return self.queries.flat(x)

    def _queries(self, number: int) -> ScoredPositions | None:
        return self.queries if number == len(self.weights.layers) - 1 else None

    def _before(self, number: int, x: Float[Tensor, "batch pos model"]) -> tuple[Tensor, Heads]:
        """Return what a layer's attention adds to, and what it attends with."""
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
        """Return what a layer's attention adds to in the clean pass, its heads' z, and what it writes.

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
            self._clean_layers[number, shown] = here, z, write(layer, z)
        return self._clean_layers[number, shown]

    @cached_property
    def _clean_layers(self) -> dict[tuple[int, bool], tuple[Tensor, Tensor, Tensor]]:
        return {}

    def _change(self, number: int, ablated: list[AblateHead], z: Tensor) -> Tensor:
        """Return what the ablations add to what the layer's attention writes."""
        change = torch.zeros((), device=self.scored.device)
        for part in ablated:
            difference = self._replaced(part, self._queries(number)) - z[:, :, part.head]
            change = change + widened(difference @ self.weights.layers[number].W_O[part.head])
        return change

    def _ablate(self, z: Tensor, ablated: list[AblateHead], queries: ScoredPositions | None) -> Tensor:
        for part in ablated:
            z[:, :, part.head] = self._replaced(part, queries)
        return z

    def _replaced(self, part: Ablation, queries: ScoredPositions | None) -> Tensor:
        replaced = self.replacement(part)
        return replaced if queries is None else queries.take(replaced)


def agreeing_weights(
    model: Model,
    clean: Mapping[str, Tensor],
    predictions: Float[Tensor, "batch pos token"],
    *,
    regression: bool = False,
) -> LeanWeights | None:
    """Return the weights for the lean pass if it gives the model's own predictions and z's; None if it does not.

    Its config is read, and the pass tried on the first sequences: a model that computes with anything that the lean
    pass does not know, or in another way, differs, and is run with hooks instead.

    Args:
        model: with a checkpoint's weights.
        clean: activations of its clean pass: the first residual stream, those of rotary positions, and any z or output
            of an MLP.
        predictions: of the clean pass, log-probabilities (nats) or the outputs of a regression.
        regression: whether predictions are outputs.
    """
    weights = lean_weights(model, clean)
    if weights is None or not_covered(model):
        return None
    with torch.inference_mode():
        expected = predictions[:TRIED]
        x = clean["blocks.0.hook_resid_pre"][:TRIED]
        # Layer by layer, so that what a model shows in between is compared too: errors may cancel at the end.
        try:
            for number, layer in enumerate(weights.layers):
                z = attend(layer, project(weights, number, x, None), None, None)
                before = middle(weights, number, x, write(layer, z))
                added = _added_by_mlp(weights, number, x if weights.parallel else before)
                for name, one in ((z_hook(number), z), (mlp_hook(number), added)):
                    if one is not None and name in clean and not same(one, clean[name][:TRIED]):
                        return None
                x = before if added is None else before + added
            logits = weights.unembedded(x)
        except RuntimeError:  # shapes that do not fit
            return None
        found = logits if regression else logits.log_softmax(-1)
    return weights if same(found, expected) else None


def behind(weights: LeanWeights, number: int, x: Tensor, written: Tensor) -> Tensor:
    """Return the residual stream behind a layer, from the one before it and what its attention wrote."""
    before = middle(weights, number, x, written)
    added = _added_by_mlp(weights, number, x if weights.parallel else before)
    return before if added is None else before + added


def middle(weights: LeanWeights, number: int, x: Tensor, written: Tensor) -> Tensor:
    """Return the residual stream between a layer's attention and its MLP."""
    layer = weights.layers[number]
    return x + (written if layer.ln1_post is None else layer.ln1_post(written))


def _added_by_mlp(weights: LeanWeights, number: int, x: Tensor) -> Tensor | None:
    """Return what a layer's MLP adds to the residual stream, from what it reads of it; None without an MLP."""
    layer = weights.layers[number]
    if layer.mlp is None or layer.ln2 is None:
        return None
    hidden = widened(layer.mlp(layer.ln2(x)))
    return hidden if layer.ln2_post is None else layer.ln2_post(hidden)


def write(layer: Layer, z: Float[Tensor, "batch query head d_head"]) -> Float[Tensor, "batch query written"]:
    """Return what attention writes into the residual stream."""
    return widened(F.linear(z.flatten(2), layer.W_O.flatten(0, 1).T, layer.bias_o))
