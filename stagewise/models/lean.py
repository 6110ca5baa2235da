"""Edited passes by a model's own parameters: what an edit leaves as it was is taken from the clean pass.

An ablation needs no attention of its own layer: what the head wrote is added to the clean residual stream, less what it
writes instead. The last layer and the unembedding are computed at the scored positions alone.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AblateMLP, Ablation, Edit, RestrictContext, first_layer
from stagewise.models._edits import Replacement, mlp_hook
from stagewise.models._held_attention import evenly, of_last
from stagewise.models._lean_reading import lean_weights, not_covered
from stagewise.models._lean_weights import Layer, LeanWeights, capped
from stagewise.models._model import Activations, Model, Residual, Rows, Scored
from stagewise.models._numbers import same, widened

SHORT = 32
"""Positions up to which plain matrix products are faster than a fused kernel."""

SCORES = "blocks.0.attn.hook_attn_scores"
"""Hook of the first layer's scores, which restricted contexts of few positions start from."""

_LONG, _BLOCK = 512, 128
"""Positions from which on queries are taken so many at a time: a window of them, or a causal mask, hides most keys."""

TRIED = 2
"""Sequences on which every checkpoint's lean pass is compared with its own."""


@dataclasses.dataclass(frozen=True, eq=False)
class ScoredPositions:
    """The scored positions, as many of each sequence: those with fewer are filled up with position 0."""

    index: Int[Tensor, "batch query"]
    real: Bool[Tensor, "batch query"] | None

    @classmethod
    def of(cls, scored: Bool[Tensor, "batch pos"]) -> "ScoredPositions":
        """List the scored positions of each sequence."""
        counts = scored.sum(1)
        most = int(counts.max())
        index = scored.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
        real = torch.arange(most, device=scored.device) < counts[:, None]
        return cls(torch.where(real, index, 0), None if bool(real.all()) else real)

    @cached_property
    def distinct(self) -> Int[Tensor, "#batch query"]:
        """Their index, of one sequence where all have the same."""
        first = self.index[:1]
        return first if bool((self.index == first).all()) else self.index

    def take(self, x: Float[Tensor, "#batch pos *axes"]) -> Float[Tensor, "batch query *axes"]:
        """Return the values at these positions; one sequence's values stand for all."""
        first = 0 if len(x) == 1 else torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
        # Rows of one axis: two axes indexed at once take twice as long.
        taken = x.flatten(0, 1).index_select(0, (first + self.index).flatten())
        return taken.view(*self.index.shape, *x.shape[2:])

    def rows(self, x: Float[Tensor, "batch head pos column"]) -> Float[Tensor, "batch head query column"]:
        """Return the rows of every head's matrix at these positions."""
        if len(self.distinct) == 1:
            return x.index_select(2, self.index[0])
        return self.take(x.transpose(1, 2)).transpose(1, 2)

    def flat(self, x: Float[Tensor, "batch query sum"]) -> Float[Tensor, "scored sum"]:
        """Return the values of the scored ones, one a row."""
        return x.flatten(0, 1) if self.real is None else x[self.real]


@dataclasses.dataclass(frozen=True, eq=False)
class Heads:
    """Queries, keys and values of a layer; queries are not read where scores are shown."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch head key d_head"]
    v: Float[Tensor, "batch head key d_head"]
    scale: float
    cap: float | None
    shown: Float[Tensor, "batch head row key"] | None = None

    @cached_property
    def scores(self) -> Float[Tensor, "batch head query key"]:
        """Those of the clean pass where it shows them, with later keys hidden; otherwise before any key is hidden."""
        return capped(widened(self.q @ self.k.mT) * self.scale, self.cap) if self.shown is None else self.shown

    @cached_property
    def values(self) -> Float[Tensor, "batch head key d_head"]:
        """Laid out as products read them, once for all passes."""
        return self.v.contiguous()


def project(weights: LeanWeights, number: int, x: Residual, queries: ScoredPositions | None) -> Heads:
    """Return a layer's queries, keys and values, queries at the given positions alone (None for all)."""
    layer, length = weights.layers[number], x.shape[1]
    normed = layer.ln1(x)
    placed = normed if weights.shortformer is None else normed + weights.shortformer[:length]
    q, k, v = layer.q(placed if queries is None else queries.take(placed)), layer.k(placed), layer.v(normed)
    # Keys turn by every position's angle, queries by those of the positions at which they are computed.
    if layer.rotary is not None:
        cos, sin = (table[:length] for table in layer.rotary)
        k = turned_by(k, cos, sin, weights.adjacent)
        if queries is not None:
            cos, sin = (table[queries.index][:, None] for table in (cos, sin))
        q = turned_by(q, cos, sin, weights.adjacent)
    return _heads(weights, layer, q, k, v)


def shown(weights: LeanWeights, clean: Mapping[str, Tensor], queries: ScoredPositions | None) -> Heads | None:
    """Return the first layer's queries, keys and values in the clean pass; None where that does not show them."""
    if weights.shown is None or not clean.keys() >= set(weights.shown):
        return None
    q, k, v = (clean[name].transpose(1, 2) for name in weights.shown)
    scores = clean.get(SCORES) if v.shape[2] <= SHORT and weights.layers[0].held is None else None
    if queries is not None and scores is not None:
        scores = queries.rows(scores)
    elif queries is not None:
        q = queries.rows(q)
    return _heads(weights, weights.layers[0], q, k, v, scores)


def _heads(weights: LeanWeights, layer: Layer, q: Tensor, k: Tensor, v: Tensor, scores: Tensor | None = None) -> Heads:
    if (shared := q.shape[1] // k.shape[1]) > 1:
        k, v = (each.repeat_interleave(shared, 1) for each in (k, v))
    return Heads(q, k, v, layer.scale, weights.score_cap, scores)


def attend(
    layer: Layer, heads: Heads, queries: ScoredPositions | None, context: int | None
) -> Float[Tensor, "batch query head d_head"]:
    """Return every head's z at the queries (None for all positions), each attending to its last `context` keys."""
    q, k, v, length = heads.q, heads.k, heads.v, heads.k.shape[2]
    context = min((each for each in (context, layer.window) if each is not None), default=None)
    # The kernel shows no scores: caps and held keys, which change them, need plain products.
    fused = length > SHORT and heads.cap is None and layer.held is None
    if fused and queries is None and context is None:
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=heads.scale)
    else:
        seen = _seen(length, queries, context, q.device)
        if fused and length >= _LONG and q.device.type == "cpu":
            z = _in_blocks(heads, seen)
        elif fused:
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=heads.scale)
        else:
            scores = heads.scores
            if layer.held is not None:
                keys = of_last(layer.held, length, length)
                scores = evenly(scores, keys if queries is None else keys[:, queries.index].transpose(0, 1))
            hidden = torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, -math.inf)
            z = (scores + hidden).softmax(-1) @ heads.values  # a sum takes a fraction of the time of a filled copy
    return rearrange(z, "batch head query d_head -> batch query head d_head")


def _in_blocks(heads: Heads, seen: Bool[Tensor, "*#batch query key"]) -> Float[Tensor, "batch head query d_head"]:
    """Return z, a block of queries at a time, of the keys from the first to the last that one of them sees."""
    parts = []
    for start in range(0, heads.q.shape[2], _BLOCK):
        rows = slice(start, start + _BLOCK)
        some = seen[..., rows, :].flatten(0, -2).any(0).nonzero()
        keys = slice(int(some[0]), int(some[-1]) + 1)
        k, v, mask = heads.k[:, :, keys], heads.v[:, :, keys], seen[..., rows, keys]
        parts.append(F.scaled_dot_product_attention(heads.q[:, :, rows], k, v, attn_mask=mask, scale=heads.scale))
    return torch.cat(parts, 2)


def _seen(
    length: int, queries: ScoredPositions | None, context: int | None, device: torch.device
) -> Bool[Tensor, "*batch query key"]:
    key = torch.arange(length, device=device)
    query = key[:, None] if queries is None else queries.distinct[:, None, :, None]
    seen = key <= query
    return seen if context is None else seen & (key > query - context)


def turned_by(x: Tensor, cos: Tensor, sin: Tensor, adjacent: bool) -> Tensor:
    """Turn pairs of the first dimensions by their position's angles."""
    # Dimensions beyond those of the tables do not turn.
    turned, rest = x.tensor_split([cos.shape[-1]], -1)
    if adjacent:
        one, two = turned[..., ::2], turned[..., 1::2]
        across = torch.stack([-two, one], -1).flatten(-2)
    else:
        one, two = turned.chunk(2, -1)
        across = torch.cat([-two, one], -1)
    return torch.cat([turned * cos + across * sin, rest], -1)


@dataclasses.dataclass(frozen=True, eq=False)
class LeanPass:
    """The edited passes of one checkpoint, by its weights, folded or not, and the activations of its clean pass.

    With its predictions (`rows`) an ablation in a last layer with folded weights is a sum: theirs and its change.
    """

    weights: LeanWeights
    clean: Mapping[str, Tensor]
    scored: Bool[Tensor, "batch pos"]
    replacement: Replacement
    rows: Rows | None = None

    @cached_property
    def queries(self) -> ScoredPositions:
        """The scored positions."""
        return ScoredPositions.of(self.scored)

    def residual(self, edit: Edit) -> Float[Tensor, "scored sum"]:
        """Return the last layer's output at the scored positions: the residual stream, or logits of folded weights.

        Logits may be log-probabilities: they differ by a constant.
        """
        context = min((part.context for part in edit if isinstance(part, RestrictContext)), default=None)
        start = first_layer(edit)
        if self.rows is not None and self.weights.folded and context is None and start == len(self.weights.layers) - 1:
            heads = [part for part in edit if isinstance(part, AblateHead)]
            return self.rows + self.queries.flat(self._change(start, heads, self._last_z))
        # Two ablations of one MLP are one: the later one replaces what the earlier put there.
        mlps = {part.layer: part for part in edit if isinstance(part, AblateMLP)}

        def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
            layer = self.weights.layers[number]
            ablated = [part for part in edit if isinstance(part, AblateHead) and part.layer == number]
            # The first edited layer reads the clean stream: its attention changes by what the ablated heads wrote.
            if number == start and context is None:
                here, z, written = self._clean_layer(number, shown=bool(ablated))
                return here, layer.behind_attention(here, written + self._change(number, ablated, z))
            here, heads = self._first if number == start == 0 else self._before(number, x)
            z = attend(layer, heads, self._queries(number), context)
            for part in ablated:
                z[:, :, part.head] = self._replaced(part)
            return here, layer.behind_attention(here, layer.write(z))

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
            layer = self.weights.layers[above]
            if above == number:
                repeated = here.repeat(len(heads), 1, 1)
                return repeated, layer.behind_attention(repeated, ablated)
            here_above, projected = many._before(above, x)
            written = layer.write(attend(layer, projected, many._queries(above), None))
            return here_above, layer.behind_attention(here_above, written)

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
        """Return the residual stream that a layer's attention adds to in the clean pass, its z, and its output."""
        # Shown z for edits of heads alone: the bits of an MLP's ablation would depend on who else has z shown.
        if (number, shown) not in self._clean_layers:
            self._clean_layers.clear()  # edits come layer by layer
            x, queries = self.clean[f"blocks.{number}.hook_resid_pre"], self._queries(number)
            layer = self.weights.layers[number]
            if shown:
                here = self._entering(number, x)
                z = self.clean[z_hook(number)] if queries is None else self._last_z
            else:
                here, heads = self._before(number, x)
                z = attend(layer, heads, queries, None)
            self._clean_layers[number, shown] = here, z, layer.write(z)
        return self._clean_layers[number, shown]

    @cached_property
    def _last_z(self) -> Float[Tensor, "batch query head d_head"]:
        return self.queries.take(self.clean[z_hook(len(self.weights.layers) - 1)])

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
    model: Model, clean: Activations, predictions: Rows, scored: Scored, *, regression: bool = False
) -> LeanWeights | None:
    """Return the weights for the lean pass if it gives the model's own predictions and z's on the first sequences."""
    weights = lean_weights(model, clean)
    if weights is None or not_covered(model):
        return None
    agree = list[bool]()

    def compare(name: str, found: Tensor | None) -> None:
        if found is not None and name in clean:
            agree.append(same(found, clean[name][:TRIED]))

    # Layer by layer, so that what a model shows in between is compared too: errors may cancel at the end.
    def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
        layer = weights.layers[number]
        z = attend(layer, project(weights, number, x, None), None, None)
        compare(z_hook(number), z)
        return x, layer.behind_attention(x, layer.write(z))

    def mlp(number: int, x: Tensor) -> Tensor | None:
        added = weights.layers[number].added_by_mlp(x)
        compare(mlp_hook(number), added)
        return added

    with torch.inference_mode():
        try:
            x = weights.through_layers(clean["blocks.0.hook_resid_pre"][:TRIED], attention, mlp)
            logits = weights.unembedded(x[scored[:TRIED]])
        except RuntimeError:  # shapes that do not fit
            return None
        found = logits if regression else logits.log_softmax(-1)
    return weights if all(agree) and same(found, predictions[: len(found)]) else None
