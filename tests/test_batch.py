"""Prompts: what is compared are the answers' logits, each length is a group, and nothing reads what fills rows up."""

import torch

from stagewise.batch import Prompts
from stagewise.task import Batch

ROWS = [
    {"prompt": "x A y B", "right": "A|C", "wrong": "B", "corrupted": "x C y B", "S1": 1},
    {"prompt": "x x B y A", "right": "B", "wrong": "A", "corrupted": "x x C y A", "S1": 1},
    {"prompt": "x B y A", "right": "B", "wrong": "A", "corrupted": "x C y A", "S1": 1},
    {"prompt": "x A y A", "right": "A", "wrong": "B", "corrupted": "x B y A", "S1": 1},
]


def letters(text: str) -> list[int]:
    return [ord(letter) % 32 for letter in text if letter != " "]


def prompts() -> Prompts:
    return Batch.from_pairs(ROWS, letters)


def test_prompts_of_one_length_are_neighbours_and_their_last_position_is_scored() -> None:
    batch = prompts()
    assert batch.group.tolist() == [0, 0, 0, 1]
    assert batch.several_lengths
    assert batch.scored.nonzero()[:, 1].tolist() == batch.places["END"].tolist() == [3, 3, 3, 4]
    assert batch.targets[batch.scored].tolist() == batch.right[:, 0].tolist() == [1, 2, 1, 2]
    assert batch.others["corrupted"].tokens[0, 1] == 3


def test_the_difference_is_that_of_logits_and_of_several_answers_together() -> None:
    batch, logits = prompts(), torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
    probs = logits.softmax(1)
    expected = [(probs[0, 1] + probs[0, 3]).log() - probs[0, 2].log(), *(logits[i, a] - logits[i, b] for i, a, b in
                ((1, 2, 1), (2, 1, 2), (3, 2, 1)))]  # fmt: skip
    torch.testing.assert_close(batch.difference(logits), torch.stack(expected))
    torch.testing.assert_close(batch.log_right(logits.log_softmax(1))[1], probs[1, 2].log())
    assert batch.rank(logits)[1] == 1 + (logits[1] > logits[1, 2]).sum()


def test_the_more_frequent_answer_is_of_all_prompts_also_in_a_part_of_them() -> None:
    assert prompts().commonest.tolist() == [0.5] * 4
    uneven = Batch.from_pairs([*ROWS, ROWS[1]], letters)
    assert uneven.commonest.tolist() == [0, 1, 0, 1, 1]
    assert uneven[torch.tensor([1])].commonest.tolist() == [1]  # type: ignore[attr-defined]


def test_relations_are_of_labelled_positions_and_of_no_filling() -> None:
    batch = prompts()
    assert batch.relations["END to S1"][0].nonzero().tolist() == [[3, 1]]
    assert not batch.relations["previous token"][0, 4].any()


def test_a_part_and_a_move_keep_the_answers() -> None:
    part = prompts()[torch.tensor([3, 0])].to("cpu")
    assert isinstance(part, Prompts)
    assert part.right[:, 0].tolist() == [2, 1]
    assert part.places["END"].tolist() == [4, 3]
    assert len(part.others["corrupted"]) == 2


def test_whole_answers_are_two_sequences() -> None:
    rows = [{"sentence_good": "abc", "sentence_bad": "abdd"}] * 4
    batch = Batch.from_pairs(rows, letters)
    assert batch.summed
    assert batch.scored.sum(1).tolist() == [2] * 4
    assert batch.others["wrong"].targets[0].tolist() == [2, 4, 4]
    assert batch.others["wrong"].scored.sum(1).tolist() == [3] * 4
