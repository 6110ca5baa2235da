"""Indirect objects: of two names the one that comes once is the answer, a behaviour whose parts form one by one."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise.architectures import reshaped
from stagewise.fields import Count, check_fields
from stagewise.plan import Seeds, TrainPlan
from stagewise.presets import Preset, text_architecture
from stagewise.recipe import Recipe
from stagewise.schedules import logarithmic
from stagewise.task import AbstractTask, Batch, check_number

NAMES = (
    *("Ann", "Ben", "Cid", "Dan", "Eve", "Fay", "Gil", "Hal", "Ida", "Jon", "Kim", "Lea"),
    *("Max", "Ned", "Oli", "Pam", "Quin", "Ron", "Sue", "Tom", "Una", "Vic", "Wes", "Zoe"),
)
_BETWEEN = (("when", "while", "after"), ("and", "with"), ("met", "talked", "walked"), ("gave", "sent", "handed"))
_END = "to"

_FIRST, _SECOND, _AGAIN = 1, 3, 5
"""Positions of both names, and of the one that comes again."""


@dataclasses.dataclass(frozen=True)
class IndirectObjects(AbstractTask):
    """Sentences as "when Ann and Ben met Ann gave to", whose answer is the name that came once, "Ben".

    Either name may be the one that comes again, and words between them vary. Only the last prediction is scored. Its
    solutions are any name, either name of the sentence (what copying both gives), and the name that came once. A model
    that copies what comes most often prefers the wrong name: the dip before the behaviour.

    Args:
        n_names: names that are drawn, the first of `NAMES`.
        n_sequences: sentences of the training set; None draws them anew at every step.

    Raises:
        ValueError: a parameter is out of range.

    Source: the sentences of Wang et al. (2022), Interpretability in the Wild, arXiv:2211.00593, made small.

    >>> task = IndirectObjects()
    >>> " ".join(task.as_text(task.sample(1, seed=0).tokens[0].tolist()))
    'after Vic with Hal walked Hal gave to'
    """

    n_names: Count = 24
    n_sequences: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not 3 <= self.n_names <= len(NAMES):
            raise ValueError(f"n_names is between 3 and {len(NAMES)}, got {self.n_names}")

    @classmethod
    def presets(cls) -> Mapping[str, Preset]:
        """Return "small": three attention-only layers of four heads, a minute or two of one core."""
        return {"small": partial(_small, cls)}

    @property
    def words(self) -> tuple[str, ...]:
        """The word of every token: names first."""
        return (*NAMES[: self.n_names], *(word for words in _BETWEEN for word in words), _END)

    @property
    def d_vocab(self) -> int:
        """Number of words."""
        return len(self.words)

    @property
    def n_ctx(self) -> int:
        """Positions of a sentence without its answer."""
        return 2 * len(_BETWEEN)

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return the words."""
        return [self.words[token] for token in tokens]

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sentences; relations are of the last position and of the name that comes again."""
        check_number(n)
        generator = torch.Generator().manual_seed(seed)
        names = torch.rand(n, self.n_names, generator=generator).topk(2).indices
        swapped = torch.rand(n, generator=generator) < 0.5
        tokens, start = torch.empty(n, self.n_ctx, dtype=torch.int64), self.n_names
        for place, words in zip((0, 2, 4, 6), _BETWEEN, strict=True):
            tokens[:, place] = start + torch.randint(len(words), (n,), generator=generator)
            start += len(words)
        tokens[:, _FIRST], tokens[:, _SECOND] = names.unbind(1)
        tokens[:, _AGAIN], tokens[:, -1] = names[torch.arange(n), swapped.long()], start
        answer = names[torch.arange(n), 1 - swapped.long()]
        targets = torch.cat([tokens[:, 1:], answer[:, None]], 1)
        once = torch.where(swapped, _FIRST, _SECOND)
        key, end = torch.arange(self.n_ctx), torch.arange(self.n_ctx)[:, None] == self.n_ctx - 1
        subject, again = key == (_FIRST + _SECOND - once)[:, None], torch.arange(self.n_ctx)[:, None] == _AGAIN
        relations = {
            "END to IO": end & (key == once[:, None])[:, None],
            "END to S1": end & subject[:, None],
            "END to S2": (end & (key == _AGAIN)).expand(n, -1, -1),
            "S2 to S1": again & subject[:, None],
        }
        return Batch(tokens, targets, end[:, 0].expand(n, -1), relations)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return (nats) any name, either name of the sentence, and the one that came once."""
        empty = torch.full((*batch.tokens.shape, self.d_vocab), -torch.inf)
        any_name, either, once = empty.clone(), empty.clone(), empty.clone()
        any_name[..., : self.n_names] = -math.log(self.n_names)
        for place in (_FIRST, _SECOND):
            either.scatter_(2, batch.tokens[:, None, place, None].expand(-1, self.n_ctx, 1), -math.log(2))
        once.scatter_(2, batch.targets[:, None, -1:].expand(-1, self.n_ctx, 1), 0.0)
        return {"any name": any_name, "either name": either, "the name that came once": once}


def _small(kind: type[IndirectObjects], seed: int, n_heads: int | None, n_layers: int | None, **fields: int) -> Recipe:
    task = kind(**fields)
    shape = reshaped(text_architecture(task.n_ctx, task.d_vocab, n_layers=3), n_heads, n_layers)
    plan = TrainPlan(
        steps=1500,
        batch_size=128,
        learning_rate=1e-3,
        save=logarithmic(12, 1500, start=5),
        seeds=Seeds(seed, seed, seed),
    )
    return Recipe(task, shape, plan)
