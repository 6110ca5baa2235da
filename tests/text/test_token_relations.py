"""Relations that only the tokens decide, against a count by hand; by name, by function and as masks."""

import re
from collections.abc import Callable

import pytest
import torch

from stagewise.text.token_relations import _is_expression, _relation_of, token_relation, token_relations


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
    with pytest.raises(ValueError, match=r"no relation 'two back'; there are previous token, .* offset N"):
        token_relations(tokens, ["two back"])
    with pytest.raises(
        ValueError, match=r"'odd' is a Bool\[batch query key\] of size \(1, 4, 4\), got torch.int64 \(1, 4\)"
    ):
        token_relations(tokens, {"odd": lambda tokens: tokens})


TOKENS = torch.tensor([[1, 4, 1, 2, 3, 5, 2, 2, 6, 3, 4, 1]])


def keys_of(name: str) -> list[list[int]]:
    return [row.nonzero()[:, 0].tolist() for row in token_relation(name, TOKENS)[0]]


def test_a_choice_keeps_the_extreme_of_the_keys() -> None:
    assert keys_of("latest duplicate token")[7] == [6]
    assert keys_of("earliest duplicate token")[7] == [3]
    assert keys_of("smallest token[key] > token[query]")[8] == []
    assert keys_of("smallest token[key] > token[query]")[6] == [4]
    assert keys_of("commonest key <= query")[8] == [3, 6, 7]
    assert keys_of("rarest key <= query")[3] == [1, 3]


def test_an_unknown_relation_after_a_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no relation 'nothing'"):
        token_relation("latest nothing", TOKENS)


RELATION_EXPRESSIONS_TOKENS = torch.randint(5, (6, 12), generator=torch.Generator().manual_seed(0))

SAME = {
    "previous token": "key == query - 1",
    "first token": "key == 0",
    "self": "query == key",
    "offset 3": "query - key == 3",
    "duplicate token": "token[key] == token[query] and key < query",
    "induction": "token[key - 1] == token[query] and key - 1 < query",
}


@pytest.mark.parametrize("name", SAME)
def test_an_expression_is_the_relation_of_that_name(name: str) -> None:
    assert torch.equal(
        token_relation(SAME[name], RELATION_EXPRESSIONS_TOKENS), token_relation(name, RELATION_EXPRESSIONS_TOKENS)
    )


LOOPS: dict[str, Callable[[list[int], int, int], bool]] = {
    "token[key] > token[query] or key % 4 == 0": lambda t, q, k: t[k] > t[q] or k % 4 == 0,
    "2 <= token[key] < 4": lambda t, q, k: 2 <= t[k] < 4,
    "query // 3 == key // 3 and token[key] != 1": lambda t, q, k: q // 3 == k // 3 and t[k] != 1,
    "token[token[key]] == -token[query] + 4": lambda t, q, k: t[t[k]] == 4 - t[q],
    "key % token[query] == 1": lambda t, q, k: t[q] != 0 and k % t[q] == 1,
}


@pytest.mark.parametrize("text", LOOPS)
def test_an_expression_is_true_where_a_loop_over_positions_says_so(text: str) -> None:
    expected = [
        [[k <= q and LOOPS[text](t, q, k) for k in range(12)] for q in range(12)]
        for t in RELATION_EXPRESSIONS_TOKENS.tolist()
    ]
    assert _relation_of(text, RELATION_EXPRESSIONS_TOKENS).tolist() == expected


def test_a_token_beside_the_sequence_is_equal_to_none() -> None:
    assert not _relation_of("token[key + 12] == token[query + 12]", RELATION_EXPRESSIONS_TOKENS).any()
    assert not _relation_of("token[key - 1] == token[key - 1]", RELATION_EXPRESSIONS_TOKENS)[:, :, 0].any()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("token[key] == __import__('os')", "__import__('os')"),
        ("key == query.real", "query.real"),
        ("key <= position", "position"),
        ("key == 1.5", "1.5"),
        ("key < query + [1]", "[1]"),
        ("not key == query", "not key == query"),
        ("key == 9 ** 9", "9 ** 9"),
    ],
)
def test_what_is_no_part_of_the_language_is_named_and_never_run(text: str, part: str) -> None:
    expected = f"{part!r} is no part of one"
    with pytest.raises(ValueError, match=rf"is not an expression of query, key, token.*: {re.escape(expected)}$"):
        token_relation(text, RELATION_EXPRESSIONS_TOKENS)


def test_a_name_that_is_none_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no relation 'inductions'; there are previous token, .*, and an expression"):
        token_relation("inductions", RELATION_EXPRESSIONS_TOKENS)
    with pytest.raises(ValueError, match="is not an expression of query, key"):
        token_relation("key == (query", RELATION_EXPRESSIONS_TOKENS)


def test_an_expression_is_known_by_the_words_for_positions() -> None:
    assert _is_expression("key == query - 3")
    assert not _is_expression("previous token")
