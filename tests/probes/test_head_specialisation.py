"""Head specialisation: shares and indices in cases whose answer is known in closed form."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from stagewise.measurement._rows import bootstrap_weights, rows
from stagewise.probe import View
from stagewise.probes import HeadSpecialisation
from stagewise.probes.head_specialisation import _competition, _coverage, _shares

DOUBLE = 1e-6
"""Means of float32 patterns, in double precision."""

LENGTH = 6
RELATIONS = {f"back {k}": torch.ones(LENGTH, LENGTH).tril(-k).triu(-k).bool() for k in range(3)}
LATE = torch.arange(LENGTH).expand(2, -1) >= 2
UNIFORM = torch.ones(LENGTH, LENGTH).tril() / torch.arange(1, LENGTH + 1)[:, None]


def values(view: View, probe: HeadSpecialisation) -> dict[str, list[float]]:
    frames = {r.quantity: rows(r, bootstrap_weights(len(view.batch), 10)) for r in probe.read(view)}
    return {quantity: frame["value"].tolist() for quantity, frame in frames.items()}


@pytest.mark.parametrize("offsets", list(itertools.product(range(3), repeat=3)), ids=str)
def test_one_hot_heads_have_the_closed_form(
    offsets: tuple[int, int, int], view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    heads = torch.stack([looking_back(LENGTH, k) for k in offsets]).expand(2, 1, -1, -1, -1)
    found = values(view_of(heads, RELATIONS, LATE), HeadSpecialisation())
    most = max(offsets.count(k) for k in range(3))
    assert found["share"] == [float(offset == k) for offset in offsets for k in range(3)]
    assert found["top_share"] == [1, 1, 1]
    assert found["competition"] == pytest.approx([(most / 3 - 1 / 3) / (1 - 1 / 3)], abs=DOUBLE)
    assert found["coverage"] == pytest.approx([len(set(offsets)) / 3], abs=DOUBLE)


def test_two_heads_on_the_same_relation_and_one_elsewhere(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    heads = torch.stack([looking_back(LENGTH, k) for k in (1, 1, 2)]).expand(2, 1, -1, -1, -1)
    found = values(view_of(heads, RELATIONS, LATE), HeadSpecialisation(("back 1", "back 2")))
    assert found["competition"] == pytest.approx([2 * (2 / 3 - 1 / 2)], abs=DOUBLE)
    assert found["coverage"] == [1]


def test_heads_without_preference_neither_compete_nor_cover(view_of: Callable[..., View]) -> None:
    found = values(view_of(UNIFORM.expand(2, 1, 4, -1, -1), RELATIONS, LATE), HeadSpecialisation())
    assert found["share"] == pytest.approx([1 / 3] * 12, abs=DOUBLE)
    assert found["competition"] == pytest.approx([0], abs=DOUBLE)
    assert found["coverage"] == pytest.approx([1 / 3], abs=DOUBLE)


def test_a_head_that_looks_elsewhere_has_equal_shares(
    view_of: Callable[..., View], looking_back: Callable[[int, int], Tensor]
) -> None:
    view = view_of(looking_back(LENGTH, 2).expand(2, 1, 1, -1, -1), RELATIONS, LATE)
    found = values(view, HeadSpecialisation(("back 0", "back 1")))
    assert found["share"] == found["top_share"] * 2 == [0.5, 0.5]


def test_shares_leave_out_the_attention_on_no_relation() -> None:
    masses = np.array([[[0.1, 0.3, 0.0], [0.0, 0.0, 0.0]]])
    np.testing.assert_allclose(_shares(masses), [[[0.25, 0.75, 0], [1 / 3, 1 / 3, 1 / 3]]])


@pytest.mark.parametrize("heads", [1, 2, 3, 5])
@pytest.mark.parametrize("relations", [2, 3, 4])
def test_indices_are_what_all_assignments_say(heads: int, relations: int) -> None:
    masses = np.random.default_rng(heads + 10 * relations).random((4, 1, heads, relations))
    for p, found, other in zip(_shares(masses)[:, 0], _coverage(masses), _competition(masses), strict=True):
        smaller = min(heads, relations)
        best = max(
            sum(p[h, r] for h, r in zip(chosen_heads, chosen_relations, strict=True))
            for chosen_heads in itertools.permutations(range(heads), smaller)
            for chosen_relations in itertools.combinations(range(relations), smaller)
        )
        assert found == pytest.approx(best / relations)
        mean = [sum(p[h, r] for h in range(heads)) / heads for r in range(relations)]
        assert other == pytest.approx((max(mean) - 1 / relations) / (1 - 1 / relations))
        assert 0 <= other <= 1
        assert 0 <= found <= 1


def test_heads_of_all_layers_count_together() -> None:
    stacked = np.eye(3).reshape(1, 3, 3)
    assert _coverage(stacked) == _coverage(np.eye(3).reshape(3, 1, 3)) == 1
    assert _competition(np.eye(3).reshape(3, 1, 3)) == pytest.approx(0)


def test_one_relation_is_no_choice(view_of: Callable[..., View]) -> None:
    view = view_of(UNIFORM.expand(2, 1, 1, -1, -1), RELATIONS, LATE)
    for names in (("back 1",), ("back 1", "back 1")):
        with pytest.raises(ValueError, match=r"at least two relations, got \['back 1'\]"):
            HeadSpecialisation(names).read(view)


def test_a_relation_that_is_not_there_is_refused(view_of: Callable[..., View]) -> None:
    with pytest.raises(ValueError, match="the batch has no relation 'forward'"):
        HeadSpecialisation(("forward", "back 1")).read(view_of(UNIFORM.expand(2, 1, 1, -1, -1), RELATIONS, LATE))
