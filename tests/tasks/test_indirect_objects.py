"""Indirect objects: the answer is the name that came once, wherever it stood."""

import pytest

from stagewise.presets import recipe_for
from stagewise.tasks import IndirectObjects


def test_the_answer_is_the_name_that_came_once_and_relations_are_of_both() -> None:
    batch = IndirectObjects(n_names=5).sample(40, seed=0)
    for row, (tokens, targets) in enumerate(zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)):
        names = [token for token in tokens if token < 5]
        assert [name for name in names if names.count(name) == 1] == [targets[-1]]
        io, s1, s2 = (batch.relations[f"END to {name}"][row, -1].nonzero().item() for name in ("IO", "S1", "S2"))
        assert (tokens[io], tokens[s1], s2) == (targets[-1], tokens[s2], 5)
        assert batch.relations["S2 to S1"][row].nonzero().tolist() == [[s2, s1]]


def test_either_order_comes_about_as_often() -> None:
    batch = IndirectObjects().sample(400, seed=1)
    first = (batch.tokens[:, 1] == batch.tokens[:, 5]).float().mean()
    assert 0.4 < first < 0.6


def test_two_names_are_too_few() -> None:
    with pytest.raises(ValueError, match="n_names is between 3 and 24, got 2"):
        IndirectObjects(n_names=2)


def test_the_preset_has_three_layers() -> None:
    assert recipe_for(IndirectObjects).architecture.n_layers == 3
