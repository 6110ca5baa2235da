"""Tokenizers: a file, a folder that holds one; what is neither says where it was looked for."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, processors

from stagewise.text._tokenizer import _tokenizer_file, encode, first_token, vocabulary_size


def test_words_are_numbered_as_the_file_says(tokenizer: str) -> None:
    assert encode("the dog saw the unicorn", tokenizer) == [1, 4, 3, 1, 0]
    assert encode("", tokenizer) == []


def test_the_vocabulary_counts_the_token_that_begins_a_text(tokenizer: str) -> None:
    assert vocabulary_size(tokenizer) == 11


@pytest.mark.parametrize(("template", "first"), [("<s> $A", 0), ("<s> $A </s>", 0), ("$A </s>", None), ("$A", None)])
def test_the_first_token_is_what_the_template_puts_before_a_text(
    tokenizer: str, tmp_path: Path, template: str, first: int | None
) -> None:
    made = Tokenizer.from_file(tokenizer)
    special = [(token, number) for number, token in enumerate(("<s>", "</s>")) if token in template]
    made.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    made.save(str(tmp_path / "tokenizer.json"))
    assert first_token(str(tmp_path)) == first


def test_without_a_template_no_token_is_put_first(tokenizer: str) -> None:
    assert first_token(tokenizer) is None


def test_added_tokens_count(tokenizer: str, tmp_path: Path) -> None:
    content = json.loads(Path(tokenizer).read_text(encoding="utf8"))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    content["added_tokens"] = [{"id": 11, "content": "<end>", **flags}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf8")
    assert vocabulary_size(str(tmp_path)) == 12


def test_a_folder_is_the_tokenizer_that_it_holds(tokenizer: str) -> None:
    folder = Path(tokenizer).parent
    assert _tokenizer_file(str(folder)) == _tokenizer_file(tokenizer) == Path(tokenizer)
    assert encode("a bird sang", str(folder)) == encode("a bird sang", tokenizer)


def test_an_empty_folder_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no tokenizer\.json\. Give a tokenizer\.json, a folder"):
        _tokenizer_file(str(tmp_path))


def test_a_path_that_is_nowhere_is_no_repository() -> None:
    with pytest.raises(FileNotFoundError, match="there is no file or folder /no/such/folder"):
        _tokenizer_file("/no/such/folder")


@pytest.mark.parametrize(
    ("content", "fault"), [("{", "not valid JSON"), ("[]", "it has no `model`"), ('{"model": 3}', "it has no `model`")]
)
def test_a_file_that_is_no_tokenizer_says_its_fault(content: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf8")
    with pytest.raises(ValueError, match=f"is no tokenizer: .*{fault}"):
        encode("the cat", str(path))


def test_the_tokenizer_in_a_file_of_llama_cpp_is_read(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="gguf is not installed")
    words, merges = ["<s>", "a", "b", "c", "Ġ", "ab", "Ġc"], ["a b", "Ġ c"]
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_block_count(1)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert encode("abab cb", str(tmp_path / "model.gguf")) == [5, 5, 6, 2]
    assert first_token(str(tmp_path / "model.gguf")) is None


def test_a_file_of_llama_cpp_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(ValueError, match=r"model\.gguf is no tokenizer: "):
        encode("a", str(tmp_path / "model.gguf"))
