"""Indirect objects: of two names the one that comes once is the answer, a behaviour whose parts form one by one."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.architectures import reshaped
from stagewise.fields import Count, Natural, check_fields
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
_ANYWHERE = ("then", "so", "today", "well", "soon", "later")


@dataclasses.dataclass(frozen=True)
class IndirectObjects(AbstractTask):
    """Sentences as "when Ann and Ben met Ann gave to", whose answer is the name that came once, "Ben".

    The name that comes once is the first, the second or the third, and words between them vary, as does where they
    stand: no position and no order of words tells it, only that the other name comes twice. The last prediction alone
    is scored. Its solutions are any name, either name of the sentence (what copying both gives), and the name that came
    once. A model that copies what comes most often prefers the wrong name: the dip before the behaviour.

    Args:
        n_names: names that are drawn, the first of `NAMES`.
        n_sequences: sentences of the training set; None draws them anew at every step.
        n_anywhere: words that may stand anywhere, such as "then".

    Raises:
        ValueError: a parameter is out of range.

    Source: the sentences of Wang et al. (2022), Interpretability in the Wild, arXiv:2211.00593, made small.

    >>> task = IndirectObjects()
    >>> " ".join(task.as_text(task.sample(1, seed=0).tokens[0].tolist()))
    'after Hal with Hal then talked then later then Vic handed to'
    """

    n_names: Count = 24
    n_sequences: Count | None = None
    n_anywhere: Natural = 4

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
        between = (word for words in _BETWEEN for word in words)
        return (*NAMES[: self.n_names], *between, _END, *(_ANYWHERE if self.n_anywhere else ()))

    @property
    def d_vocab(self) -> int:
        """Number of words."""
        return len(self.words)

    @property
    def n_ctx(self) -> int:
        """Positions of a sentence without its answer."""
        return 2 * len(_BETWEEN) + self.n_anywhere

    def as_text(self, tokens: Sequence[int]) -> list[str]:
        """Return the words."""
        return [self.words[token] for token in tokens]

    def sample(self, n: int, seed: int) -> Batch:
        """Sample n sentences; relations are of the last position and of the name that comes again."""
        check_number(n)
        generator, rows = torch.Generator().manual_seed(seed), torch.arange(n)
        once, twice = torch.rand(n, self.n_names, generator=generator).topk(2).indices.unbind(1)
        place = torch.randint(3, (n,), generator=generator)
        said = torch.where(torch.arange(3) == place[:, None], once[:, None], twice[:, None])
        anywhere = self.d_vocab - len(_ANYWHERE)  # without such words all positions are those of others
        tokens = torch.randint(anywhere, self.d_vocab, (n, self.n_ctx), generator=generator)
        at = torch.rand(n, self.n_ctx - 1, generator=generator).topk(7).indices.sort(1).values
        start = self.n_names
        for number, words in zip((0, 2, 4, 6), _BETWEEN, strict=True):
            tokens[rows, at[:, number]] = start + torch.randint(len(words), (n,), generator=generator)
            start += len(words)
        names = at[:, 1:6:2]
        tokens.scatter_(1, names, said)
        tokens[:, -1] = start
        targets = torch.cat([tokens[:, 1:], once[:, None]], 1)
        io, s1, s2 = (names[rows, order] for order in (place, (place == 0).long(), 2 - (place == 2).long()))
        position = torch.arange(self.n_ctx)
        end = (position == self.n_ctx - 1).expand(n, -1)

        def along(query: Bool[Tensor, "batch pos"], key: Int[Tensor, " batch"]) -> Bool[Tensor, "batch query key"]:
            return query[:, :, None] & (position == key[:, None])[:, None]

        relations = {f"END to {name}": along(end, key) for name, key in (("IO", io), ("S1", s1), ("S2", s2))}
        relations["S2 to S1"] = along(position == s2[:, None], s1)
        return Batch(tokens, targets, end, relations)

    def references(self, batch: Batch) -> dict[str, Float[Tensor, "batch pos token"]]:
        """Return (nats) any name, either name of the sentence, and the one that came once."""
        empty = torch.full((*batch.tokens.shape, self.d_vocab), -torch.inf)
        any_name, either, once = empty.clone(), empty.clone(), empty.clone()
        any_name[..., : self.n_names] = -math.log(self.n_names)
        is_said = (batch.tokens[..., None] == torch.arange(self.d_vocab)).any(1) & (any_name[:, 0] > -torch.inf)
        either[:] = torch.where(is_said, -math.log(2), -torch.inf)[:, None]
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
