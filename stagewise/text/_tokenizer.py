"""Text to token ids, by a tokenizer on disk or on the hub."""

import inspect
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

TOKENIZER = "tokenizer.json"
"""The one file that holds a whole tokenizer; what else a repository has beside it is made from it, or older."""


def encode(text: str, tokenizer: Any) -> list[int]:
    """Return token ids without special ones, by a tokenizer in memory, a function, a file, a folder or a repository."""
    if isinstance(tokenizer, str | Path):
        tokenizer = _read(str(_tokenizer_file(str(tokenizer))))
    function = getattr(tokenizer, "encode", tokenizer)
    if not callable(function):
        raise ValueError(f"a tokenizer is {ACCEPTED}, one in memory, or a function of a text; got {tokenizer!r:.80}")
    names = inspect.signature(function).parameters
    encoded = function(text, **({"add_special_tokens": False} if "add_special_tokens" in names else {}))
    return [int(token) for token in getattr(encoded, "ids", encoded)]


def decode(token_ids: Sequence[int], tokenizer: str) -> list[str]:
    """Return the text of each token by itself, special ones too; a part of a character is a replacement character."""
    read = _read(str(_tokenizer_file(tokenizer)))
    return [read.decode([token], skip_special_tokens=False) for token in token_ids]


def first_token(tokenizer: str) -> int | None:
    """Return the token that a tokenizer puts in front of any text, None where it puts none; errors as of `encode`."""
    read = _read(str(_tokenizer_file(tokenizer)))
    for word in read.get_vocab():
        encoded = read.encode(word)
        if not all(added := encoded.special_tokens_mask):
            return int(encoded.ids[0]) if added[0] else None
    return None


def unknown_token(tokenizer: str) -> int | None:
    """Return the token of what a tokenizer has no token for, None where it has one for everything."""
    read = _read(str(_tokenizer_file(tokenizer)))
    model: dict[str, Any] = json.loads(read.to_str())["model"]
    number: int | None = model.get("unk_id") if model.get("unk_token") is None else read.token_to_id(model["unk_token"])
    return number


def vocabulary_size(tokenizer: str) -> int:
    """Return how many tokens a tokenizer has, the added ones too; errors as of `encode`."""
    size: int = _read(str(_tokenizer_file(tokenizer))).get_vocab_size(with_added_tokens=True)
    return size


def _tokenizer_file(tokenizer: str) -> Path:
    """Return the file of a tokenizer, from the hub if it is not on disk."""
    path = Path(tokenizer)
    if path.is_dir() and (path / TOKENIZER).is_file():
        return path / TOKENIZER
    if path.is_file():
        return path
    reason = f"{path} holds no {TOKENIZER}" if path.is_dir() else f"there is no file or folder {tokenizer}"
    if path.is_dir() or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?(@[\w./-]+)?", tokenizer):
        raise FileNotFoundError(f"no tokenizer: {reason}. Give {ACCEPTED}")
    return _from_hub(tokenizer, reason)


ACCEPTED = f"a {TOKENIZER}, a folder that holds one, or a repository of the hub that does, as owner/name[@revision]"
ACCEPTED += ", or a .gguf"


def _from_hub(named: str, on_disk: str) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HTTPError

    repository, _, revision = named.partition("@")
    try:
        return Path(hf_hub_download(repository, TOKENIZER, revision=revision or None))
    except (HTTPError, OSError) as reason:
        first = (str(reason).splitlines() or [type(reason).__name__])[0]
        raise FileNotFoundError(
            f"no tokenizer: {on_disk}, and the hub gives no {TOKENIZER} of a repository of that name ({first}). "
            f"Give {ACCEPTED}"
        ) from reason


@lru_cache(maxsize=4)
def _read(path: str) -> Any:
    from tokenizers import Tokenizer

    try:
        if path.endswith(".gguf"):
            from transformers import PreTrainedTokenizerFast

            folder, name = Path(path).parent, Path(path).name
            return PreTrainedTokenizerFast.from_pretrained(folder, gguf_file=name).backend_tokenizer
        content = json.loads(Path(path).read_text(encoding="utf8"))
        if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
            raise ValueError("it has no `model`")
        return Tokenizer.from_str(json.dumps(content))
    except Exception as reason:  # tokenizers has no error of its own
        json_alone = isinstance(reason, json.JSONDecodeError | UnicodeDecodeError | RecursionError)
        why = f"it is not valid JSON ({reason})" if json_alone else reason
        raise ValueError(f"{path} is no tokenizer: {why}. Give {ACCEPTED}") from reason
