"""Random tokens, then a stretch of them again: it measures heads of a model whose task has no reference solution."""

import dataclasses
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.fields import Count, check_fields
from stagewise.presets import AbstractTextTask
from stagewise.task import Batch, check_number
from stagewise.tasks.text import tokenizer_of
from stagewise.text import first_token, vocabulary_size

_LONGEST = 32
"""Different tokens of the batch for a model of any size; half as many are repeated."""


@dataclasses.dataclass(frozen=True)
class RepeatedTokens(AbstractTextTask):
    """`length` different random tokens, then `again` of them in a row, from a random position on.

    The distance to the same token, the lag, thus varies by sequence, evenly from `again` to `length`: a head that
    attends to a fixed offset has at most 1 / (length - again + 1) of the induction score. Only the repeated
    stretch can be predicted, and only it is scored. From a query at position t of it, the relations are

    - `previous token`: t - 1,
    - `duplicate token`: t - lag, the same token before,
    - `induction`: t - lag + 1, what followed it there,
    - `first token`: 0,  `self`: t.

    Previous token, first token and self hold in the first part too, except at position 0, which has no earlier key:
        `along` of `AttentionTo` reads all queries of a relation, `mass` the scored ones.

    The references are the uniform distribution, the uniform one over the tokens of the sequence, and the copy.

    Args:
        d_vocab: number of tokens of the model.
        length: of the first part, at most d_vocab or n_outputs.
        again: length of the repeated stretch, at most `length`, for which every lag is the same; None takes the half.
        bos: a token to put first, where the models were trained with one; "first token" is then that one.
        n_sequences: size of the training set; None for fresh data at every step.
        n_outputs: tokens that the model predicts, the first ones, where these are not all; random tokens are drawn from
            them. None for d_vocab.
        n_words: tokens that the models were trained on, the first ones, where the embedding has more rows: random
            tokens are drawn from them. None for all.

    Source: the repeated random sequences of Olsson et al. (2022), In-context Learning and Induction Heads,
    arXiv:2209.11895, section "Head activation evaluators"; `induction` is their prefix matching score. Deviation: they
    repeat the whole, so that every lag is the same.

    >>> batch = RepeatedTokens(d_vocab=50, length=6).sample(1, seed=2)
    >>> batch.tokens[0].tolist(), batch.scored[0].int().tolist()
    ([19, 13, 23, 33, 45, 36, 23, 33], [0, 0, 0, 0, 0, 0, 1, 1])
    >>> batch.relations["induction"][0, 6].int().tolist()
    [0, 0, 0, 1, 0, 0, 0, 0]
    """

    d_vocab: int = 64  # a field implements the abstract property
    length: int = 32
    again: int | None = None
    bos: int | None = None
    n_sequences: Count | None = None
    n_outputs: int | None = None
    n_words: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.n_outputs is not None and self.n_outputs < 2:
            raise ValueError(f"n_outputs must be at least 2, or None for d_vocab; got {self.n_outputs}")
        if not 2 <= self.length <= self._both:
            name = next(name for name in ("d_vocab", "n_outputs", "n_words") if getattr(self, name) == self._both)
            raise ValueError(
                f"length must be between 2 and {name} = {self._both}, so that no token comes twice in the first "
                f"part; got {self.length}"
            )
        if self.again is not None and not 2 <= self.again <= self.length:
            raise ValueError(f"again must be between 2 and length = {self.length}, got {self.again}")
        if self.bos is not None and not 0 <= self.bos < self.d_vocab:
            raise ValueError(f"bos must be one of the {self.d_vocab} tokens, got {self.bos}")

    @classmethod
    def for_series(cls, series: CheckpointSeries) -> "RepeatedTokens":
        """Return the task of a series' models: without a tokenizer beside them that of `for_model`, with one of its
        tokens alone, after the one that it puts first. Rows of an embedding beyond these were never trained.
        """
        if (file := tokenizer_of(series)) is None:
            return cls.for_model(series.architecture)
        return cls._of(series.architecture, first_token(str(file)), vocabulary_size(str(file)))

    @classmethod
    def for_model(cls, architecture: Architecture) -> "RepeatedTokens":
        """Return the task of a model's size, after its BOS token if its config names one.

        Raises:
            ValueError: the model has too few positions, or tokens, for any of them to come again.

        >>> sizes = {"n_layers": 1, "d_model": 8, "d_head": 8, "n_ctx": 23, "d_vocab": 50}
        >>> RepeatedTokens.for_model(Architecture(sizes)).n_ctx
        23
        """
        return cls._of(architecture, architecture.bos)

    @classmethod
    def _of(cls, architecture: Architecture, bos: int | None, n_words: int | None = None) -> "RepeatedTokens":
        d_vocab, n_ctx = int(architecture.config["d_vocab"]), int(architecture.config["n_ctx"])
        n_outputs = architecture.n_outputs
        n_words = None if n_words is None or n_words >= d_vocab else n_words
        both = min(d_vocab, n_outputs, n_words or d_vocab)
        tokens, longest = both - (bos is not None and bos < both), cls.longest(n_ctx, bos is not None)
        if min(tokens, longest) < 2:
            few = f"a context of {n_ctx}" if longest < 2 else f"{tokens} tokens that are read and predicted"
            raise ValueError(
                f"the default probe batch repeats random tokens, and the model has {few}, too few for that: measure on "
                "sequences that it was trained on, by --tokens FILE, in Python batch=Batch.from_tokens(tokens)"
            )
        length = min(_LONGEST, longest, tokens)
        outputs = None if n_outputs == d_vocab else n_outputs
        return cls(d_vocab, length=length, bos=bos, n_outputs=outputs, n_words=n_words)

    @staticmethod
    def longest(n_ctx: int, bos: bool = False) -> int:
        """Return the largest `length` whose sequences, with half of it again, a model of `n_ctx` positions can see.

        >>> RepeatedTokens(length=RepeatedTokens.longest(47)).n_ctx
        47
        """
        total = n_ctx + 1 - bos
        return min((2 * total + 1) // 3, total - 2)

    @property
    def n_ctx(self) -> int:
        """Positions that a model sees: the whole sequence less its last one."""
        return self._second + self._repeated - 1

    @property
    def _outputs(self) -> int:
        """Tokens that are predicted."""
        return self.d_vocab if self.n_outputs is None else self.n_outputs

    @property
    def _both(self) -> int:
        """Tokens that are read and predicted, and that the models were trained on."""
        return min(self.d_vocab, self._outputs, self.n_words or self.d_vocab)

    @property
    def _repeated(self) -> int:
        return max(2, self.length // 2) if self.again is None else self.again

    @property
    def _shift(self) -> int:
        return int(self.bos is not None)

    @property
    def _second(self) -> int:
        """Where the repeated stretch begins."""
        return self.length + self._shift

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sequences with the relations of their repeated stretch."""
        check_number(n)
        generator = torch.Generator().manual_seed(seed)
        keys = torch.rand(n, self._both, generator=generator)
        if self.bos is not None and self.bos < self._both:
            keys[:, self.bos] = -1.0
        first = keys.topk(self.length, dim=1).indices
        start = torch.randint(self.length - self._repeated + 1, (n, 1), generator=generator)
        again = first.gather(1, start + torch.arange(self._repeated))
        prefix = torch.full((n, self._shift), self.bos or 0)
        sequence = torch.cat([prefix, first, again], 1)
        scored = (torch.arange(self.n_ctx) >= self._second).expand(n, -1)
        return Batch(sequence[:, :-1], sequence[:, 1:], scored, self._relations(self.length - start))

    @property
    def nested(self) -> tuple[str, ...]:
        """None of the references: models that were trained on something else do not go through them."""
        return ()

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return (nats) the uniform distribution, that over the sequence's tokens, and the copy, where scored.

        Elsewhere the copy holds the uniform distribution. The first two hold one row for all positions of a sequence.
        """
        n, width = batch.tokens.shape
        uniform = torch.tensor(-math.log(self._outputs)).expand(n, width, self._outputs)
        of_sequence = torch.full((n, self._outputs), -torch.inf)
        of_sequence.scatter_(1, batch.tokens[:, self._shift : self._second], -math.log(self.length))
        copy = torch.full_like(uniform, -torch.inf).scatter_(2, batch.targets[..., None], 0.0)
        copy[~batch.scored] = -math.log(self._outputs)
        return {"uniform": uniform, "tokens of the sequence": of_sequence[:, None].expand_as(uniform), "copy": copy}

    def _relations(self, lags: Int[Tensor, "batch 1"]) -> dict[str, Bool[Tensor, "batch query key"]]:
        query, key = torch.arange(self.n_ctx)[:, None], torch.arange(self.n_ctx)[None]
        second, lag = query >= self._second, lags[..., None]
        masks = {
            "previous token": key == query - 1,
            "duplicate token": second & (key == query - lag),
            "induction": second & (key == query - lag + 1),
            "first token": (key == 0) & (query > 0),
            "self": (key == query) & (query > 0),
        }
        return {name: mask.expand(len(lags), -1, -1) for name, mask in masks.items()}
