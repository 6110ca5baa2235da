"""The step, the tokens seen and the branch of training from a checkpoint's name, and what of it was read and ignored.

A name is a row of numbers, each of the kind that the word beside it says: a number behind "step" counts updates,
whatever stands behind it. Where no word says what is counted, the names of a folder decide together.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from itertools import groupby
from operator import index
from typing import Any, NamedTuple

ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".pth.tar")
"""Endings of files that hold weights."""

REPOSITORY = r"[\w.-]+/[\w.-]+"
"""The name of a repository of the hub: "owner/name"."""

UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}

LARGEST = 2**63 - 1
"""The largest step that a table can hold; a larger number in a name is no step."""

UPDATES = ("step", "update", "iteration", "batch", "checkpoint")
"""Kinds of numbers that count updates, the best first; "update" is the second one of fairseq's checkpoint_3_500."""

KINDS = {
    "step": r"(?:global)?steps?|updates?|upd|gs",
    "iteration": r"iterations?|iters?|itr|its?|i",
    "batch": r"batch(?:es)?|ba",
    "checkpoint": r"checkpoints?|ckpts?|chkpt|ckp|cp",
    "tokens": r"tokens?|toks?|words|chck",  # chck_100M is BabyLM's, of words
    "epoch": r"epochs?|ep|e",
    "measure": r"(?:val|valid|train|test|eval)?(?:loss|ppl|acc|nll|err)|perplexity|ce|bp[bc]|accuracy|error|f|bleu"
    r"|rouge|score|m[as]e|rmse|auc|[wc]er|val|valid|validation|test|eval|train|lr|wd|metric",
    "place": r"seed|rank|gpu|node|world|size|[mdtp]p|shard|part|fold|worker|process|of|bs|bsz|top",
    "percent": r"pct|percent",
    "other": r"v|ver|version|d|dim|width|depth|h|heads?|l|layers?|ctx|len|k|phase|stage|ingredient",
}
"""Units that a word gives to the number behind it, or in front of it, as in 1000steps."""

PASSED = ("iteration", "batch", "epoch", "measure", "date", "tokens")
"""Kinds of numbers that change from checkpoint to checkpoint: before a step they are no part of the training's name."""

COPY = r"(?i)(?<![a-z])(?:last|latest|best|final|init|initial|tmp|temp|ema|swa)(?![a-z])"
"""Words of copies beside the checkpoints of a series, whatever number they have, as Lightning's last-v1."""

END = re.compile(r"(?i)[-_.]?(?:last|final|best)(?=\.[a-z]+$|$)")
"""The ending of the name of a checkpoint that some trainers write for the last or the best one of a series."""

NUMBER = re.compile(
    r"(?P<value>\d{1,3}(?:[_,]\d{3})+(?!\d)|\d+(?:\.\d+)?(?:e[-+]?\d{1,2}(?![a-z\d]))?)"
    r"(?P<unit>(?:[kKmMbBtTG]|[kKmMBG](?P<tokens>[Tt]))(?![A-Za-z])|[kKmMB](?=(?:[Ss]tep|[Ii]ter|[Uu]pdate|[Tt]oken)s?)|)"
)
DIGITS = re.compile(r"\d+")
BEFORE = re.compile(r"(?P<word>[A-Z]?[a-z]+|[A-Z]+)?(?P<gap>[^A-Za-z\d]*)$")
BEHIND = re.compile(r"[-_ ]?(?P<word>[A-Za-z]{2,})(?![A-Za-z]|[-_=]?\d)")
BESIDE = re.compile(r"(?i)(?<![a-z])(?:(?:global|train|training|opt|optimi[sz]er|num|val|valid|test|eval)[-_]?)+$")
"""Words that may stand before such a word, as in global_step and val_loss."""

TIME = r"[-_T](?:[0-2]\d[-_:][0-5]\d(?:[-_:][0-5]\d)?|[0-2]\d[0-5]\d[0-5]\d)(?!\d)"
DATE = re.compile(rf"(?<!\d)(?:19|20)\d\d([-_]?)[01]\d\1[0-3]\d(?!\d)(?:{TIME})?")
CLOCK = re.compile(r"1[4-9]\d{5}(?!000)\d{3}")
"""Seconds since 1970, of these years; a number of steps that large is round."""

AGAIN = re.compile(r"-v\d+(?=\.[a-z]+$|$)")
"""The ending that Lightning puts behind a name that it has written before."""

TRAINING = re.compile(r"(?i)[-_. ]((?:seed|stage|phase)[-_= ]?\d+|seed[-_][a-z].*)")
"""A training behind a step, where a repository or a folder holds several."""

FEW = 3
"""Names from which on they tell that what stands before each step is none of a training's."""

COUNTS = {"epoch": "epochs", "tokens": "tokens", "other": "something else than updates", "percent": "percent"}
"""Units that take the place of steps where no name has a number of updates."""


class Coordinates(NamedTuple):
    """Where a checkpoint lies in its training: optimiser steps, tokens seen if its name has them, and the branch.

    Steps are compared within one branch only: "stage2-ingredient1-step100" is not the 100th step of "stage1".
    """

    step: int
    tokens: int | None = None
    branch: str = ""


GIVE_PARSE = r"give it, as in --parse '(?P<step>\d+)_of', in Python `parse=` an expression or a function of the name"
"""Advice for a name without a step."""

Parse = Callable[[str], Coordinates | int | None]
"""From a name to its coordinates, or just its step, or None for a name that is no checkpoint."""


class _Number(NamedTuple):
    """A number in a name: its kind, if a word says so; its value, None for no count; `plain` in digits alone."""

    kind: str
    value: int | None
    start: int
    first: int
    end: int
    plain: bool


class Reading(NamedTuple):
    """How a name was read.

    Args:
        at: what it says; None where it is no checkpoint's.
        kind: of the number that is its step.
        read: the part of the name that is its step.
        ignored: the other numbers in it.
        why: it is left out, or what its number counts in place of updates.
    """

    at: Coordinates | None
    kind: str = ""
    read: str = ""
    ignored: tuple[str, ...] = ()
    why: str = ""

    def told(self, name: str) -> str:
        """Say it in a line.

        >>> read_names(["step_100_ppl_35"])[0].told("step_100_ppl_35.pt")
        'step_100_ppl_35.pt -> step 100, read from `step_100`, ignored `ppl_35`'
        """
        if self.at is None:
            return f"{name} -> left out: {self.why}"
        ignored = f", ignored {', '.join(f'`{each}`' for each in self.ignored)}" if self.ignored else ""
        source = f", read from `{self.read}`" if self.read else ""
        return f"{name} -> step {self.at.step}{source}{f', which {self.why}' if self.why else ''}{ignored}"


def is_step(value: Any) -> bool:
    """Tell whether a recorded value is a number that a step, or a count of tokens, can be.

    >>> is_step(300), is_step(10**30), is_step(True)
    (True, False, False)
    """
    return type(value) is int and 0 <= value <= LARGEST


def whole(step: Any) -> int:
    """Return a step as a number of Python's.

    Raises:
        ValueError: it is no whole number from 0 to `LARGEST`.
    """
    try:
        number = index(step)
    except TypeError:
        number = -1
    if isinstance(step, bool) or not is_step(number):
        raise ValueError(f"a step is a whole number of optimiser updates, got {step!r}")
    return number


def _numbers(name: str) -> list[_Number]:
    dates = [match.span() for pattern in (DATE, AGAIN) for match in pattern.finditer(name)]
    numbers: list[_Number] = []
    while match := NUMBER.search(name, numbers[-1].end if numbers else 0):
        earlier, alone = numbers[-1] if numbers else None, match.span() == (0, len(name))
        before = BEFORE.search(name, earlier.end if earlier else 0, match.start())
        word, gap = (before["word"] or "", before["gap"]) if before else ("", "")
        kind = _kind(word)
        digits, unit, end = match["value"], match["unit"], match.end()
        if "_" in digits and kind not in ("step", "iteration", "batch", "tokens"):  # checkpoint_2_500 holds two
            digits, unit = DIGITS.findall(digits)[0], ""
            end = match.start() + len(digits)
        behind = BEHIND.match(name, end)
        counted = _kind(behind["word"]) if behind and kind in ("", "checkpoint") else ""
        if behind and (counted in (*UPDATES[:-1], "tokens", "epoch") or (kind and counted == "percent")):
            kind, end = counted, behind.end()
        elif match["tokens"] or (not kind and not word and unit.upper() in ("B", "T") and (earlier or alone)):
            kind = "tokens"
        elif not word and gap == "_" and earlier and name[earlier.start : earlier.first] == "checkpoint_":
            kind = "update"
        if kind not in UPDATES and (
            any(start <= match.start() < stop for start, stop in dates) or re.search(r"\d\.$", name[: match.start()])
        ):
            kind = "date"
        if kind in ("", "checkpoint") and CLOCK.fullmatch(digits):
            kind = "date"
        negative = gap[-2:] in ("_-", "=-", ":-") or (gap == "--" and kind in UPDATES)
        value = _value(digits, unit, kind)
        start = before.start() if before and word else match.start() - negative
        if kind in (*UPDATES, "measure") and (beside := BESIDE.search(name, 0, start)):
            start = beside.start()
        plain = unit in ("k", "K") or (digits.isdecimal() and not unit)
        numbers.append(_Number(kind, None if negative else value, start, match.start(), end, plain))
    return numbers


def _value(digits: str, unit: str, kind: str) -> int | None:
    """Return a number; None where it is no count. A decimal without a unit is none, whatever its digits."""
    value = Decimal(re.sub("[_,]", "", digits)) * UNITS[unit.upper()[:1]]
    unclear = ("." in digits and not unit) or (kind in UPDATES and unit in ("b", "t", "T"))
    return int(value) if not unclear and value <= LARGEST and value == int(value) else None


def _kind(word: str) -> str:
    return next((kind for kind, words in KINDS.items() if re.fullmatch(words, word, re.IGNORECASE)), "")


def convention(name: str) -> str:
    """Return how a name is made, whatever its numbers are.

    >>> convention("epoch=3-step=400-v1.ckpt"), convention("step-1195k-token-2.5T")
    ('epoch=#-step=#.ckpt', 'step-#-token-#')
    """
    name = END.sub("", AGAIN.sub("", name))
    for number in reversed(_numbers(name)):
        name = f"{name[: number.first]}#{name[number.end :]}"
    return re.sub(r"(?<![A-Za-z])(?:nan|inf)(?![A-Za-z])", "#", name)


def read_names(names: Sequence[str], parse: Parse | str | None = None, *, bare: bool = True) -> list[Reading]:
    r"""Read the names of revisions, folders or files, these without their endings.

    Args:
        names: of one source, which tell together which of several numbers changes.
        parse: in place of this module, a function from a name to its step or coordinates; or an expression with a group
            `step`, and `tokens` and `branch` where names have them.
        bare: whether a number without a word is a step, as in model_300: in names of files it is one.

    Raises:
        ValueError: the expression cannot be compiled, or has no group `step`.

    >>> [reading.at.step for reading in read_names(["ckpt_0.5k", "ckpt_1.5k", "ckpt_2k"])]
    [500, 1500, 2000]
    >>> read_names(["stage1-step101000-tokens424B"])[0].at
    Coordinates(step=101000, tokens=424000000000, branch='stage1')
    >>> read_names(["main", "step_-1"], bare=False)[1].why
    '`step_-1` is no number of updates'
    >>> read_names(["e30_x"], r"e(?P<step>\d+)")[0].told("e30_x.pt")
    'e30_x.pt -> step 30'
    """
    if parse is not None:
        own = _by_expression(parse) if isinstance(parse, str) else parse
        given = [Coordinates(whole(at)) if isinstance(at, int) else at for at in map(own, names)]
        return [Reading(at, why="" if at else "`parse` gives it no step") for at in given]
    parsed = [_numbers(name) for name in names]
    alike: dict[tuple[str, int], list[int]] = {}
    for row, name in enumerate(names):
        alike.setdefault((convention(name), len(parsed[row])), []).append(row)
    readings = [Reading(None)] * len(names)
    for rows in alike.values():
        columns = list(zip(*(parsed[row] for row in rows), strict=True))
        changing = {place for place, column in enumerate(columns) if len({one.value for one in column}) > 1}
        for row in rows:
            readings[row] = _reading(names[row], parsed[row], changing, bare)
    return _of_one_training(_of_one_kind(readings))


def _reading(name: str, numbers: Sequence[_Number], changing: Collection[int], bare: bool) -> Reading:
    """Read one name by its numbers, those that change among names of its making first."""
    kinds = (*UPDATES, "tokens", "epoch", *(("", "other", "percent") if bare else ()))
    kind = next((each for each in kinds if any(one.kind == each and (each or one.plain) for one in numbers)), None)
    if kind == "tokens" and 0 in changing and not (numbers[0].first or numbers[0].kind) and numbers[0].plain:
        kind = ""  # 1000-tokens4B
    places = [place for place, one in enumerate(numbers) if one.kind == kind and (kind or one.plain)]
    changed = [place for place in places if place in changing]
    if kind in ("", "other"):
        end = len(AGAIN.sub("", name))
        places = (changed or [place for place in places if numbers[place].end == end])[-1:]
    elif len(places) > 1 and len(changed) == 1:
        places = changed
    texts = [name[one.start : one.end] for one in numbers]
    if len(places) != 1:
        several = " and ".join(f"`{texts[place]}`" for place in places)
        return Reading(None, why=f"{several} may be its step" if several else "no number in it counts updates")
    number = numbers[places[0]]
    if number.value is None:
        return Reading(None, why=f"`{texts[places[0]]}` is no number of updates")
    branch, inside = _branch(name, numbers, number) if kind in UPDATES else ("", set[_Number]())
    tokens = number if kind == "tokens" else next((one for one in numbers if one.kind == "tokens" and one.value), None)
    ignored = [text for one, text in zip(numbers, texts, strict=True) if one not in {number, tokens, *inside}]
    at = Coordinates(number.value, tokens and tokens.value, branch)
    counts = f"counts {COUNTS[kind]}" if kind in COUNTS else ""
    return Reading(at, kind or "", texts[places[0]], tuple(ignored), counts)


def _branch(name: str, numbers: Sequence[_Number], step: _Number) -> tuple[str, set[_Number]]:
    """Return the training that a name belongs to, by what stands before its step, or by a seed; and its numbers."""
    before, inside = name[: step.start], set[_Number]()
    for one in reversed([one for one in numbers if one.end <= step.start]):
        if one.kind in PASSED or (not one.kind and one.value is None):
            before = f"{before[: one.start]}-{before[one.end :]}"
        else:
            inside.add(one)
    parts = [re.sub(r"[-_=. ]{2,}", "-", before).strip("-_=. ")]
    if match := TRAINING.search(name, step.end):
        parts.append(match[1])
        inside |= {one for one in numbers if match.start(1) <= one.first < match.end(1)}
    return "-".join(filter(None, parts)), inside


def _of_one_kind(readings: Sequence[Reading]) -> list[Reading]:
    """Leave out the names whose numbers count something else than those of most: epochs, tokens, what no word says."""
    fairseq = any(reading.kind == "update" for reading in readings)  # whose checkpoint3 is of an epoch
    kinds = {kind: "updates" for kind in UPDATES} | ({"checkpoint": "epoch"} if fairseq else {})
    counted = [None if reading.at is None else kinds.get(reading.kind, reading.kind) for reading in readings]
    sizes = Counter(each for each in counted if each is not None)
    order = ("updates", "tokens", "epoch", "", "other", "percent")
    chosen = next((each for each in order if sizes and 2 * sizes[each] >= max(sizes.values())), None)
    others = [Reading(None, why=f"`{reading.read}` counts something else than the others") for reading in readings]
    each = zip(readings, others, counted, strict=True)
    return [reading if counts in (None, chosen) else other for reading, other, counts in each]


def _of_one_training(readings: list[Reading]) -> list[Reading]:
    """Take no prefix for a branch that each of several names has one of its own of, as a number of the file."""
    known = [reading.at for reading in readings if reading.at is not None]
    if len(known) < FEW or not len({at.branch for at in known}) == len({at.step for at in known}) == len(known):
        return readings
    return [
        one if one.at is None else one._replace(at=one.at._replace(branch=""), ignored=(one.at.branch, *one.ignored))
        for one in readings
    ]


def _by_expression(expression: str) -> Parse:
    try:
        compiled = re.compile(expression)
    except re.error as reason:
        raise ValueError(f"`parse` is no regular expression ({reason}): {expression}") from reason
    if unknown := compiled.groupindex.keys() - {"step", "tokens", "branch"} or {"step"} - compiled.groupindex.keys():
        raise ValueError(
            f"`parse` has a group of the name (?P<step>\\d+), and (?P<tokens>...) and (?P<branch>...) where names have "
            f"them; {', '.join(unknown)} does not fit: {expression}"
        )

    def how(name: str) -> Coordinates | None:
        groups = match.groupdict() if (match := compiled.search(name)) else {}
        written = (NUMBER.fullmatch(groups.get(each) or "") for each in ("step", "tokens"))
        step, tokens = (_value(number["value"], number["unit"], "") if number else None for number in written)
        return None if step is None else Coordinates(step, tokens, groups.get("branch") or "")

    return how


def seed_of(name: str) -> int | None:
    """Return the seed that a repository's, a folder's or a branch's name ends with, None if it names none.

    >>> seed_of("EleutherAI/pythia-160m-seed3"), seed_of("seed_0"), seed_of("seedling-7")
    (3, 0, None)
    """
    match = re.fullmatch(r"(?:.*[-_./ ])?seed[-_ ]?(\d+)", name)
    return int(match[1]) if match else None


SHOWN = 6
"""Lines of a table of names that are shown; the others are alike, and counted."""


def told(rows: Sequence[tuple[str, Reading]]) -> list[str]:
    """Return the lines that say which step each name was taken for, where anything in a name was ignored or left out.

    >>> told([("step_100.pt", Reading(Coordinates(100), "step", "step_100"))])
    []
    """
    said = [(name, reading) for name, reading in rows if reading.at is None or reading.ignored or reading.why]
    said.sort(key=lambda row: (convention(row[0]), row[1].at or (-1,)))
    lines = []
    for _, alike in groupby(said, lambda row: convention(row[0])):
        each = [reading.told(name) for name, reading in alike]
        lines += each if len(each) <= SHOWN else [*each[:2], f"... {len(each) - SHOWN // 2} more so", each[-1]]
    return lines
