"""WikiText: the real corpus has its published counts; a corpus of a few lines is counted by hand."""

import dataclasses
import math
from collections import Counter
from pathlib import Path
from typing import Any, cast

import datasets
import numpy as np
import pytest
import torch

from stagewise.papers.tasks import WikiText
from stagewise.papers.tasks.wiki_text import recipe
from tests.conftest import unchecked_types

FLOAT32 = 1e-5
TRAIN = ["a b a b c", " ", "b a c a b a", "<unk> c b a b", "a b c a"]
NOTEBOOK = (
    "43 6971 3 66 407 1 3476 2 1 319 157 29 842 19 13722 7 294 24 14 5902 14 687 2 18 1 5832 16 1 157 162 1963 735 60 "
    "1946 89"
)
"""The 35 word ids printed in the notebook of Figure 7 of arXiv:2305.16380."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("corpus")
    (path / "train.txt").write_text("\n".join(TRAIN) + "\n", encoding="utf8")
    (path / "valid.txt").write_text("b a b c d a\na c\n", encoding="utf8")
    (path / "test.txt").write_text("c\n", encoding="utf8")
    return str(path)


@pytest.fixture(scope="module")
def task(folder: str) -> WikiText:
    return WikiText(length=4, data=folder)


def test_words_are_numbered_by_frequency_and_unknown_ones_are_zero(task: WikiText) -> None:
    vocabulary, ids = task.corpus()
    assert vocabulary == ("<unk>", "a", "b", "<eos>", "c")
    assert ids["validation"].tolist() == [2, 1, 2, 4, 0, 1, 3, 1, 4, 3]
    assert len(ids["train"]) == sum(len(line.split()) + 1 for line in TRAIN)


def test_a_smaller_vocabulary_keeps_the_most_frequent_words(task: WikiText) -> None:
    small = dataclasses.replace(task, vocab_size=3)
    assert small.corpus().vocabulary == ("<unk>", "a", "b")
    assert small.corpus().ids["test"].tolist() == [0, 0]


def by_hand(text: list[int], context: list[int], word: int, d: int) -> float:
    """P(word | context) with absolute discounting, from the formula with counters."""
    if not context:
        return text.count(word) / len(text)
    n = len(context)
    after = Counter(text[i + n] for i in range(len(text) - n) if text[i : i + n] == context)
    shorter = by_hand(text, context[1:], word, d)
    if not after:
        return shorter
    return (max(after[word] - 0.75, 0) + 0.75 * len(after) * shorter) / after.total()


def test_the_references_are_discounted_n_grams(task: WikiText) -> None:
    batch = task.probe_batch(6, seed=0)
    text = task.corpus().ids["train"].tolist()
    for n, reference in enumerate(batch.references.values()):
        for row, tokens in enumerate(batch.tokens.tolist()):
            for pos in range(4):
                context = tokens[max(0, pos + 1 - n) : pos + 1]
                expected = [by_hand(text, context, word, 5) for word in range(5)]
                assert reference[row, pos].exp().tolist() == pytest.approx(expected, abs=FLOAT32)
    assert list(batch.references) == ["unigram", "bigram", "trigram"]


def test_relations_are_previous_duplicate_and_induction_keys(task: WikiText) -> None:
    batch = dataclasses.replace(task, length=6).sample(20, seed=0)
    for row, tokens in enumerate(batch.tokens.tolist()):
        for query in range(6):
            expected = {
                "previous token": [key == query - 1 for key in range(6)],
                "duplicate token": [key < query and tokens[key] == tokens[query] for key in range(6)],
                "induction": [0 < key <= query and tokens[key - 1] == tokens[query] for key in range(6)],
            }
            assert {name: mask[row, query].tolist() for name, mask in batch.relations.items()} == expected


def test_windows_are_stretches_of_their_split(task: WikiText) -> None:
    text = task.corpus().ids
    stretches = {split: {tuple(ids[i : i + 5]) for i in range(len(ids) - 4)} for split, ids in text.items()}
    for split, batch in (("train", task.stream(3)(7, 50)), ("validation", task.probe_batch(50, 0))):
        windows = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)
        assert {tuple(window) for window in windows.tolist()} <= stretches[split]


def periods(windows: torch.Tensor) -> list[int]:
    """The shortest period of each window; its own length where it has none."""
    n = windows.shape[1]
    return [next(p for p in range(1, n + 1) if torch.equal(row[p:], row[: n - p])) for row in windows]


@pytest.mark.slow
def test_a_share_of_the_training_windows_say_an_excerpt_again_and_again(tmp_path: Path) -> None:
    """A text that never says a word twice: what comes twice in a window was repeated."""
    for file in ("train.txt", "valid.txt", "test.txt"):
        (tmp_path / file).write_text(" ".join(f"w{i}" for i in range(3000)) + "\n", encoding="utf8")
    plain = WikiText(data=str(tmp_path), length=24)
    task = dataclasses.replace(plain, repeating=0.3)
    batch = task.stream(3)(7, 2000)
    found = periods(torch.cat([batch.tokens, batch.targets[:, -1:]], 1))
    repeated = [period for period in found if period < 25]
    assert len(repeated) / 2000 == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 2000))
    assert set(repeated) == set(range(24 // 8, 24 // 2 + 1))
    assert torch.equal(batch.tokens[:, 0], plain.stream(3)(7, 2000).tokens[:, 0])
    text = task.corpus().ids["train"].tolist()
    for tokens, period in zip(batch.tokens.tolist(), found, strict=True):
        place = text.index(tokens[0])
        assert tokens[:period] == text[place : place + min(period, 24)]
    assert set(periods(task.probe_batch(50, 0).tokens)) == {24}


def test_the_data_of_a_step_depend_on_seed_and_step_alone(task: WikiText) -> None:
    assert torch.equal(task.stream(1)(5, 8).tokens, task.stream(1)(5, 8).tokens)
    assert not torch.equal(task.stream(1)(5, 8).tokens, task.stream(1)(6, 8).tokens)


def test_the_environment_names_the_folder(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGEWISE_WIKITEXT", folder)
    assert WikiText(length=4).d_vocab == 5


def test_without_hub_and_folder_both_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.delenv("STAGEWISE_WIKITEXT", raising=False)
    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(OSError, match=r"from the hub \(no network\).*give it as data=.* or in STAGEWISE_WIKITEXT"):
        WikiText(name="wikitext-2-v1", vocab_size=7).corpus()


def test_a_folder_that_lacks_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"train.txt, .*valid.txt, .*test.txt not found"):
        WikiText(data=str(tmp_path)).corpus()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 1}, "at least two, got length=1"),
        ({"vocab_size": 1}, "vocab_size=1"),
        ({"n_sequences": 3}, "n_sequences: expected null, got 3"),
        ({"repeating": 1.1}, "repeating: expected a finite number from 0 to 1, got 1.1"),
        ({"tokenizer": "bpe"}, "at least 258 .* got None"),
        ({"tokenizer": "bpe", "vocab_size": 257}, "at least 258 .* got 257"),
    ],
    ids=str,
)
def test_a_parameter_out_of_range_is_named(changes: dict[str, Any], message: str) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=message):
        WikiText(**changes)


def test_a_window_longer_than_the_text_is_refused(folder: str) -> None:
    with pytest.raises(ValueError, match="a window or more of 200 tokens, validation has 10"):
        WikiText(length=199, data=folder).probe_batch(1, 0)


def test_byte_pairs_give_windows_references_and_relations(task: WikiText) -> None:
    pairs = dataclasses.replace(task, tokenizer="bpe", vocab_size=260)
    assert pairs.d_vocab == 260
    batch = pairs.probe_batch(5, seed=0)
    assert batch.tokens.shape == (5, 4)
    assert list(batch.references) == ["unigram", "bigram", "trigram"]
    for reference in batch.references.values():
        assert reference.logsumexp(-1).abs().max() < FLOAT32


def test_the_real_corpus_has_its_published_counts(wikitext: str) -> None:
    vocabulary, ids = WikiText(data=wikitext).corpus()
    assert {split: len(text) for split, text in ids.items()} == {
        "train": 2_088_628,
        "validation": 217_646,
        "test": 245_569,
    }
    assert len(vocabulary) == 33_277 + 1  # and <eos>


@pytest.mark.slow
def test_basic_english_gives_the_vocabulary_and_the_ids_of_the_papers_notebook(wikitext: str) -> None:
    # Check T13.
    vocabulary, ids = WikiText(data=wikitext, tokenizer="basic_english").corpus()
    assert len(vocabulary) == 28_782
    assert [len(text) for text in ids.values()] == [2_049_990, 214_417, 241_859]
    wanted = np.array(NOTEBOOK.split(), dtype=np.int32)
    found = np.lib.stride_tricks.sliding_window_view(ids["train"], 35)
    assert (found == wanted).all(1).sum() == 1


@pytest.mark.slow
def test_on_the_real_text_a_longer_context_predicts_better(wikitext: str) -> None:
    batch = WikiText(data=wikitext, vocab_size=2000).probe_batch(20, seed=0)
    losses = [-reference.gather(-1, batch.targets[..., None]).mean().item() for reference in batch.references.values()]
    assert math.log(2000) > losses[0] > losses[1] > losses[2]


def test_a_window_is_written_as_its_text(letters: str) -> None:
    text = " ".join(Path(letters, "valid.txt").read_text(encoding="utf8").split())
    pairs = WikiText(data=letters, tokenizer="bpe", vocab_size=260, length=16)
    words = WikiText(data=letters, length=16)
    assert "".join(pairs.as_text(pairs.probe_batch(1, seed=0).tokens[0].tolist())).strip() in text
    assert " ".join(words.as_text(words.probe_batch(1, seed=0).tokens[0].tolist())) in text


def test_repeated_tokens_are_frequent_ones_of_the_text(letters: str) -> None:
    task = WikiText(data=letters, tokenizer="bpe", vocab_size=262, length=12)
    batch = task.repeated_batch(seed=0)
    assert batch.tokens.shape[1] == task.length
    followed = torch.einsum("bqk,bk->bq", batch.relations["induction"].long(), batch.tokens)
    assert (followed == batch.targets)[batch.scored].all()
    assert {int(task.corpus().ids["train"][0])} & set(batch.tokens.flatten().tolist())
    assert len(set(batch.tokens.flatten().tolist())) <= task.d_vocab // 2


@pytest.mark.parametrize("layers", [0, 5])
def test_only_one_to_four_layers_are_built(letters: str, layers: int) -> None:
    with pytest.raises(ValueError, match=f"layers must be 1 to 4, got {layers}"):
        recipe(layers, data=letters)


def test_without_a_folder_the_recipe_takes_the_text_in_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAGEWISE_WIKITEXT", raising=False)
    task = cast(WikiText, recipe(tokenizer="plain", vocab_size=None).task)
    assert task.data == "embedded"
    text = task.corpus()
    sizes = {split: len(ids) for split, ids in text.ids.items()}
    assert sizes["train"] > 40_000
    assert min(sizes["validation"], sizes["test"]) > 4_000
    assert " ".join(task.as_text(text.ids["train"][:5].tolist())) == "In the beginning God created"


def test_a_folder_in_the_environment_comes_before_the_text_in_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGEWISE_WIKITEXT", "somewhere")
    with pytest.raises(FileNotFoundError, match="somewhere"):
        recipe()
