"""Indirect objects: the answer is the name that came once, wherever it stood."""

import pytest
import torch

from stagewise.presets import recipe_for
from stagewise.tasks import IndirectObjects


def test_the_answer_is_the_name_that_came_once_and_relations_are_of_both() -> None:
    batch = IndirectObjects(n_names=5).sample(40, seed=0)
    for row, (tokens, targets) in enumerate(zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)):
        names = [token for token in tokens if token < 5]
        assert [name for name in names if names.count(name) == 1] == [targets[-1]]
        io, s1, s2 = (batch.relations[f"END to {name}"][row, -1].nonzero().item() for name in ("IO", "S1", "S2"))
        assert (tokens[io], tokens[s1]) == (targets[-1], tokens[s2])
        assert s1 < s2
        assert batch.relations["S2 to S1"][row].nonzero().tolist() == [[s2, s1]]


def test_the_name_that_comes_once_stands_in_each_of_the_three_places_and_anywhere() -> None:
    batch = IndirectObjects().sample(600, seed=1)
    names = (batch.tokens < 24).nonzero()[:, 1].reshape(600, 3)
    io = batch.relations["END to IO"][:, -1].nonzero()[:, 1]
    assert (names == io[:, None]).float().mean(0).tolist() == pytest.approx([1 / 3] * 3, abs=0.06)
    assert io.unique().tolist() == [*range(1, 10)]
    assert (batch.tokens[:, -1] == batch.tokens[0, -1]).all()


def test_references_are_distributions_and_the_last_is_the_answer() -> None:
    task = IndirectObjects(n_names=6, n_anywhere=0)
    batch = task.sample(20, seed=2)
    references = task.references(batch)
    for reference in references.values():
        assert torch.allclose(reference.exp().sum(-1), torch.ones(20, 8))
    either = references["either name"][:, -1].exp().gather(1, batch.tokens[:, 1:6:2])
    assert torch.equal(either, torch.full((20, 3), 0.5))
    assert references["the name that came once"][:, -1].argmax(-1).tolist() == batch.targets[:, -1].tolist()


def test_two_names_are_too_few() -> None:
    with pytest.raises(ValueError, match="n_names is between 3 and 24, got 2"):
        IndirectObjects(n_names=2)


def test_the_preset_has_three_layers() -> None:
    assert recipe_for(IndirectObjects).architecture.n_layers == 3
