"""Attention of queries: keys with the same token, and the queries that are scored."""

import torch

from stagewise.papers.scan_and_snap._queries import on_same_token, once_a_token, scored_rows

TOKENS = torch.tensor([[7, 4, 7]])
PATTERN = torch.tensor([[1.0, 0, 0], [0.4, 0.6, 0], [0.2, 0.3, 0.5]])


def test_every_key_of_a_token_carries_what_all_of_them_get() -> None:
    attention = on_same_token(PATTERN.expand(1, 1, 1, 3, 3), TOKENS)
    expected = torch.tensor([[1.0, 0, 1], [0.4, 0.6, 0.4], [0.7, 0.3, 0.7]])
    torch.testing.assert_close(attention[0, 0, 0], expected)


def test_the_keys_of_a_token_count_once_together() -> None:
    assert once_a_token(TOKENS).tolist() == [[0.5, 1, 0.5]]


def test_rows_are_the_first_scored_queries_with_their_sequences() -> None:
    scored = torch.tensor([[False, True, False], [True, False, True]])
    attention, sequence = scored_rows(PATTERN.expand(2, 1, 1, 3, 3), scored, 2)
    assert sequence.tolist() == [0, 1]
    torch.testing.assert_close(attention[0, 0], PATTERN[[1, 0]])
