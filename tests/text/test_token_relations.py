"""Relations that only the tokens decide, against a count by hand; by name, by function and as masks."""

import pytest
import torch

from stagewise.text.token_relations import token_relations


def test_relations_are_those_of_their_definitions() -> None:
    tokens = torch.tensor([[3, 1, 3, 3, 2, 1], [0, 1, 2, 3, 4, 5]])
    relations = token_relations(tokens)
    for row, sequence in enumerate(tokens.tolist()):
        for query in range(6):
            earlier = [key for key in range(query) if sequence[key] == sequence[query]]
            expected = {
                "previous token": [query - 1] if query else [],
                "duplicate token": earlier,
                "induction": [key + 1 for key in earlier],
                "first token": [0],
                "self": [query],
            }
            got = {name: mask[row, query].nonzero()[:, 0].tolist() for name, mask in relations.items()}
            assert got == expected


def test_the_token_that_begins_a_text_is_nobodys_duplicate() -> None:
    relations = token_relations(torch.tensor([[0, 0, 5, 5]]), skipped=0)
    assert relations["duplicate token"].nonzero().tolist() == [[0, 3, 2]]
    assert relations["induction"].nonzero().tolist() == [[0, 3, 3]]


def test_relations_come_by_name_by_function_and_as_masks() -> None:
    tokens = torch.tensor([[3, 1, 3, 3]])
    back = torch.arange(4)[:, None] - torch.arange(4)
    given = {
        "two back": "offset 2",
        "same": lambda tokens: tokens[:, :, None] == tokens[:, None],
        "mask": back[None] > 2,
    }
    relations = token_relations(tokens, given)
    assert relations["two back"].nonzero().tolist() == [[0, 2, 0], [0, 3, 1]]
    assert relations["same"][0, 1].tolist() == [False, True, False, False]
    assert relations["mask"].nonzero().tolist() == [[0, 3, 0]]
    with pytest.raises(
        ValueError,
        match=r"no relation 'two back'; there are previous token, .* offset N, as offset 31\. Others are functions",
    ):
        token_relations(tokens, ["two back"])
    with pytest.raises(
        ValueError, match=r"'odd' is a Bool\[batch query key\] of size \(1, 4, 4\), got torch.int64 \(1, 4\)"
    ):
        token_relations(tokens, {"odd": lambda tokens: tokens})
