"""Attention to relations: a head that looks where the relation says scores one."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.probe import Reading, View
from stagewise.probes import AttentionTo
from stagewise.tasks import MarkovChain

FLOAT32 = 1e-6
"""Sums of a few float32 numbers below one."""

LENGTH = 6
RELATIONS = {f"back {k}": torch.ones(LENGTH, LENGTH).tril(-k).triu(-k).bool() for k in range(3)}
LATE = torch.arange(LENGTH).expand(2, -1) >= 2


def masses(view: View, probe: AttentionTo) -> Reading:
    return next(reading for reading in probe.read(view) if reading.quantity == "mass")


def test_a_head_that_only_looks_back_scores_one(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    heads = torch.stack([looking_back(LENGTH, k) for k in range(3)]).expand(2, 1, -1, -1, -1)
    values = masses(view_of(heads, RELATIONS, LATE), AttentionTo()).values
    assert torch.equal(values, torch.eye(3).expand(2, 1, -1, -1))


def test_uniform_attention_scores_the_relations_share_of_the_keys(view_of: Callable[..., View]) -> None:
    pattern = torch.ones(LENGTH, LENGTH).tril()
    pattern = (pattern / pattern.sum(-1, keepdim=True)).expand(2, 1, 1, -1, -1)
    values = masses(view_of(pattern, RELATIONS, LATE), AttentionTo()).values
    expected = sum(1 / (query + 1) for query in range(2, LENGTH)) / (LENGTH - 2)
    assert values.flatten().tolist() == pytest.approx([expected] * 6, abs=FLOAT32)


def test_layers_and_heads_keep_their_places(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    patterns = torch.stack([looking_back(LENGTH, k) for k in (0, 1, 2, 1)]).view(1, 2, 2, LENGTH, LENGTH)
    values = masses(view_of(patterns, RELATIONS, LATE[:1]), AttentionTo()).values[0]
    assert values.argmax(-1).tolist() == [[0, 1], [2, 1]]


def test_the_relations_of_the_task_are_where_its_heads_ought_to_look(view_of: Callable[..., View]) -> None:
    task = MarkovChain(d_vocab=4, spans=(1, 2), length=3)
    batch = task.sample(2, seed=0)
    second = torch.zeros(task.n_ctx, task.n_ctx)
    for query in range(task.n_ctx):
        second[query, [max(0, query - 1), max(0, query - 2)]] = 0.5
    second = second / second.sum(-1, keepdim=True)
    relations = {name: mask[0] for name, mask in batch.relations.items()}
    view = view_of(second.expand(2, 1, 1, -1, -1), relations, batch.scored)
    assert masses(view, AttentionTo()).values[0, 0, 0].tolist() == pytest.approx([0, 1], abs=FLOAT32)


def test_relations_are_chosen_by_name(view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]) -> None:
    view = view_of(looking_back(LENGTH, 1).expand(2, 1, 1, -1, -1), RELATIONS, LATE)
    reading = masses(view, AttentionTo(("back 2", "back 1", "back 2")))
    assert list(reading.labels["relation"]) == ["back 2", "back 1"]
    assert reading.values[0, 0, 0].tolist() == [0, 1]


def test_a_previous_token_head_scores_one_along_the_previous_token(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    patterns = torch.stack([looking_back(5, 1), looking_back(5, 2)])[None, None]
    only_last = (torch.arange(5) == 4)[None]
    previous = (torch.arange(5)[:, None] - 1 == torch.arange(5))[None]
    _, along, uniform = AttentionTo().read(view_of(patterns, {"previous": previous}, only_last))
    # Looking two back, query 1 lands on position 0, which is the one before it.
    assert along.values[0, 0, :, 0].tolist() == pytest.approx([1, 0.25])
    assert uniform.values[0, 0].item() == pytest.approx((1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4)


def test_a_relation_is_averaged_over_the_sequences_that_it_starts_in(view_of: Callable[..., View]) -> None:
    one, none = torch.zeros(3, 3, 3, dtype=torch.bool), torch.zeros(3, 3, dtype=torch.bool)
    one[1:, 1, 0] = True
    patterns = torch.rand(3, 1, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    view = view_of(patterns, {"none": none, "one": one, "self": torch.eye(3).bool()})
    mass, along, uniform = (rows(reading, bootstrap_weights(3, 50)) for reading in AttentionTo().read(view))
    for table in (mass, along, uniform):
        assert table[["relation", "n"]].to_numpy().tolist() == [["one", 2], ["self", 3]]
    looked = patterns[1:, 0, 0, 1, 0].mean().item()
    assert along["value"][0] == pytest.approx(looked, abs=FLOAT32)
    assert mass["value"][0] == pytest.approx(looked / 3, abs=FLOAT32)
    assert mass["value"][1] == pytest.approx(patterns[:, 0, 0].diagonal(dim1=1, dim2=2).mean().item(), abs=FLOAT32)


@pytest.mark.parametrize(
    ("names", "relations", "message"),
    [
        (("forward",), RELATIONS, "the batch has no relation 'forward'; it has 'back 0', 'back 1', 'back 2'"),
        (None, {}, "the batch has no relations"),
    ],
)
def test_a_relation_that_is_not_there_is_refused(
    view_of: Callable[..., View], names: tuple[str, ...] | None, relations: dict[str, torch.Tensor], message: str
) -> None:
    view = view_of(torch.eye(LENGTH).expand(1, 1, 1, -1, -1), relations)
    with pytest.raises(ValueError, match=message):
        AttentionTo(names).read(view)
