"""Curves in the lines that trainers print: which numbers a line holds, by what names, and at which step."""

import ast
import codecs
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from stagewise.checkpoints._digest import bytes_of

BEGINNING = 4096
"""Bytes of a file by which it is known to be no text."""

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Control sequences of a terminal: colours, and where to write."""


def text_of(path: Path) -> str:
    """Return the text of a file without a terminal's colours, encoded in UTF-8 or, as PowerShell writes it, UTF-16."""
    held = bytes_of(path)
    wide = held.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not wide and b"\0" in held[:BEGINNING]:
        raise ValueError(f"{path.name} is no text: save its columns of steps and values as .csv or .parquet")
    return COLOUR.sub("", held.decode("utf-16" if wide else "utf-8-sig", errors="replace"))


NUMBER = r"[-+]?(?:(?:\d{1,3}(?:[,_]\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z])"
WORD = r"[A-Za-z_][\w./@-]*(?:\([\w/%]+\))?"
PAIR = re.compile(
    rf"""(?<![\w.])(?P<name>{WORD}(?:\ (?:{WORD}|\([\w/%]+\)))*?)(?P<sign>\s*[:=]\s*|\s+)[\['"\#]?"""
    rf"""(?P<value>{NUMBER})(?![\d.,]*\d|:\d\d)(?:\s*/\s*(?P<total>\d+)|(?P<unit>%|[a-z/]*))[\]'"]?""",
    re.IGNORECASE | re.VERBOSE,
)
"""A name and its number, as "lr: 1e-4", "loss=2.31", "train loss 2.31", "step 100/2000", "Step [100/2000]", "12ms"."""

BAR = re.compile(r"(?:^|[|\s])(?P<at>\d+)/(?P<total>\d+) *(?:\[|[━╸]|- )")
"""A progress bar, of tqdm or Keras: how far, and of how much."""

AT_OF = re.compile(r"(?<![\d/])(?P<at>\d+)\s*/\s*(?P<total>\d+)(?:\s*\]|\s+batches\b)")
"""How far, and of how much, as "[100/5000] loss=2.31" and PyTorch's "epoch 1 | 200/ 2983 batches | loss 5.1"."""

IN_BRACKETS = re.compile(r"(?:^|\s)\[(?P<at>\d+)\](?=\s+[A-Za-z_])")
"""A number alone in brackets, as "[100] loss=2.31" of CLU and T5X: the step, unless it is one number in all lines."""

SCALAR = re.compile(rf"\b(?:tensor|Array|(?:np\.|numpy\.)?float\d\d)\(({NUMBER})[^()]*\)", re.IGNORECASE)
"""A number as torch, JAX and NumPy print it."""

EPOCH = re.compile(r"\s*Epoch\s+\[?(?P<epoch>\d+)\s*/\s*\d+\]?:?\s*", re.IGNORECASE)
"""A line that names an epoch, and nothing else, as Keras prints it before bars that begin anew then."""

NOUN = re.compile(r"\s+[a-z]+\s*[:=]", re.IGNORECASE)
"""A word behind "nan", whose number follows: then "nan" is none."""

TIME = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+|\[?(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\]?")
"""When a line was written, of Google's loggers by which process."""

KEYS = (
    *("num_updates", "trainer/global_step", "global_step", "global step", "optimizer_step", "optimizer step"),
    *("num_steps", "train_step", "train step", "updates", "update", "iteration", "iterations", "iter", "step", "steps"),
    *("_step", "it", "batch", "s"),
)
"""Tools' names for the step, in lower case; those that count the optimiser's updates come first."""

SHORT = ("it", "batch", "s")
"""Those of `KEYS` that are steps in a line of text alone; in a table they may be anything."""

STEPS = tuple(name for name in KEYS if name not in SHORT)
"""Tools' names for the column of steps, in lower case."""

COUNTS_BATCHES = {"iteration", "iterations", "iter", "it", "batch", "s"}
"""Those of these names that stand behind "step" where a line has both: several batches make an update."""

AT = re.compile(r".*\b(?:at|completed|current|finished|training) (?:step|iteration|iter|update)", re.IGNORECASE)
"""A step within words, as Megatron's "validation loss at iteration 1000", and MaxText's "completed step: 100"."""

PARTS = re.compile(r"\b(train_inner|train(?:ing)?|valid(?:ation)?|val|eval(?:uation)?|test|dev)\b", re.IGNORECASE)
"""Words that say on which data the numbers of a line are, where they stand in none of its names."""

OF_PART = re.compile(
    r"^(?P<part>train|valid(?:ation)?|val|eval(?:uation)?|test)[_ ](?=num_updates$|global_step$|iteration$|iter$|step$)"
)
"""Before the step of a part, as fairseq's "valid_num_updates", and "eval step"."""

FEWEST = 4
"""Values of a curve at least: a name with fewer in a whole log is left out, as that of a setting."""

SHOWN = 60
"""Letters of a line that are shown."""

LINES = "lines"
"""Attribute of a frame of a text: the number of each row's line."""


class _Line(NamedTuple):
    """The numbers of a line, the step's name, if any; a `whole` line holds nothing else; `counts` count steps too."""

    values: dict[str, float]
    key: str | None
    step: float | None
    total: int | None
    whole: bool
    counts: frozenset[tuple[str, float]] = frozenset()


def read_lines(path: Path) -> pd.DataFrame:
    """Return the numbers of a text that a trainer prints, a row a line with its step, or that of the line before it."""
    numbered = [(i, part) for i, text in enumerate(text_of(path).split("\n"), 1) for part in text.split("\r")]
    numbers, texts = zip(*[(i, text) for i, text in numbered if text.strip()] or [(0, "")], strict=True)
    lines = [_parse(text) for text in _named(texts)]
    if len({line.step for line in lines if line.key == "[N]"}) == 1:  # of a process
        lines = [line._replace(key=None, step=None) if line.key == "[N]" else line for line in lines]
    of_both = lines[0]
    for i, line in enumerate(lines):
        of_both = line if line.counts else of_both
        same = (str(line.key).lower(), line.step) in of_both.counts  # as in litgpt's lines of a validation
        lines[i] = line._replace(step=of_both.step) if same else line
    steps = _steps(texts, lines)
    drawn: dict[tuple[object, ...], int] = {}
    for at, (text, line, step) in enumerate(zip(texts, lines, steps, strict=True)):
        if BAR.search(text) and line.values and step is not None:  # a bar is drawn again where its numbers change
            before = drawn.get(key := (step, *line.values), at)
            lines[before] = lines[before] if before == at else line._replace(values={})
            drawn[key] = at
    left = [text for text, line, step in zip(texts, lines, steps, strict=True) if line.values and step is None]
    kept = [i for i, (line, step) in enumerate(zip(lines, steps, strict=True)) if line.values and step is not None]
    rows = [(lines[i], steps[i]) for i in kept]
    aside = f"; left out: {len(left)} lines with numbers and no step, as {left[0].strip()[:SHOWN]!r}" if left else ""
    if not rows:
        forms = "'step 100 loss 2.31', 'iter=100, loss=2.31' or '{\"step\": 100, \"loss\": 2.31}'"
        raise ValueError(f"{path} has no line with a step and another number, as {forms}{aside}")
    frame = pd.DataFrame([{**line.values, "step": step} for line, step in rows])
    few = [str(name) for name in frame if frame[name].notna().sum() < min(FEWEST, len(frame))]
    keys = Counter(repr(line.key) if line.key else "that of a line before" for line, _ in rows)
    told = ", ".join(f"{key} ({number} lines)" for key, number in keys.most_common())
    aside += f"; with fewer than {FEWEST} values: {', '.join(few)}" if few else ""
    warnings.warn(f"{path.name}: the step is {told}{aside}", stacklevel=4)
    frame.attrs[LINES] = [numbers[i] for i in kept]
    return frame.drop(columns=few)


def _named(texts: Iterable[str]) -> Iterator[str]:
    """Yield lines with names that stand above their numbers, as mlx-lm prints "iter   train_loss" and "3   3.47"."""
    names = list[str]()
    for text in texts:
        cells = re.split(r"\s{2,}", text.strip())
        if len(cells) > 1 and not re.search(r"\d", text) and {*map(str.lower, cells)} & {*STEPS}:
            names = cells
        elif names and cells[0].isdigit():
            pairs = zip(names, cells, strict=False)
            text = "  ".join(each if each[:1].isalpha() else f"{name} {each}" for name, each in pairs)
        yield text


def _steps(texts: Sequence[str], lines: Sequence[_Line]) -> list[float | None]:
    """Return the step of each line, None where nothing tells it."""
    per_epoch, total = _epoch_length(lines), _bar_of_training(texts, lines)
    # Epochs are counted from 1, or from 0, or this is what was printed of a resumed run.
    first = float(min((_epoch(line) for line in lines if line.step is not None), default=0) == 1)
    named = any(map(EPOCH.fullmatch, texts))
    steps, before = list[float | None](), None
    epoch, drawn = 0, 0
    for text, line in zip(texts, lines, strict=True):
        if match := EPOCH.fullmatch(text):
            epoch = int(match["epoch"]) - 1
        for match in BAR.finditer(text):
            if int(match["total"]) == total:
                epoch += not named and int(match["at"]) < drawn == total
                drawn = int(match["at"])
                before = float(drawn + epoch * total)
        if line.step is not None:
            before = line.step + per_epoch * (_epoch(line) - first)
        steps.append(before if line.step is not None or line.whole else None)
    return steps


def _bar_of_training(texts: Sequence[str], lines: Sequence[_Line]) -> int:
    """Return where the bars end that tell steps, not those of an evaluation: most numbers stand in or behind them."""
    behind, last = Counter[int](), None
    for text, line in zip(texts, lines, strict=True):
        for match in BAR.finditer(text):
            last = int(match["total"])
        if last is not None and line.step is None and line.values:
            behind[last] += 1
    return max(behind, key=lambda total: (behind[total], total), default=0)


def _epoch(line: _Line) -> float:
    return next((value for name, value in line.values.items() if name.lower().rpartition("/")[2] == "epoch"), 0.0)


def _epoch_length(lines: Sequence[_Line]) -> int:
    """Return how many steps an epoch has whose steps begin anew; 0 where none do."""
    told = [(line.step, _epoch(line), line.total) for line in lines if line.step is not None]
    back = [later[1] - one[1] for one, later in pairwise(told) if later[0] < one[0]]
    if not back or min(back) < 1:
        return 0
    totals = {total for _, _, total in told}
    if len(totals) > 1 or None in totals:
        raise ValueError("steps begin anew in each epoch, of a length that no line tells: log steps that count on")
    return totals.pop() or 0


def _parse(text: str) -> _Line:
    if EPOCH.fullmatch(text):
        return _Line({}, None, None, None, whole=False)
    values, rest = _dictionary(SCALAR.sub(r"\1", TIME.sub(" ", text)))
    totals: dict[str, int] = {}
    for match in PAIR.finditer(rest):
        name = " ".join(match["name"].split())
        if match["sign"].isspace() and NOUN.match(rest, match.end()) and not match["value"][-1].isdigit():
            continue  # "number of nan iterations: 0"
        if match["unit"] in (None, "", "%") and not name.endswith(".py"):  # others time a training, or weigh it
            values.setdefault(name, float(match["value"].replace(",", "")) / (100 if match["unit"] else 1))
            totals |= {name: int(match["total"])} if match["total"] else {}
    remainder = PAIR.sub(" ", rest)
    named = {OF_PART.sub("", name.lower()): name for name in reversed(values) if values[name].is_integer()}
    named |= {name.lower(): name for name in reversed(values) if values[name].is_integer()}
    at = [name for name in named.values() if AT.fullmatch(name)]
    order = sorted(KEYS, key=lambda each: each in COUNTS_BATCHES)
    key = next((named[each] for each in order if each in named), at[0] if at else None)
    of_part = OF_PART.match(key.lower()) if key else None
    between = AT_OF.search(remainder) if key is None else None
    curves = {name: value for name, value in values.items() if name != key and name.lower() not in KEYS}
    part = of_part or PARTS.search(remainder)
    within = f"{part[1].lower()}/" if part else ""
    curves = {each if PARTS.search(each.replace("_", " ")) else f"{within}{each}": v for each, v in curves.items()}
    whole = BAR.search(rest) is not None or not re.search(r"[A-Za-z0-9]", PARTS.sub(" ", remainder))
    if between and curves:
        return _Line(curves, "[N/M]", float(between["at"]), int(between["total"]), whole)
    if key is None and curves and (alone := IN_BRACKETS.search(rest)):
        return _Line(curves, "[N]", float(alone["at"]), None, whole)
    counts = frozenset((name, values[each]) for name, each in named.items() if name in KEYS and each != key)
    return _Line(curves, key, values.get(key or ""), totals.get(key or ""), whole and bool(curves), counts)


def _dictionary(text: str) -> tuple[dict[str, float], str]:
    """Return the numbers of a dictionary in a line, as Python or JSON writes it, and the text before it."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return {}, text
    written = text[start : end + 1]
    for read in (json.loads, lambda python: ast.literal_eval(re.sub(r"\b(nan|inf)\b", "None", python))):
        try:
            held = read(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return dict(_numbers(held)) if isinstance(held, dict) else {}, text[:start]
    return {}, text


def _numbers(held: dict[object, object], within: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in held.items():
        if isinstance(value, dict):
            found += _numbers(value, f"{within}{name}/")
        elif not isinstance(value, bool) and re.fullmatch(NUMBER, text := str(value).strip(), re.IGNORECASE):
            found.append((f"{within}{name}", float(text.replace(",", ""))))
    return found
