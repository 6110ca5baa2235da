"""Prompts with a right and a wrong answer: read from files, and turned into token ids."""

import csv
import dataclasses
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FEWEST = 4
"""Prompts below which no interval over prompts says anything."""

FORMATS = (
    "a CSV or JSONL file, or a folder of `datasets`, with columns prompt, right and wrong (corrupted, neutral and "
    "places such as S1, S2, IO where there are any); a file of an lm-evaluation-harness task of two choices; or "
    "BLiMP's sentence_good and sentence_bad"
)

_SETS = Path(__file__).parent / "sets"
"""Sets that come with the library, made for it."""

_PROMPTS = ("prompt", "query", "question", "goal", "premise", "context", "ctx", "sentence")
_LABELS = ("label", "gold", "answer", "target")
_CHOICES = (("choice1", "choice2"), ("sol1", "sol2"), ("option1", "option2"), ("ending0", "ending1"))
_WORD = re.compile(r"\w(?:[\w'-]*\w)?")

Encode = Callable[[str], list[int]]


@dataclasses.dataclass(frozen=True)
class Pair:
    """A prompt with its answers.

    Args:
        prompt: the text that both answers follow; empty where whole sentences are compared.
        right, wrong: answers, one or several of each.
        corrupted: a prompt of as many tokens whose right answer is another one, or has none.
        neutral: a prompt of as many tokens whose right answer is the same: the control of the corrupted one.
        places: label of a position -> its word, counted from 0 or from the end as -1, or the word itself, "John#2" for
            the second time that it comes.
        joined: whether answers follow without a space, as the last digits of a year do.
        whole: whether answers are compared by their summed log-probability: continuations of several words, sentences.
    """

    prompt: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    corrupted: str | None = None
    neutral: str | None = None
    places: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    joined: bool = False
    whole: bool = False


class Encoded(NamedTuple):
    """A pair in token ids: of each answer all its tokens, of each place its position in the prompt."""

    prompt: list[int]
    right: list[list[int]]
    wrong: list[list[int]]
    others: dict[str, list[int]]
    places: dict[str, int]


class EncodedPairs(NamedTuple):
    """All pairs of a file in token ids, whether sums over the tokens of answers are compared, and lines to be said."""

    pairs: list[Encoded]
    summed: bool
    notes: list[str]


def read_pairs(source: str | Path | Iterable[Mapping[str, Any]]) -> list[Pair]:
    """Read pairs from a file, a set that comes with the library ("ioi", "greater-than", "agreement", "few-shot",
    "ioi-small"), or from rows in memory.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a row is none of `FORMATS`, or there are fewer than four.
    """
    rows = _rows(Path(source)) if isinstance(source, str | Path) else list(source)
    name = str(source) if isinstance(source, str | Path) else "the pairs"
    pairs = [_pair(row, f"{name}, pair {number}") for number, row in enumerate(rows, start=1)]
    if len(pairs) < FEWEST:
        raise ValueError(f"{name} holds {len(pairs)} prompts: give {FEWEST} at least, for an interval over prompts")
    return pairs


def _rows(path: Path) -> list[Mapping[str, Any]]:
    # A run may lie in a folder "ioi": one without a data set hides no set of that name.
    if not (path.is_file() or any(path.glob("dataset*.json"))) and (known := _SETS / f"{path}.csv").exists():
        path = known
    if not path.exists():
        raise FileNotFoundError(f"there is no file of pairs {path}: give {FORMATS}")
    if path.is_dir():
        import datasets

        return list(datasets.load_from_disk(str(path)))
    if not path.is_file():
        raise ValueError(f"{path} is no file of pairs: it was not opened. Give {FORMATS}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as reason:
        raise ValueError(f"{path} is no text in UTF-8 ({reason}): give {FORMATS}") from None
    if path.suffix in (".csv", ".tsv"):
        return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t" if path.suffix == ".tsv" else ","))
    try:
        listed = text.lstrip().startswith("[")
        return json.loads(text) if listed else [json.loads(each) for each in text.split("\n") if each.strip()]
    except (json.JSONDecodeError, RecursionError) as reason:
        raise ValueError(f"{path} is no JSONL ({reason}): give {FORMATS}") from None


def _pair(row: Any, name: str) -> Pair:
    """Return the pair of a row of any of the formats."""
    if not isinstance(row, Mapping):
        raise ValueError(f"{name} is no row with columns: give {FORMATS}")
    if None in row:
        raise ValueError(f"{name} has more cells than the file has columns: put a prompt with commas into quotes")
    row = {str(key): value for key, value in row.items() if value is not None and value != ""}
    for good, bad in (("sentence_good", "sentence_bad"), ("good", "bad")):
        if good in row and bad in row:
            return Pair("", (str(row[good]),), (str(row[bad]),), whole=True)
    prompt = next((str(row[each]) for each in _PROMPTS if each in row), None)
    if "arguments" in row and "target" in row:
        return _of_harness(row, name)
    if prompt is not None and "right" in row and "wrong" in row:
        corrupted, neutral = (str(row[each]) if each in row else None for each in ("corrupted", "neutral"))
        cells = {each: str(value) for each, value in row.items() if each.isupper()}
        labels = {each: int(cell) if re.fullmatch(r"-?\d+", cell) else cell for each, cell in cells.items()}
        joined = str(row.get("joined", 0)).lower() in ("1", "true", "yes")
        right, wrong = (
            tuple(map(str, each)) if isinstance(each, list | tuple) else tuple(str(each).split("|"))
            for each in (row["right"], row["wrong"])
        )
        if not all(map(str.strip, (*right, *wrong))):
            raise ValueError(f"{name} has an empty answer among {'|'.join((*right, *wrong))}")
        if corrupted == prompt:
            raise ValueError(f"{name}: its corrupted prompt is the prompt itself: change what its right answer is")
        return Pair(prompt, right, wrong, corrupted, neutral, labels, joined)
    choices = row.get("choices", [str(row[each]) for pair in _CHOICES if pair[0] in row for each in pair])
    choices = choices.get("text", []) if isinstance(choices, Mapping) else choices
    label = next((row[each] for each in _LABELS if each in row), None)
    if prompt is not None and len(missing := [each for each in ("right", "wrong") if each not in row]) == 1:
        raise ValueError(f"{name} has no {missing[0]!r} answer")
    if prompt is None or len(choices) != 2 or label is None:
        raise ValueError(f"{name} has the columns {', '.join(row) or 'of nothing'}: give {FORMATS}")
    if "option1" in row:
        label = {"1": 0, "2": 1}.get(str(label), label)  # WinoGrande counts from 1
    return _chosen(prompt, [f" {str(each).lstrip()}" for each in choices], label, name)


def _of_harness(row: Mapping[str, Any], name: str) -> Pair:
    """Return the pair of a sample that lm-evaluation-harness logged: its requests, and which of them is right."""
    given = row["arguments"]
    requests = [[*each.values()] for each in given.values()] if isinstance(given, Mapping) else given
    if len(requests) != 2 or (len({str(each[0]) for each in requests}) > 1 and len({str(e[1]) for e in requests}) > 1):
        raise ValueError(f"{name} has {len(requests)} requests: give a task of two choices to one question")
    context = str(requests[0][0]) if str(requests[0][0]) == str(requests[1][0]) else ""
    return _chosen(
        context, [str(each[1]) if context else f"{each[0]}{each[1]}" for each in requests], row["target"], name
    )


def _chosen(prompt: str, choices: Sequence[str], label: Any, name: str) -> Pair:
    """Return the pair of two choices; a label is the number of the right one, from 0, its letter or its text."""
    texts = [each.strip() for each in choices]
    number = texts.index(str(label)) if str(label) in texts else {"0": 0, "1": 1, "A": 0, "B": 1}.get(str(label), -1)
    if number < 0:
        raise ValueError(f"{name} says that {label!r} is right: it is 0 or 1, or one of {texts}")
    return Pair(prompt, (choices[number],), (choices[1 - number],), whole=True)


def encode_pairs(
    pairs: Sequence[Pair],
    encode: Encode,
    decode: Callable[[int], str],
    first: int | None = None,
    unknown: int | None = None,
    summed: bool | None = None,
) -> EncodedPairs:
    """Turn pairs into token ids, and say what the tokenizer does with them.

    Args:
        pairs: all of one kind.
        encode, decode: of the tokenizer of the models, without special tokens; the text of one token.
        first: a token that begins every prompt.
        unknown: the token that stands for words which the tokenizer does not know.
        summed: whether summed log-probabilities of answers are compared; None where `Pair.whole` says so. Else their
            first tokens are.

    Raises:
        ValueError: a word that is no token, a corrupted prompt of another length, a place that is no word of the
            prompt, or first tokens of answers that are the same.
    """
    summed = any(pair.whole for pair in pairs) if summed is None else summed
    start = [] if first is None else [first]
    given = [each for pair in pairs for each in (*pair.right, *pair.wrong)]
    spaced, as_given = any(each[:1].isspace() for each in given), any(pair.whole or pair.joined for pair in pairs)
    if spaced and not as_given and (bare := [each for each in given if each[:1].isalnum()]):
        raise ValueError(f"some answers begin with a space, and {bare[0]!r} does not: give all of them one, or none")
    verbatim = spaced or as_given or not any(" " in pair.prompt.strip() for pair in pairs)

    def tokens(text: str, name: str) -> list[int]:
        found = encode(text)
        if unknown is not None and unknown in found:
            raise ValueError(f"{name}: the tokenizer has no token for a part of {text!r}")
        return found

    def answers(prompt: str, texts: Sequence[str], name: str) -> list[list[int]]:
        before, found = tokens(prompt, name), list[list[int]]()
        for each in texts:
            text = f"{prompt}{each}" if verbatim or not prompt else f"{prompt} {each}"
            whole = tokens(text, name)
            if whole[: len(before)] != before or len(whole) == len(before):
                raise ValueError(f"{name}: the tokenizer joins the end of the prompt with the answer {each!r}")
            found.append(whole[len(before) :])
        return found

    encoded = list[Encoded]()
    for number, pair in enumerate(pairs, start=1):
        name, prompt = f"pair {number}", pair.prompt if verbatim else pair.prompt.rstrip()
        right, wrong = answers(prompt, pair.right, name), answers(prompt, pair.wrong, name)
        if same := set(map(tuple, right)) & set(map(tuple, wrong)):
            raise ValueError(f"{name}: {''.join(map(decode, min(same)))!r} is both the right and the wrong answer")
        if not summed and (alike := {each[0] for each in right} & {each[0] for each in wrong}):
            both = f"{pair.right[0]!r} and {pair.wrong[0]!r} both begin with the token {decode(min(alike))!r}"
            fix = "give answers that begin differently, or compare them whole (--whole-answers, summed=True)"
            raise ValueError(f"{name}: {both}: {fix}")
        ids = [*start, *tokens(prompt, name)]
        if not ids and not summed:
            raise ValueError(f"{name} has an empty prompt")
        others = {"corrupted": pair.corrupted, "neutral": pair.neutral}
        changed = {each: [*start, *tokens(text.rstrip(), name)] for each, text in others.items() if text}
        if other := next((each for each, them in changed.items() if len(them) != len(ids)), None):
            both = f"{len(changed[other])} tokens and the prompt {len(ids)}"
            raise ValueError(f"{name}: its {other} prompt has {both}: give as many")
        at = {each: _position(place, prompt, encode, f"{name}, {each}") for each, place in pair.places.items()}
        places = {each: len(start) + position for each, position in at.items()}
        encoded.append(Encoded(ids, right, wrong, changed, places))
    if len({(*sorted(each.others), *sorted(each.places)) for each in encoded}) > 1:
        raise ValueError(
            "some pairs have a corrupted prompt, or a label of a position, and others lack it: give all or none"
        )
    return EncodedPairs(encoded, summed, _notes(encoded, decode, first, summed=summed, spaced=not verbatim))


def _position(place: int | str, prompt: str, encode: Encode, name: str) -> int:
    """Return the position of a word's last token in the prompt."""
    words = list(_WORD.finditer(prompt))
    if isinstance(place, str):
        text, _, number = place.partition("#")
        found = [each for each in words if each[0] == text]
        if len(found) < int(number or 1) or (len(found) > 1 and not number):
            raise ValueError(
                f"{name}: the word {text!r} comes {len(found)} times in the prompt, and {place!r} names one"
            )
        word = found[int(number or 1) - 1]
    elif not -len(words) <= place < len(words):
        raise ValueError(f"{name}: there is no word {place} in a prompt of {len(words)} words, counted from 0")
    else:
        word = words[place]
    return len(encode(prompt[: word.end()])) - 1


def _notes(
    encoded: Sequence[Encoded], decode: Callable[[int], str], first: int | None, *, summed: bool, spaced: bool
) -> list[str]:
    """Say what the tokenizer does with first tokens, spaces and answers of several tokens, and the lengths."""
    answers = [each for pair in encoded for each in (*pair.right, *pair.wrong)]
    notes = [] if first is None else [f"each prompt begins with {decode(first)!r}, token {first}"]
    if not summed:
        space = "follow a space" if spaced else "are read as they stand"
        notes.append(f"answers {space}: the first one's token is {decode(answers[0][0])!r}, {answers[0][0]}")
    several = sum(len(each) > 1 for each in answers)
    if several or summed:
        what = "summed log-probabilities are" if summed else "first tokens are"
        notes.append(f"{several} of {len(answers)} answers have several tokens: their {what} compared")
    if repeated := len(encoded) - len(set(map(str, encoded))):
        notes.append(f"{repeated} of {len(encoded)} prompts are there before: intervals over prompts are too narrow")
    lengths = Counter(len(pair.prompt) for pair in encoded)
    if len(lengths) > 1:
        sizes = ", ".join(f"{number} of {length}" for length, number in sorted(lengths.items()))
        notes.append(
            f"prompts of several lengths in tokens ({sizes}): means are over those of one length, "
            "and what fills a shorter one up behind its end is read by nothing"
        )
    return notes
