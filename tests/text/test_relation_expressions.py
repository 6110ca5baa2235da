"""Relations as expressions: equal to the relations that have a name, and to loops over positions."""

import re
from collections.abc import Callable

import pytest
import torch

from stagewise.text._relation_expressions import is_expression, relation_of
from stagewise.text.token_relations import token_relation

TOKENS = torch.randint(5, (6, 12), generator=torch.Generator().manual_seed(0))

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
    assert torch.equal(token_relation(SAME[name], TOKENS), token_relation(name, TOKENS))


LOOPS: dict[str, Callable[[list[int], int, int], bool]] = {
    "token[key] > token[query] or key % 4 == 0": lambda t, q, k: t[k] > t[q] or k % 4 == 0,
    "2 <= token[key] < 4": lambda t, q, k: 2 <= t[k] < 4,
    "query // 3 == key // 3 and token[key] != 1": lambda t, q, k: q // 3 == k // 3 and t[k] != 1,
    "token[token[key]] == -token[query] + 4": lambda t, q, k: t[t[k]] == 4 - t[q],
    "key % token[query] == 1": lambda t, q, k: t[q] != 0 and k % t[q] == 1,
}


@pytest.mark.parametrize("text", LOOPS)
def test_an_expression_is_true_where_a_loop_over_positions_says_so(text: str) -> None:
    expected = [[[k <= q and LOOPS[text](t, q, k) for k in range(12)] for q in range(12)] for t in TOKENS.tolist()]
    assert relation_of(text, TOKENS).tolist() == expected


def test_a_token_beside_the_sequence_is_equal_to_none() -> None:
    assert not relation_of("token[key + 12] == token[query + 12]", TOKENS).any()
    assert not relation_of("token[key - 1] == token[key - 1]", TOKENS)[:, :, 0].any()


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
        token_relation(text, TOKENS)


def test_a_name_that_is_none_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no relation 'inductions'; there are previous token, .*, and an expression"):
        token_relation("inductions", TOKENS)
    with pytest.raises(ValueError, match="is not an expression of query, key"):
        token_relation("key == (query", TOKENS)


def test_an_expression_is_known_by_the_words_for_positions() -> None:
    assert is_expression("key == query - 3")
    assert not is_expression("previous token")
