"""Classes of predictions: each target, position and repeated n-gram in its own."""

import pytest
import torch

from stagewise.papers.tasks import SparseRegression
from stagewise.prediction_classes import ORDERS, prediction_classes, without_classes
from stagewise.task import Batch


def longest_repeated(tokens: list[int], target: int) -> int:
    """The order of the longest n-gram, the target last, that stands in the tokens already."""
    whole = [*tokens, target]
    grams = [whole[-n:] for n in range(1, min(ORDERS, len(whole)) + 1)]
    stands = [any(tokens[i : i + len(gram)] == gram for i in range(len(tokens))) for gram in grams]
    return max((len(gram) for gram, there in zip(grams, stands, strict=True) if there), default=0)


def test_the_longest_repeated_n_gram_is_that_of_a_slow_search() -> None:
    batch = Batch.from_tokens(torch.randint(0, 3, (30, 10), generator=torch.Generator().manual_seed(0)))
    classes = prediction_classes(batch, [])
    names = ["of new tokens", "that repeat 1 token", "that repeat 2 tokens", "that repeat 3 tokens"]
    found = torch.stack([classes[name] for name in names])
    assert (found.sum(0) == 1).all()
    slow = [
        [longest_repeated(row[: i + 1], target) for i, target in enumerate(targets)]
        for row, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)
    ]
    assert found.long().argmax(0).tolist() == slow


def test_every_prediction_has_one_position_and_each_relation_or_not() -> None:
    batch = Batch.from_tokens(torch.randint(0, 5, (4, 12), generator=torch.Generator().manual_seed(0)))
    classes = prediction_classes(batch, range(5))
    for kind in ("at ", "of token "):
        assert (torch.stack([members for name, members in classes.items() if name.startswith(kind)]).sum(0) == 1).all()
    for name, keys in batch.relations.items():
        assert torch.equal(classes[f"with {name}"], keys.any(-1))
        assert torch.equal(classes[f"without {name}"], ~classes[f"with {name}"])


def test_a_regression_has_classes_by_position_and_relation_alone() -> None:
    batch = SparseRegression(n_positions=4, d=2).sample(3, seed=0)
    assert [*prediction_classes(batch, range(5))] == [
        *("at position 0", "at positions 1 to 2", "at position 3"),
        *("with relevant", "without relevant"),
    ]


def test_what_is_left_out_is_not_scored_and_the_rest_is_as_it_was() -> None:
    batch = Batch.from_tokens([[4, 7, 4, 7, 5]], {})
    left = without_classes(batch, ["of token 7", "that repeat 1 token"])
    assert left.scored.tolist() == [[False, False, False, True]]
    assert torch.equal(left.targets, batch.targets)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            ["of token x"],
            "there is no class of predictions 'of token x' to leave out; there are of token 7, at position 0",
        ),
        (["at position 0", "at positions 1 to 2", "at position 3"], "no prediction is left to train on"),
    ],
)
def test_unknown_classes_and_all_of_them_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        without_classes(Batch.from_tokens([[4, 7, 4, 7, 5]], {}), names)
