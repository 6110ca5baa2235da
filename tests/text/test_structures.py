"""Brackets, separators and choices among keys, against a stack and a count by hand."""

import pytest
import torch

from stagewise.text.token_relations import token_relation

TOKENS = torch.tensor([[1, 4, 1, 2, 3, 5, 2, 2, 6, 3, 4, 1]])


def keys_of(name: str) -> list[list[int]]:
    return [row.nonzero()[:, 0].tolist() for row in token_relation(name, TOKENS)[0]]


def test_brackets_are_those_of_a_stack() -> None:
    stack, opening, innermost = list[int](), list[list[int]](), list[list[int]]()
    for position, token in enumerate(TOKENS[0].tolist()):
        innermost.append(stack[-1:])
        opening.append(stack[-1:] if token == 2 else [])
        if token == 1:
            stack.append(position)
        elif token == 2 and stack:
            stack.pop()
    assert keys_of("opening bracket 1 2") == opening
    assert keys_of("innermost bracket 1 2")[:8] == innermost[:8]


def test_depth_counts_what_is_open_before_a_position() -> None:
    assert keys_of("bracket depth 1 2")[4:7] == [[1, 2], [1, 2, 4], [1, 2, 4, 5]]


def test_a_separator_ends_its_segment() -> None:
    assert keys_of("same segment 3")[5:8] == [[], [5], [5, 6]]
    assert keys_of("place in segment before 3")[4:8] == [[], [0], [1], [2]]


def test_a_choice_keeps_the_extreme_of_the_keys() -> None:
    assert keys_of("latest duplicate token")[7] == [6]
    assert keys_of("earliest duplicate token")[7] == [3]
    assert keys_of("smallest token[key] > token[query]")[8] == []
    assert keys_of("smallest token[key] > token[query]")[6] == [4]
    assert keys_of("commonest key <= query")[8] == [3, 6, 7]
    assert keys_of("rarest key <= query")[3] == [1, 3]


@pytest.mark.parametrize("name", ["opening bracket 1", "same segment 1 2"])
def test_tokens_of_another_number_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="takes"):
        token_relation(name, TOKENS)


def test_an_unknown_relation_after_a_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no relation 'nothing'"):
        token_relation("latest nothing", TOKENS)
