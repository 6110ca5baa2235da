"""Candidates come from the tokens and from where the attention lies."""

import torch

from stagewise.measurement._candidate_relations import general, pointed_at
from stagewise.text.token_relations import token_relation

TOKENS = torch.tensor([[1, 4, 1, 5, 2, 2, 6, 1, 7, 2]]).repeat(4, 1)


def test_every_candidate_is_a_relation_that_has_a_name() -> None:
    names = list(general(TOKENS))
    assert len(names) == len(set(names)) > 30
    for name in names:
        assert token_relation(name, TOKENS).shape == (4, 10, 10)


def test_only_tokens_that_are_in_balance_are_brackets() -> None:
    assert {name for name in general(TOKENS) if name.startswith("opening")} == {"opening bracket 1 2"}


def test_attention_points_at_its_offset_its_token_and_its_difference() -> None:
    excess = torch.zeros(4, 10, 1, 10)
    excess[:, 8, 0, 6] = 1.0
    expected = {"offset 2", "key == 6", "token[key] == 6", "token[key - 1] == 2", "token[key] == token[query] - 1"}
    assert expected <= set(pointed_at(excess, TOKENS))
