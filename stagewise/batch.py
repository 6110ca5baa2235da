"""A batch: sequences with all that training and probes need to know; prompts with right and wrong answers among them.

The glossary of axes and columns is that of the package: `help(stagewise)`.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.text import encode
from stagewise.text.pairs import EncodedPairs, encode_pairs, read_pairs
from stagewise.text.token_relations import RELATIONS, Relations, token_relations

END = "END"
"""The label of a prompt's last position, whose prediction is the answer."""

_RELATIONS = ("previous token", "duplicate token", "induction")
_NONE = -1
"""In the place of a further answer where a prompt has fewer than others."""


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Sequences with everything that training and probes need to know about them.

    `tokens` are token ids, or input vectors: a one-hot vector equals its token, since both go through W_E. `targets`
    are the tokens to predict, or of a regression the vectors. `scored` marks the predictions that count. `relations`
    names sets of keys that a head may attend to from each query.
    `references` are named solutions, or other predictors to compare with, as log-probabilities (nats), the complete
    solution last. `nested` names the partial solutions among them that a model goes through in this order, the complete
    one last; None for all but a uniform distribution. `contexts` gives, of the references that are
    models trained on a restricted context, the number of tokens that they see.

    Raises:
        ValueError: no sequences, shapes that do not fit, or `nested` or `contexts` name an unknown reference.
    """

    tokens: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"]
    targets: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos output"]
    scored: Bool[Tensor, "batch pos"]
    relations: Mapping[str, Bool[Tensor, "batch query key"]] = dataclasses.field(default_factory=dict)
    references: Mapping[str, Float[Tensor, "batch pos token"]] = dataclasses.field(default_factory=dict)
    nested: tuple[str, ...] | None = None
    contexts: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        size = tuple(self.tokens.shape[:2])
        if 0 in size or len(size) < 2:
            raise ValueError(f"a batch is at least one sequence of one position, got tokens {tuple(self.tokens.shape)}")
        parts = {"targets": self.targets, "scored": self.scored, **self.relations, **self.references}
        if unfit := [name for name, values in parts.items() if tuple(values.shape[:2]) != size]:
            got = f"{unfit[0]} is {tuple(parts[unfit[0]].shape)}"
            raise ValueError(f"tokens are {size} (sequences, positions), {got}")
        for field, names in (("nested", self.nested or ()), ("contexts", self.contexts)):
            if unknown := [name for name in names if name not in self.references]:
                raise ValueError(
                    f"{field} names the reference {unknown[0]!r}, which the batch does not have; it has "
                    f"{', '.join(map(repr, self.references)) or 'none'}"
                )

    @classmethod
    def from_tokens(
        cls,
        tokens: Int[Tensor, "batch length"]
        | Int[np.ndarray, "batch length"]
        | Sequence[Sequence[int] | Int[Tensor, " _"]],
        relations: Relations = RELATIONS,
        scored: Bool[Tensor, "batch pos"] | None = None,
    ) -> "Batch":
        """Return sequences of one's own as a batch: each token is predicted from those before it.

        Args:
            tokens: tensor, array or lists, the last token to predict: one more than the positions that a model sees.
            relations: names of `text.token_relations`, as "induction" or "offset 3"; or a mapping from names of one's
                own to such names, to functions of the tokens that a model sees, or to masks Bool[batch query key].
            scored: which predictions count; None for all.

        Raises:
            ValueError: an unknown relation, or one that returns no such mask; sequences of fewer than two tokens, or of
                several lengths; tokens that are no whole numbers.

        >>> own = {"previous token": "previous token", "three back": lambda tokens: torch.ones(1, 5, 5).tril(-3).bool()}
        >>> list(Batch.from_tokens(torch.tensor([[4, 7, 4, 7, 4, 7]]), own).relations)
        ['previous token', 'three back']
        """
        tokens = _of_one_length(tokens)
        if len(shape := tuple(tokens.shape)) != 2 or shape[1] < 2:
            raise ValueError(f"sequences [batch, pos] have two tokens at least, the last one to predict; got {shape}")
        if tokens.is_floating_point() and bool((tokens != tokens.round()).any()):
            raise ValueError(f"tokens are whole numbers, got {tokens[tokens != tokens.round()][0].item():g} among them")
        seen, targets = tokens[:, :-1].long(), tokens[:, 1:].long()
        scored = torch.ones_like(seen, dtype=torch.bool) if scored is None else scored
        return cls(seen, targets, scored, token_relations(seen, relations))

    @classmethod
    def from_pairs(
        cls, pairs: Any, tokenizer: Any, *, first: int | None = None, summed: bool | None = None
    ) -> "Prompts":
        """Return prompts with a right and a wrong answer as a batch, whose behaviour `BehaviourCurve` measures.

        Args:
            pairs: a file, or rows with `prompt`, `right` and `wrong`: see `text.pairs`.
            tokenizer: the model's: in memory, of transformers, tokenizers or tiktoken; a function from a text to token
                ids; a tokenizer.json, its folder, or a repository of the hub.
            first: a token that begins every prompt; None for none.
            summed: whether answers are compared by their summed log-probability, not by their first token; None decides
                by the format.

        Raises:
            ValueError: fewer than four pairs, answers that begin alike, or corrupted prompts of another length.

        >>> rows = [{"prompt": f"{a}{b}{a}", "right": b, "wrong": a, "S2": -1} for a in "xy" for b in "pq"]
        >>> Batch.from_pairs(rows, lambda text: [ord(letter) for letter in text]).tokens[0].tolist()
        [120, 112, 120]
        """
        encoded = encode_pairs(read_pairs(pairs), lambda text: encode(text, tokenizer), str, first, summed=summed)
        return prompts_of(encoded)

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def __repr__(self) -> str:
        n, length = self.tokens.shape[:2]
        kind = "input vectors" if self.tokens.is_floating_point() else "tokens"
        scored = f"{int(self.scored.sum())} of {self.scored.numel()} predictions are scored"
        parts = {
            "relations": [f"{name} (in {int(self.starts(name).sum())})" for name in self.relations],
            "references": list(self.references),
            "nested": list(self.nested or ()),
        }
        lines = [f"  {what}: {', '.join(names)}" for what, names in parts.items() if names]
        return "\n".join([f"Batch({n} sequences of {length} {kind}; {scored})", *lines])

    @property
    def is_regression(self) -> bool:
        """Whether the targets are vectors, and the loss half the squared error."""
        return self.targets.is_floating_point()

    def __getitem__(self, rows: Int[Tensor, " row"] | Bool[Tensor, " batch"] | slice) -> "Batch":
        """Return the chosen sequences."""
        return self._each(lambda values: values[rows])

    def to(self, device: str | torch.device) -> "Batch":
        """Return the batch with every tensor on `device`."""
        return self._each(lambda values: values.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return dataclasses.replace(self, **self._changed(change))

    def _changed(self, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        return {
            "tokens": change(self.tokens),
            "targets": change(self.targets),
            "scored": change(self.scored),
            "relations": {name: change(mask) for name, mask in self.relations.items()},
            "references": {name: change(log_probs) for name, log_probs in self.references.items()},
        }

    def check_ids(self, d_vocab: int, of: str = "the model", outputs: int | None = None) -> None:
        """Raise ValueError for ids that are no tokens, or targets that are none of the `outputs` (None: tokens too)."""
        for name, ids, n in (("token", self.tokens, d_vocab), ("target", self.targets, outputs or d_vocab)):
            if not ids.is_floating_point() and len(wrong := ids[(ids < 0) | (ids >= n)]):
                advice = "take the tokenizer that it was trained with, or a task of its size"
                if name == "token" and int(wrong[0]) < 0:
                    advice = "if it is padding, leave it out, as by the `attention_mask` of a file of tokens"
                if name == "target" and int(wrong[0]) < 0:
                    advice = "put any token where no prediction counts, and False in `scored`"
                raise ValueError(
                    f"the batch holds {name} {int(wrong[0])}, and {of} has {n} tokens, counted from 0: {advice}"
                )

    def token_ids(self, reader: str) -> Int[Tensor, "batch pos"]:
        """Return the tokens for what tells them apart.

        Raises:
            ValueError: they are input vectors; the message names the reader.
        """
        if self.tokens.is_floating_point():
            raise ValueError(f"{reader} tells tokens apart, and this batch holds input vectors: leave it out")
        return self.tokens

    def starts(self, relation: str) -> Bool[Tensor, " batch"]:
        """Return in which sequences a relation starts: where some query has a key of it."""
        return self.having_keys[relation].any(-1)

    @cached_property
    def having_keys(self) -> Mapping[str, Bool[Tensor, "batch query"]]:
        """Which queries have keys of each relation, the same at every checkpoint."""
        return {name: keys.any(-1) for name, keys in self.relations.items()}

    @cached_property
    def nested_references(self) -> tuple[str, ...]:
        """The names of the nested partial solutions in their order, the complete one last."""
        if self.nested is not None:
            return self.nested
        return tuple(name for name, log_probs in self.references.items() if (log_probs != log_probs.flatten()[0]).any())

    def with_references(
        self, references: Mapping[str, Float[Tensor, "batch pos token"]], contexts: Mapping[str, int] | None = None
    ) -> "Batch":
        """Return the batch with further references (log-probabilities, nats) to compare with, before those it has.

        Args:
            references: by name; none of them is a partial solution.
            contexts: of those that are models trained on a restricted context, how many tokens they see.
        """
        both, known = {**references, **self.references}, {**self.contexts, **(contexts or {})}
        return dataclasses.replace(self, references=both, nested=self.nested_references, contexts=known)


def _of_one_length(tokens: Tensor | np.ndarray | Sequence[Sequence[int] | Tensor]) -> Tensor:
    if isinstance(tokens, Tensor | np.ndarray):
        return torch.as_tensor(tokens)
    rows = [torch.as_tensor(row) for row in tokens]
    lengths = sorted({row.numel() for row in rows})
    if len(lengths) > 1:
        raise ValueError(
            f"sequences have one length, got {lengths[0]} to {lengths[-1]} tokens: shorten them, or pad them behind "
            "with any token and give `scored`, False where that is the one to predict"
        )
    return torch.stack(rows) if rows else torch.empty(0)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Prompts(Batch):
    """Prompts whose last prediction is scored, with the tokens of right and of wrong answers.

    Args:
        right, wrong: first tokens of answers, -1 where a prompt has fewer than another one.
        places: label -> position in each prompt; END is the last one.
        group: number of the prompt's length: means over prompts are over those of one group.
        commonest: 1 where the one of the two answers that is right more often in all prompts is right, 0 where it is
            wrong, 0.5 where both are right as often.
        others: prompts that go with these, one for one: "corrupted", "neutral"; and "wrong", the wrong answers written
            out, where `summed`.
        summed: whether summed log-probabilities of all tokens of the answers are compared, in place of logits.
    """

    right: Int[Tensor, "batch right"]
    wrong: Int[Tensor, "batch wrong"]
    places: Mapping[str, Int[Tensor, " batch"]]
    group: Int[Tensor, " batch"]
    commonest: Float[Tensor, " batch"]
    others: Mapping[str, Batch] = dataclasses.field(default_factory=dict)
    summed: bool = False

    @property
    def several_lengths(self) -> bool:
        """Whether prompts differ in length."""
        return bool((self.group != self.group[0]).any())

    def at(self, place: str) -> Bool[Tensor, "batch pos"]:
        """Return where a label is."""
        if place not in self.places:
            raise ValueError(f"no prompt has the label {place!r}: there are {', '.join(self.places)}")
        positions = torch.arange(self.tokens.shape[1], device=self.tokens.device)
        return positions == self.places[place][:, None]

    def difference(self, logits: Float[Tensor, "batch token"]) -> Float[Tensor, " batch"]:
        """Return log(P(right) / P(wrong)), nats: the logit difference, of one answer each; gradients flow back."""
        return _together(logits, self.right) - _together(logits, self.wrong)

    def at_end(self, scored: Float[Tensor, "scored token"]) -> Float[Tensor, " batch"]:
        """Return `difference` from the logits of all scored positions."""
        return self.difference(scored[self.at(END)[self.scored]])

    def log_right(self, log_probs: Float[Tensor, "batch token"]) -> Float[Tensor, " batch"]:
        """Return the log-probability of the right answers together, nats."""
        return _together(log_probs, self.right)

    def rank(self, logits: Float[Tensor, "batch token"]) -> Float[Tensor, " batch"]:
        """Return the rank of the likeliest right answer among all tokens, from 1."""
        best = _of(logits, self.right).amax(1, keepdim=True)
        return 1.0 + (logits > best).sum(1)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
        return {
            **super()._changed(change),
            **{name: change(getattr(self, name)) for name in ("right", "wrong", "group", "commonest")},
            "places": {name: change(position) for name, position in self.places.items()},
            "others": {name: other._each(change) for name, other in self.others.items()},
        }


def _of(logits: Float[Tensor, "batch token"], answers: Int[Tensor, "batch answer"]) -> Float[Tensor, "batch answer"]:
    return logits.gather(1, answers.clamp(min=0)).masked_fill(answers == _NONE, -torch.inf)


def _together(logits: Float[Tensor, "batch token"], answers: Int[Tensor, "batch answer"]) -> Float[Tensor, " batch"]:
    return _of(logits, answers).logsumexp(1)


def prompts_of(encoded: EncodedPairs) -> Prompts:
    """Return encoded pairs as a batch; prompts of one length are neighbours, the shortest first."""
    pairs = sorted(encoded.pairs, key=lambda pair: len(pair.prompt))
    lengths, several = [len(pair.prompt) for pair in pairs], None if encoded.summed else 1
    batch = _scored([[*pair.prompt, *pair.right[0][:several]] for pair in pairs], lengths)
    others = {
        name: dataclasses.replace(batch, tokens=_filled([pair.others[name] for pair in pairs], batch.tokens.shape[1]))
        for name in pairs[0].others
    }
    if encoded.summed:
        others = {"wrong": _scored([[*pair.prompt, *pair.wrong[0]] for pair in pairs], lengths)}
    places = {name: torch.tensor([pair.places[name] for pair in pairs]) for name in pairs[0].places}
    places[END] = torch.tensor(lengths).sub(1).clamp(min=0)
    counts = Counter(pair.right[0][0] for pair in pairs)
    more = [counts[pair.right[0][0]] - counts[pair.wrong[0][0]] for pair in pairs]
    return Prompts(
        batch.tokens, batch.targets, batch.scored, _relations(batch.tokens, places),
        right=_filled([[each[0] for each in pair.right] for pair in pairs], fill=_NONE),
        wrong=_filled([[each[0] for each in pair.wrong] for pair in pairs], fill=_NONE),
        places=places,
        group=torch.tensor([sorted({*lengths}).index(each) for each in lengths]),
        commonest=0.5 + 0.5 * torch.tensor(more).sign(),
        others=others,
        summed=encoded.summed,
    )  # fmt: skip


def _scored(sequences: Sequence[Sequence[int]], lengths: Sequence[int]) -> Batch:
    """Return sequences whose tokens behind the prompts are predicted; a sentence is, from its second token on."""
    tokens = _filled(sequences)
    position = torch.arange(tokens.shape[1] - 1)
    first, last = torch.tensor(lengths)[:, None], torch.tensor([len(each) for each in sequences])[:, None]
    scored = (position >= (first - 1).clamp(min=0)) & (position < last - 1)
    return Batch(tokens[:, :-1], tokens[:, 1:], scored)


def _filled(rows: Sequence[Sequence[int]], width: int = 0, fill: int = 0) -> Int[Tensor, "batch pos"]:
    width = max(width, *map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])


def _relations(
    tokens: Int[Tensor, "batch pos"], places: Mapping[str, Int[Tensor, " batch"]]
) -> dict[str, Bool[Tensor, "batch query key"]]:
    """Return what heads may attend to: from END the labelled positions, S1 from S2; and the relations of tokens."""
    position = torch.arange(tokens.shape[1])
    at = {name: position == place[:, None] for name, place in places.items()}
    pairs = [(END, name) for name in places if name != END] + [("S2", "S1")] * ({"S1", "S2"} <= places.keys())
    named = {f"{query} to {key}": at[query][:, :, None] & at[key][:, None] for query, key in pairs}
    inside = position <= places[END][:, None]
    return named | {name: mask & inside[..., None] for name, mask in token_relations(tokens, _RELATIONS).items()}
