"""A task: sampled sequences, their scored predictions, relations that a head may attend to, and reference solutions.

The glossary of axes and columns is that of the package: `help(stagewise)`.
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.text import encode
from stagewise.text.token_relations import RELATIONS, Relations, token_relations

TRAINING, EVALUATION, TEACHER = range(3)
"""The purposes of `derive_seed`: training and evaluation data never share a stream, even under one seed."""


def derive_seed(seed: int, *path: int) -> int:
    """Derive an independent seed for a purpose, so that the data of step s are a function of (seed, s) alone.

    >>> derive_seed(0, TRAINING, 7) == derive_seed(0, TRAINING, 7) != derive_seed(0, EVALUATION, 7)
    True
    """
    return int(np.random.SeedSequence(seed, spawn_key=path).generate_state(1, np.uint64)[0]) >> 1


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
    def from_text(cls, text: str, tokenizer: Any, length: int = 64, relations: Relations = RELATIONS) -> "Batch":
        """Return a text as a batch: windows of so many positions, or all of a text that is shorter.

        Args:
            text: the text itself.
            tokenizer: the model's: in memory, of transformers, tokenizers or tiktoken; a function from a text to token
                ids; a tokenizer.json, its folder, or a repository of the hub.
            length: positions that a model sees.
            relations: as `from_tokens` takes them.

        Raises:
            ValueError: it is no tokenizer, or the text has less than two tokens.

        >>> Batch.from_text("abcabcab", lambda text: [ord(letter) for letter in text], length=3).tokens.tolist()
        [[97, 98, 99], [98, 99, 97]]
        """
        token_ids = torch.tensor(encode(text, tokenizer), dtype=torch.int64)
        taken = min(length + 1, len(token_ids))
        n = len(token_ids) // max(taken, 1)
        return cls.from_tokens(token_ids[: n * taken].view(n, taken), relations)

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
        return dataclasses.replace(
            self,
            tokens=change(self.tokens),
            targets=change(self.targets),
            scored=change(self.scored),
            relations={name: change(mask) for name, mask in self.relations.items()},
            references={name: change(log_probs) for name, log_probs in self.references.items()},
        )

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
        return self.relations[relation].any(-1).any(-1)

    def with_relations(self, names: Iterable[str]) -> "Batch":
        """Return the batch with these of its relations only."""
        return dataclasses.replace(self, relations={name: self.relations[name] for name in names})

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


def check_number(n: int) -> None:
    """Raise ValueError where no sequences are to be sampled."""
    if n < 1:
        raise ValueError(f"the number of sequences must be positive, got {n}")


def chosen(requested: Iterable[str] | None, available: Mapping[str, Tensor], kind: str) -> list[str]:
    """Return the requested names, each once, or all names.

    Raises:
        ValueError: a name that the batch does not have, or no names at all.
    """
    if not available:
        raise ValueError(f"the batch has no {kind}s; a task's `probe_batch` has those that the task defines")
    names = list(available) if requested is None else list(dict.fromkeys(requested))
    if unknown := [name for name in names if name not in available]:
        known = ", ".join(map(repr, available))
        raise ValueError(f"the batch has no {kind} {', '.join(map(repr, unknown))}; it has {known}")
    return names


class AbstractTask(abc.ABC):
    """A task whose solution is known. A leaf is a frozen dataclass of its parameters; all methods are pure.

    A parameter out of its range is a ValueError, which names it, its range and what came.

    `n_sequences` is the size of the training set; a leaf that has no such field trains on fresh data at every step.
    """

    n_sequences: int | None = None

    relations_move: ClassVar[bool] = False
    """Whether relations lie at other positions in each sequence: then no map of mean attention can outline them."""

    @classmethod
    def presets(cls) -> Mapping[str, Callable[..., Any]]:
        """Return recipes of this task by name, the default first: see `presets.Preset`; a task without any has the one
        for any task."""
        return {}

    @property
    def nested(self) -> tuple[str, ...] | None:
        """The references that are partial solutions, in the order in which a model goes through them, the complete one
        last; None for all but the uniform distribution, in the order of `references`; an empty tuple for none."""
        return None

    @property
    def contexts(self) -> tuple[int, ...] | None:
        """How many of the last tokens each partial solution reads, ascending: the contexts to restrict a model to; None
        for powers of two."""
        return None

    def value_features(self) -> Mapping[str, Float[Tensor, "token_out token_in"]]:
        """Return, by name, the matrices that a head's value map (token in, logits out) may learn; none by
        default."""
        return {}

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return how each token is written where a sequence is shown: its number, or its text."""
        return [str(token) for token in tokens]

    @property
    def available(self) -> int | None:
        """How many different sequences it has to measure on; None for as many as are asked for."""
        return None

    @property
    @abc.abstractmethod
    def d_vocab(self) -> int:
        """Number of tokens; of a task of input vectors, their number of features."""

    @property
    @abc.abstractmethod
    def n_ctx(self) -> int:
        """Number of positions of a sequence that a model sees."""

    @abc.abstractmethod
    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences with their targets, scored positions and relations."""

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return named solutions as log-probabilities (nats), the complete one last (see `nested`); none by default."""
        return {}

    def probe_batch(self, n: int, seed: int) -> Batch:
        """Sample n evaluation sequences, with references: the one fixed batch that every checkpoint is probed on."""
        batch = self.sample(n, derive_seed(seed, EVALUATION))
        return dataclasses.replace(batch, references=self.references(batch), nested=self.nested)

    def repeated_batch(self, seed: int) -> Batch | None:
        """Sample random tokens and some of them again, which a run is measured on besides; None by default."""
        return None

    def stream(self, seed: int) -> Callable[[int, int], Batch]:
        """Return the training data: a function of (step, batch size), the same for every call with the same step.

        A finite data set smaller than the batch is given whole.
        """
        if self.n_sequences is None:
            return lambda step, size: self.sample(size, derive_seed(seed, TRAINING, step))
        data = self.sample(self.n_sequences, derive_seed(seed, TRAINING))
        total = self.n_sequences

        def draw(step: int, size: int) -> Batch:
            generator = np.random.default_rng(derive_seed(seed, TRAINING, step))
            rows = torch.from_numpy(generator.choice(total, min(size, total), replace=False))
            return dataclasses.replace(data, relations={})[rows]

        return draw
