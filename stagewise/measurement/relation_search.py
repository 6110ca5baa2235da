"""Relations that nobody named: what a head attends to, by the attention that it explains on held-out sequences."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from scipy import stats
from torch import Tensor

from stagewise import models
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._rows import check_batch, check_series
from stagewise.measurement.probe_batch import series_batch
from stagewise.probe import pattern_hooks
from stagewise.task import Batch
from stagewise.text.token_relations import token_relation

_LONGEST_PERIOD = 16
"""Positions that a window or a period has at most."""

_POINTED = 2
"""Offsets, positions, tokens and differences of tokens that are taken from each head's attention."""

_CONTENT = (
    "duplicate token",
    "induction",
    "token[key - 2] == token[query]",
    "token[key - 3] == token[query]",
    "token[key + 1] == token[query] and key < query - 1",
    "token[key + 2] == token[query] and key < query - 2",
    "token[key - 1] == token[query - 1] and key < query",
    "token[key - 1] == token[query] and token[key - 2] == token[query - 1]",
    "token[key] > token[query]",
    "token[key] < token[query]",
    "smallest token[key] > token[query]",
    "largest token[key] < token[query]",
    "largest key <= query",
    "smallest key <= query",
    "commonest key <= query",
    "rarest key <= query",
)
"""Same token, its neighbours, the continuation of a repeated pair; order and frequency among the keys so far."""

_LEAST = 0.2
"""Attention beyond chance that a relation explains at least, at the queries that have keys of it."""

_SHARE = 0.5
"""Part of the attention beside the first position that lies on the relation, at these queries."""

_ERRORS = 3.0
"""Standard errors over sequences by which the attention on a relation exceeds chance."""

_ERROR_RATE = 0.05
"""Part of the heads whose attention is a random table of tokens that get a name, at most."""

_NAMES_KEY = re.compile(r"token\[key\] == \d")
"""Relations that name the tokens of their keys: they claim nothing about other tokens."""

_QUERIES = 0.01
"""Part of all queries that have keys of a relation, at least."""

_ALIKE = 0.97
"""A relation that explains this part of another is proposed before it if it has fewer keys."""

_REFINED = 4
"""Relations of each head whose latest and earliest keys are tried too."""

_SEQUENCES = 8
"""Fewest sequences: half of them choose."""

_PAIRS = 2**20
"""Pairs of a query and a key that are searched: of a larger batch the first sequences."""

_POSITIONS = 256
"""Positions of a sequence that are searched: the first."""

_COLUMNS = ["head", "relation", "known", "explained", "chance", "error", "queries", "examples"]


def _general(tokens: Int[Tensor, "batch pos"]) -> Iterator[str]:
    """Yield the relations that are tried on every head: of content and of windows."""
    yield from _CONTENT
    for period in range(2, min(_LONGEST_PERIOD, tokens.shape[1] // 2) + 1):
        yield f"(query - key) % {period} == 0 and key < query"
        yield f"key == query - query % {period}"


def _pointed_at(excess: Float[Tensor, "batch query head key"], tokens: Int[Tensor, "batch pos"]) -> Iterator[str]:
    """Yield the offsets, positions, tokens and differences of tokens that heads attend to most beyond uniform."""
    mean = excess.mean(0)
    length, n_heads = len(mean), mean.shape[1]
    offsets = torch.stack([mean.diagonal(-back, 0, 2).sum(-1) for back in range(length)], 1)
    yield from (f"offset {back}" for back in _top(offsets))
    yield from (f"key == {position}" for position in _top(mean.sum(0)) if position)
    by_key = excess.sum(1).mT  # [batch key head]
    ids, which = torch.unique(tokens, return_inverse=True)
    for shift, name in ((0, "token[key] == {}"), (1, "token[key - 1] == {}")):
        sums = excess.new_zeros(len(ids), n_heads)
        sums.index_add_(0, which[:, : length - shift].flatten(), by_key[:, shift:].flatten(0, 1))
        yield from (name.format(ids[token].item()) for token in _top(sums.T))
    steps, which = torch.unique(tokens[:, None] - tokens[:, :, None], return_inverse=True)
    sums = excess.new_zeros(len(steps), n_heads).index_add_(0, which.flatten(), excess.transpose(2, 3).flatten(0, 2))
    for step in (int(steps[each]) for each in _top(sums.T)):
        if step:
            yield f"token[key] == token[query] {'+' if step > 0 else '-'} {abs(step)}"


def _top(values: Float[Tensor, "head value"]) -> list[int]:
    """Return the values that are the largest of some head, each once."""
    return sorted(set(values.topk(min(_POINTED, values.shape[1]), 1).indices.flatten().tolist()))


class _Half(NamedTuple):
    """Half of the sequences: attention beside the first position, on the first position, and of uniform attention."""

    tokens: Int[Tensor, "batch pos"]
    attention: Float[Tensor, "batch query head key"]
    first: Float[Tensor, "batch query head"]
    uniform: Float[Tensor, " query"]

    @classmethod
    def of(cls, attention: Float[Tensor, "batch head query key"], tokens: Int[Tensor, "batch pos"]) -> "_Half":
        beside = attention.transpose(1, 2).contiguous()
        first = beside[..., 0].clone()
        beside[..., 0] = 0.0
        return cls(tokens, beside, first, 1 / torch.arange(1, tokens.shape[1] + 1, device=tokens.device))

    def mass(self, keys: Bool[Tensor, "batch query key"]) -> Float[Tensor, "batch query head"]:
        """Return the attention on the keys; the first position counts only where no other is ever one of them."""
        if not bool(keys[..., 1:].any()):
            return self.first * keys.any(-1)[..., None]
        return (self.attention @ keys.to(self.attention.dtype)[..., None])[..., 0]


class _Fit(NamedTuple):
    """How well a relation explains each head: at the queries that have keys of it, and of all (`total`)."""

    explained: Float[Tensor, " head"]
    chance: Float[Tensor, " head"]
    error: Float[Tensor, " head"]
    total: Float[Tensor, " head"]
    holds: Bool[Tensor, " head"]
    keys: int
    queries: float


def _fit(half: _Half, keys: Bool[Tensor, "batch query key"]) -> _Fit | None:
    """Compare the attention on a relation with chance, uniform or on others; None where few queries have keys."""
    starts, n = keys.any(-1), len(keys)
    number, sequences = int(starts.sum()), int(starts.any(1).sum())
    if number < _QUERIES * starts.numel() or 2 * sequences < n:
        return None
    mass = half.mass(keys).sum(1)
    uniform = (keys.sum(-1) * half.uniform).sum(1)[:, None]
    chance = uniform.expand_as(mass)
    if not bool((keys == keys[:1]).all()):
        on_mean = torch.bmm(half.attention.mean(0), keys.permute(1, 2, 0).to(mass.dtype)).sum(0).T
        others = (n * on_mean - mass) / (n - 1)
        chance = torch.where(others.sum(0) > uniform.sum(), others, chance)
    gains = mass - chance
    gain = gains.sum(0) / number
    scatter = gains - gain * starts.sum(1, keepdim=True)
    error = (scatter.square().sum(0) * n / (n - 1)).sqrt() / number
    explained = mass.sum(0) / number
    beside = (half.attention.sum(-1) if bool(keys[..., 1:].any()) else torch.ones_like(half.first)) * starts[..., None]
    holds = (gain >= _LEAST) & (gain > _ERRORS * error) & (mass.sum(0) >= _SHARE * beside.sum((0, 1)))
    total = (mass - uniform).sum(0) / starts.numel()
    return _Fit(explained, chance.sum(0) / number, error, total, holds, int(keys.sum()), number / starts.numel())


def _over_tokens(name: str, half: _Half, keys: Bool[Tensor, "batch query key"], tried: int) -> Bool[Tensor, " head"]:
    """Return for which heads a relation holds from token to token: Student's t of a vote a token, query or key."""
    holds = torch.ones(half.attention.shape[2], dtype=torch.bool, device=keys.device)
    if bool((keys == keys[:1]).all()):  # of positions alone
        return holds
    keys = keys & (torch.arange(keys.shape[2], device=keys.device) > 0)
    beyond = (half.attention - half.uniform[:, None, None]) * keys[:, :, None]
    ids, which = torch.unique(half.tokens, return_inverse=True)
    for named, gains, number in (
        (False, beyond.sum(3), keys.any(2)),
        (_NAMES_KEY.search(name) is not None, beyond.sum(1).mT, keys.sum(1)),
    ):
        if not named:
            total = gains.new_zeros(len(ids), len(holds)).index_add_(0, which.flatten(), gains.flatten(0, 1))
            count = gains.new_zeros(len(ids)).index_add_(0, which.flatten(), number.flatten().to(gains.dtype))
            votes = total[count > 0] / count[count > 0, None]
            if len(votes) < 2:
                return torch.zeros_like(holds)
            least = stats.t.isf(_ERROR_RATE / tried, len(votes) - 1)
            holds &= votes.mean(0) * len(votes) ** 0.5 > least * votes.std(0)
    return holds


def explain_attention(
    attention: Float[Tensor, "batch head query key"],
    tokens: Int[Tensor, "batch pos"],
    known: Mapping[str, Bool[Tensor, "batch query key"]] | None = None,
) -> pd.DataFrame:
    """Return for each head the relation that explains its attention best, a row a head; "" where none does.

    Every second sequence chooses among all candidates, the others say how much of the attention is explained. The
    first position is what many heads attend to where they have nothing to do: it counts where nothing else is found.
    Columns: `head`; `relation`, as `--relation` takes it; `known`, whether it is one that was given; `explained` and
    `chance`, attention on it at the queries that have keys of it; `error`, the standard error of their difference
    over sequences; `queries`, the part that has keys; `examples`: (sequence, query, key), positions of the batch.

    Args:
        attention: of the heads of a layer.
        tokens: of the same sequences.
        known: relations with names: a head that one of them explains gets its name.

    Raises:
        ValueError: there are fewer than eight sequences.

    >>> tokens = torch.arange(24).repeat(8, 1)
    >>> rows = explain_attention(torch.ones(24, 24).tril().softmax(-1).repeat(8, 1, 1, 1), tokens)
    >>> rows["relation"].tolist()
    ['']
    """
    if len(tokens) < _SEQUENCES:
        raise ValueError(f"relations are searched for on {_SEQUENCES} sequences or more, got {len(tokens)}")
    one, other = (_Half.of(attention[start::2].float(), tokens[start::2]) for start in range(2))
    given = known or {}
    fits = _fits(one, (*_general(one.tokens), *_pointed_at(_excess(one), one.tokens)))
    n_heads = attention.shape[1]
    best = dict.fromkeys(name for head in range(n_heads) for name in _ranked(fits, head)[:_REFINED])
    fits |= _fits(one, (f"{word} {name}" for name in best for word in ("latest", "earliest")))
    proposals = _chosen(fits, one, n_heads)
    chosen = {name for name in proposals if name is not None}
    masks = {name: token_relation(name, tokens) for name in ("first token", *chosen)} | dict(given)
    tried = {name: [_fit(half, keys[k::2]) for k, half in enumerate((one, other))] for name, keys in masks.items()}
    rows = list[dict[str, Any]]()
    for head in range(n_heads):
        possible = [name for name in masks if name in (*given, "first token", proposals[head])]
        held = [name for name in possible if all(fit is not None and fit.holds[head] for fit in tried[name])]
        row: dict[str, Any] = {"head": head, "relation": "", "known": False}
        if held:
            # The batch's own names come before a proposal, and the first position last.
            name = min(held, key=lambda name: (not bool(masks[name][..., 1:].any()), name not in given))
            row |= {"relation": name, "known": name in given, **_numbers(tried[name][1], head)}
            row["examples"] = _examples(other, masks[name][1::2], head)
        rows.append(row)
    return pd.DataFrame(rows, columns=_COLUMNS)


def _numbers(fit: _Fit | None, head: int) -> dict[str, float]:
    assert fit is not None
    values = {name: float(getattr(fit, name)[head]) for name in ("explained", "chance", "error")}
    return {**values, "queries": fit.queries}


def _excess(half: _Half) -> Float[Tensor, "batch query head key"]:
    """Return the attention beyond uniform, beside the first position."""
    excess = half.attention - half.uniform[:, None, None] * half.attention.sum(-1, keepdim=True)
    return excess * torch.ones(2 * excess.shape[1:2], device=excess.device).tril()[:, None]


def _fits(half: _Half, names: Iterable[str]) -> dict[str, _Fit]:
    """Return how well relations fit, but for those whose only keys are first positions."""
    masks = ((name, token_relation(name, half.tokens)) for name in dict.fromkeys(names))
    each = ((name, _fit(half, keys)) for name, keys in masks if bool(keys[..., 1:].any()))
    return {name: fit for name, fit in each if fit is not None}


def _ranked(fits: Mapping[str, _Fit], head: int) -> list[str]:
    """Return the relations by how much of all attention they explain beyond uniform attention, the most first."""
    return sorted(fits, key=lambda name: -float(fits[name].total[head]))


def _chosen(fits: Mapping[str, _Fit], half: _Half, n_heads: int) -> list[str | None]:
    """Return for each head the relation of the fewest keys among those that explain about as much as the best."""
    holding = {name: fit.holds for name, fit in fits.items() if bool(fit.holds.any())}
    for name in holding:
        holding[name] = holding[name] & _over_tokens(name, half, token_relation(name, half.tokens), len(fits))
    chosen = list[str | None]()
    for head in range(n_heads):
        ranked = [name for name in _ranked(fits, head) if name in holding and holding[name][head]]
        alike = [name for name in ranked if fits[name].total[head] >= _ALIKE * fits[ranked[0]].total[head]]
        chosen.append(min(alike, key=lambda name: fits[name].keys, default=None))
    return chosen


def _examples(half: _Half, keys: Bool[Tensor, "batch query key"], head: int) -> list[tuple[int, int, int]]:
    """Return sequence, query and key where the relation explains most, of two sequences."""
    surplus = half.mass(keys)[..., head] - keys.sum(-1) * half.uniform
    most = surplus.max(1)
    attention = half.attention[:, :, head] if bool(keys[..., 1:].any()) else half.first[:, :, head, None]
    examples = []
    for sequence in most.values.topk(2).indices.tolist():
        query = int(most.indices[sequence])
        key = int((attention[sequence, query] * keys[sequence, query]).argmax())
        examples.append((2 * sequence + 1, query, key))
    return examples


def propose_relations(
    series: CheckpointSeries, batch: Batch | None = None, step: int | None = None, *, device: str = "cpu"
) -> pd.DataFrame:
    """Return for each head of a checkpoint the relation that explains its attention, a row a head.

    The batch's own relations come first; a head that none of them explains gets a proposal. The columns are `layer`
    and those of `explain_attention`; a relation is a name that `Batch.from_tokens` and `--relation` take.

    Args:
        series: from any source; of a model in memory, `open_series([(0, model)])`.
        batch: sequences of tokens; None takes `RepeatedTokens` of the model's size. Reads the first 256 positions of
            long sequences, and the first ones of many.
        step: of the checkpoint; None takes the last.
        device: where to run the model.

    Raises:
        ValueError: the batch holds input vectors, or fewer than eight sequences; or the series has no such step.
    """
    check_series(series)
    batch = series_batch(series) if batch is None else batch
    check_batch(batch, series.architecture, (), f"the series {series.name}")
    length = min(batch.token_ids("a search for relations").shape[1], _POSITIONS)
    batch = batch[: max(_SEQUENCES, _PAIRS // length**2)]
    known = {name: keys[:, :length, :length] for name, keys in batch.relations.items()}
    tokens, model = batch.tokens[:, :length], series.model(series.steps[-1] if step is None else step).to(device)
    tables = []
    for layer, hook in enumerate(pattern_hooks(series.architecture)):
        # One layer at a time: the patterns of all of them may not fit into memory.
        passes = (models.clean_pass(model, part.to(device), [hook])[1] for part in torch.split(tokens, _SEQUENCES))
        attention = torch.cat([each[hook].cpu() for each in passes])
        tables.append(explain_attention(attention, tokens, known).assign(layer=layer))
    return pd.concat(tables, ignore_index=True)[["layer", *_COLUMNS]]
