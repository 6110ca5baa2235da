"""Planted heads get their relation's name, heads of noise, of positions and of nothing get none."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.relation_search import _general, _pointed_at, explain_attention, propose_relations
from stagewise.task import Batch
from stagewise.text.token_relations import token_relation

LENGTH, OPEN, CLOSE, SEPARATOR = 40, 30, 31, 32
KINDS = (
    *("offset 3", "(query - key) % 4 == 0 and key < query", "key == query - query % 6", "key == 5", "first token"),
    *("duplicate token", "latest duplicate token", "earliest duplicate token", "induction", "latest induction"),
    *("token[key + 1] == token[query] and key < query - 1", "token[key - 2] == token[query]"),
    "token[key - 1] == token[query] and token[key - 2] == token[query - 1]",
    *("token[key] == token[query] + 1", "token[key] == token[query] - 2"),
    *("smallest token[key] > token[query]", "largest token[key] < token[query]", "smallest key <= query"),
    *("commonest key <= query", "rarest key <= query", "token[key] == 7", f"latest token[key] == {SEPARATOR}"),
    f"latest token[key - 1] == {SEPARATOR}",
)


def sequences(number: int, generator: torch.Generator) -> Tensor:
    """Random tokens below 22, brackets that close what is open, and separators."""
    rows = []
    for draws in torch.rand(number, LENGTH, 2, generator=generator).tolist():
        row, depth = list[int](), 0
        for kind, token in draws:
            depth += 1 if kind < 0.13 else -1 if kind < 0.26 and depth else 0
            closes = CLOSE if 0.13 <= kind < 0.26 and OPEN in row and row.count(OPEN) > row.count(CLOSE) else None
            row.append(OPEN if kind < 0.13 else closes or (SEPARATOR if kind > 0.88 else int(22 * token)))
        rows.append(row)
    return torch.tensor(rows)


def softmax(logits: Tensor) -> Tensor:
    return logits.masked_fill(~torch.ones(logits.shape[-2:]).tril().bool(), -torch.inf).softmax(-1)


def planted(name: str, tokens: Tensor, sharpness: float, generator: torch.Generator) -> Tensor:
    """Attention to a relation, with noise; to the first position where no key is of it."""
    keys = token_relation(name, tokens)
    logits = torch.randn(keys.shape, generator=generator) + sharpness * keys
    logits[..., 0] += sharpness * ~keys.any(-1)
    return softmax(logits)


@pytest.mark.parametrize(
    ("sharpness", "one_of"), [(7.0, 3), *(pytest.param(each, 1, marks=pytest.mark.slow) for each in (5.0, 7.0))]
)
def test_planted_heads_are_named(sharpness: float, one_of: int) -> None:
    generator = torch.Generator().manual_seed(int(sharpness))
    tokens, kinds = sequences(64, generator), KINDS[::one_of]
    heads = torch.stack([planted(name, tokens, sharpness, generator) for name in kinds], 1)
    found = explain_attention(heads, tokens)["relation"].tolist()
    missed = {name: got for name, got in zip(kinds, found, strict=True) if got != name}
    assert len(missed) <= len(kinds) // 10, missed


@pytest.mark.parametrize("one_of", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_of_null_heads_at_most_one_in_twenty_is_named(one_of: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens, position = sequences(64, generator), torch.arange(LENGTH)
    noise = [scale * torch.randn(64, LENGTH, LENGTH, generator=generator) for scale in torch.linspace(0, 6, 40)]
    fixed = [scale * torch.randn(LENGTH, LENGTH, generator=generator) for scale in torch.linspace(0, 2, 30)]
    decays = [-(position[:, None] - position) / float(length) for length in torch.linspace(4, 40, 20)]
    by_token = [torch.randn(33, 33, generator=generator)[tokens[:, :, None], tokens[:, None]] for _ in range(20)]
    heads = [each.expand(64, -1, -1) for each in (*noise, *fixed, *decays, *by_token)[::one_of]]
    found = explain_attention(softmax(torch.stack(heads, 1)), tokens)["relation"]
    assert (found != "").mean() <= 0.05, found[found != ""]


def tables(vocab: int, tokens: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Logits that are tables of pairs of tokens, also of low rank, and those of untrained queries and keys."""

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator)

    pairs = tokens[:, :, None], tokens[:, None]
    for _ in range(6):
        yield from (scale * draw(vocab, vocab)[pairs] for scale in (1, 2, 3))
        yield (draw(vocab, 4) @ draw(4, vocab))[pairs]
        embedded = draw(vocab, 32)[tokens] + draw(LENGTH, 32)
        untrained = embedded @ draw(32, 8) @ (embedded @ draw(32, 8)).mT
        yield 2 * untrained / untrained.std()
        yield (2 * draw(LENGTH, LENGTH)).expand(len(tokens), -1, -1)


@pytest.mark.parametrize("vocab", [8, *(pytest.param(each, marks=pytest.mark.slow) for each in (3, 4, 20, 33))])
def test_random_tables_of_tokens_get_no_name(vocab: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    drawn = torch.randint(vocab, (64, LENGTH), generator=generator)
    tokens = sequences(64, generator) if vocab == 33 else drawn
    heads = softmax(torch.stack(list(tables(vocab, tokens, generator)), 1))
    found = explain_attention(heads, tokens)["relation"]
    assert (found != "").mean() <= 0.05, found[found != ""]


def test_relations_of_eight_tokens_are_named() -> None:
    generator = torch.Generator().manual_seed(8)
    tokens = torch.randint(8, (64, LENGTH), generator=generator)
    names = ("latest duplicate token", "induction", "token[key] == token[query] + 1", "token[key] == 1", "offset 2")
    heads = torch.stack([planted(name, tokens, 7.0, generator) for name in names], 1)
    assert explain_attention(heads, tokens)["relation"].tolist() == list(names)


def test_a_head_that_looks_for_one_token_gets_its_name_and_no_order_of_tokens() -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = sequences(64, generator)
    of_key = 3 * torch.randn(20, 33, generator=generator)[:, tokens]
    found = explain_attention(softmax(of_key.transpose(0, 1)[:, :, None].expand(-1, -1, LENGTH, -1)), tokens)
    named = {head: name for head, name in enumerate(found["relation"]) if name}
    assert len(named) > 10
    for head, name in named.items():
        liked = of_key[head][tokens == int(name.removeprefix("token[key] == "))].unique()
        assert liked.numel() == 1
        assert (of_key[head] > liked).float().mean() < 0.1


def test_a_relation_of_the_batch_comes_before_a_proposal() -> None:
    generator = torch.Generator().manual_seed(3)
    tokens = sequences(32, generator)
    heads = planted("latest duplicate token", tokens, 7.0, generator)[:, None]
    known = {"same": token_relation("duplicate token", tokens)}
    [row] = explain_attention(heads, tokens, known).to_dict("records")
    assert (row["relation"], row["known"]) == ("same", True)


def test_examples_are_queries_and_keys_of_the_relation() -> None:
    generator = torch.Generator().manual_seed(4)
    tokens = sequences(32, generator)
    heads = planted("token[key] == token[query] + 1", tokens, 7.0, generator)[:, None]
    [row] = explain_attention(heads, tokens).to_dict("records")
    assert len({sequence for sequence, _, _ in row["examples"]}) == 2
    for sequence, query, key in row["examples"]:
        assert tokens[sequence, key] == tokens[sequence, query] + 1
    assert row["explained"] > row["chance"] + 0.2


def test_few_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="on 8 sequences or more, got 4"):
        explain_attention(torch.ones(4, 1, 3, 3), torch.ones(4, 3, dtype=torch.int64))


def test_each_head_of_a_checkpoint_has_a_row(small_run: CheckpointSeries) -> None:
    tokens = torch.randint(4, (16, small_run.architecture.config["n_ctx"] + 1), generator=torch.Generator())
    table = propose_relations(small_run, Batch.from_tokens(tokens), step=2)
    assert table[["layer", "head"]].to_numpy().tolist() == [[0, 0], [0, 1]]


TOKENS = torch.tensor([[1, 4, 1, 5, 2, 2, 6, 1, 7, 2]]).repeat(4, 1)


def test_every_candidate_is_a_relation_that_has_a_name() -> None:
    names = list(_general(TOKENS))
    assert len(names) == len(set(names)) > 20
    for name in names:
        assert token_relation(name, TOKENS).shape == (4, 10, 10)


def test_attention_points_at_its_offset_its_token_and_its_difference() -> None:
    excess = torch.zeros(4, 10, 1, 10)
    excess[:, 8, 0, 6] = 1.0
    expected = {"offset 2", "key == 6", "token[key] == 6", "token[key - 1] == 2", "token[key] == token[query] - 1"}
    assert expected <= set(_pointed_at(excess, TOKENS))
