"""Windows of any text."""

from pathlib import Path
from typing import Any

import pytest
import torch

from stagewise.tasks import Text
from stagewise.text._tokenizer import encode

WORDS = "the cat saw the dog and the dog saw the cat again while a bird sang"
IDS = {word: number for number, word in enumerate(dict.fromkeys(WORDS.split()), start=1)}
"""As the fixture `tokenizer` numbers them."""
ENCODED = [IDS[word] for word in WORDS.split()]


def test_the_windows_are_the_text_cut_up(tokenizer: str) -> None:
    batch = Text(tokenizer, text=WORDS, length=3).sample(100, seed=0)
    windows = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)
    assert sorted(windows.tolist()) == sorted(ENCODED[i : i + 4] for i in range(0, 16, 4))
    assert torch.equal(batch.tokens[:, 1:], batch.targets[:, :-1])
    assert batch.scored.all()


def test_a_bos_token_comes_first_in_every_window(tokenizer: str) -> None:
    batch = Text(tokenizer, text=WORDS, length=5, bos=0).sample(2, seed=1)
    assert (batch.tokens[:, 0] == 0).all()
    assert batch.tokens.shape == (2, 5)
    assert not batch.relations["duplicate token"][:, :, 0].any()


def test_seeds_repeat_and_choose_other_windows(tokenizer: str) -> None:
    task = Text(tokenizer, text=WORDS, length=3)
    assert torch.equal(task.probe_batch(2, seed=0).tokens, task.probe_batch(2, seed=0).tokens)
    assert len({str(task.probe_batch(2, seed=seed).tokens) for seed in range(8)}) > 1


def test_the_vocabulary_is_the_tokenizers(tokenizer: str) -> None:
    assert Text(tokenizer, text=WORDS).d_vocab == len(IDS) + 1


def test_files_are_read_one_after_the_other(tokenizer: str, tmp_path: Path) -> None:
    for name, part in (("a", WORDS[:20]), ("b", WORDS[20:])):
        (tmp_path / name).write_text(part, encoding="utf8")
    files = (str(tmp_path / "a"), str(tmp_path / "b"))
    batch = Text(tokenizer, files=files, length=3).sample(9, seed=0)
    assert torch.equal(batch.tokens, Text(tokenizer, text=WORDS, length=3).sample(9, seed=0).tokens)


def test_a_folder_is_its_tokenizer(tokenizer: str) -> None:
    assert encode("a cat", str(Path(tokenizer).parent)) == encode("a cat", tokenizer) == [IDS["a"], IDS["cat"]]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"length": 16}, ValueError, r"the text has 16 tokens, a window takes 17: give a longer text"),
        ({"text": None, "files": ("nowhere.txt",)}, FileNotFoundError, r"there is no text file nowhere.txt"),
        ({"text": None}, ValueError, r"give either `files` or the `text` itself"),
        ({"length": 1}, ValueError, r"a window has at least 2 positions, got length=1"),
    ],
)
def test_what_does_not_fit_is_named(
    change: dict[str, Any], error: type[Exception], message: str, tokenizer: str
) -> None:
    fields = {"tokenizer": tokenizer, "text": WORDS, "length": 3, **change}
    with pytest.raises(error, match=message):
        Text(**fields).sample(2, seed=0)


@pytest.mark.parametrize("content", ["not json", "[1]", '{"model": 3}'])
def test_a_file_that_is_no_tokenizer_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(content)
    with pytest.raises(ValueError, match=r"mine.json is no tokenizer: .*Give a tokenizer.json, a folder"):
        encode("a cat", str(tmp_path / "mine.json"))


@pytest.mark.parametrize("name", [".", "some/where/else"])
def test_a_tokenizer_that_is_nowhere_says_where_it_was_looked_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no tokenizer: .*Give a tokenizer.json, a folder that holds one, or"):
        encode("a cat", name)
