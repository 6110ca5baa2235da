"""The step, the tokens seen and the branch of training from a checkpoint's name; one table of patterns."""

import re
from collections.abc import Callable
from decimal import Decimal
from operator import index
from typing import Any, NamedTuple

UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}

STEP = r"step[-_]?(?P<step>\d+)(?P<scale>[kKmM]?)"
BRANCH, TOKENS = r"(?:(?P<branch>.+?)[-_])?", r"(?P<tokens>\d+(?:\.\d+)?)"

PATTERNS: tuple[tuple[str, str], ...] = (
    (
        r"(?:.+[-_])?epoch[-_=]?\d+[-_](?:step|iter)[-_=]?(?P<step>\d+)(?:-v\d+)?",
        "epoch=3-step=400, as Lightning writes; epoch_3_step_400",
    ),
    (rf"{BRANCH}{STEP}", "step1000, stage1-step-40000, seed_0-step_20k"),
    (
        rf"{BRANCH}{STEP}[-_]tokens?[-_]?{TOKENS}(?P<unit>[KMBTkmbt]?)",
        "stage1-step101000-tokens424B, step-480k-token-1007B, step-1195k-token-2.5T",
    ),
    (rf"{BRANCH}{STEP}[-_]{TOKENS}(?P<unit>[BTbt])", "TinyLlama-1.1B-intermediate-step-240k-503b"),
    (
        rf"{BRANCH}(?:checkpoint|ckpt|iter)[-_]?(?P<step>\d+)(?P<scale>[kKmM]?)",
        "checkpoint-1000, checkpoint_0050000, ckpt_1M",
    ),
)
"""Regular expression and examples. Each has `step`; `branch`, `scale`, `tokens` and `unit` where it needs them."""

LARGEST = 2**63 - 1
"""The largest step that a table can hold; a larger number in a name is no step."""

NUMBERED = r"(?:.*[^0-9])?(?<!\d\.)(?<!\de)(?<!-v)(?<!\d{4}-\d\d-)(?P<step>\d+)"
"""For files in a folder of checkpoints, whatever stands before the number: model_300.pt, SoLU_2L_v10_000300.pth.

What stands behind a decimal point, as in epoch=3-val_loss=0.52, an exponent, the day of a date, and the
number that Lightning puts behind a name that it has written before (-v1) are no steps.
"""


COUNTED = rf"(?:.+[-_])?tokens?[-_=]?{TOKENS}(?P<unit>[KMBTkmbt]?)"
"""For files whose names count the tokens that the model had seen, and no steps."""

WITHIN = r"(?i)(?<![a-z])(?:global_?)?(?:step|iter|iteration)[-_=]?(?P<step>\d+)(?P<scale>[km]?)(?![0-9a-z]|\.\d)"
"""For files and folders of which none is named otherwise: a step with something behind it, as a loss."""

COPY = r"(?i)(?:last|latest|best|final)(?![a-z]).*"
"""Names of copies beside the checkpoints of a series, whatever number they end with, as Lightning's last-v1."""


class Coordinates(NamedTuple):
    """Where a checkpoint lies in its training: optimiser steps, tokens seen if its name has them, and the branch.

    Steps are compared within one branch only: "stage2-ingredient1-step100" is not the 100th step of "stage1".
    """

    step: int
    tokens: int | None = None
    branch: str = ""


NUMBERS = re.compile(r"(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?[KMBTkmbt]?|nan|inf)(?![A-Za-z])")
AGAIN = re.compile(r"-v\d+(?=\.[a-z]+$|$)")
"""What Lightning puts behind a name that it has written before."""

Parse = Callable[[str], Coordinates | int | None]
"""From a name to its coordinates, or just its step, or None for a name that is no checkpoint."""


def is_step(value: Any) -> bool:
    """Whether what a file records is a number that a step, or a count of tokens, can be.

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
        number = -1 if isinstance(step, bool) else index(step)
    except TypeError:
        number = -1
    if not 0 <= number <= LARGEST:
        raise ValueError(f"a step is a whole number of optimiser updates, got {step!r}")
    return number


def parse(name: str) -> Coordinates | None:
    """Parse the name of a revision, a folder or a file; None if no pattern matches the whole of it.

    >>> parse("stage1-step101000-tokens424B")
    Coordinates(step=101000, tokens=424000000000, branch='stage1')
    >>> parse("TinyLlama-1.1B-intermediate-step-1195k-token-2.5T")
    Coordinates(step=1195000, tokens=2500000000000, branch='TinyLlama-1.1B-intermediate')
    >>> parse("main") is None and parse("checkpoint-100000000000000000000") is None
    True
    """
    for pattern, _ in PATTERNS:
        if match := re.fullmatch(pattern, name):
            groups = match.groupdict()
            tokens = groups.get("tokens")
            seen = None if tokens is None else int(Decimal(tokens) * UNITS[(groups.get("unit") or "").upper()])
            step = int(groups["step"]) * UNITS[(groups.get("scale") or "").upper()]
            return Coordinates(step, seen, groups.get("branch") or "") if max(step, seen or 0) <= LARGEST else None
    return None


def parse_file(name: str) -> Coordinates | None:
    """Parse a weight file's name, without its ending; any number at its end counts as the step.

    >>> parse_file("SoLU_2L_v10_000300")
    Coordinates(step=300, tokens=None, branch='')

    Where names count tokens, these stand for the steps:

    >>> parse_file("tokens_1.5B")
    Coordinates(step=1500000000, tokens=1500000000, branch='')
    """
    parsed = parse(name)
    if parsed is None and (match := re.fullmatch(COUNTED, name)):
        tokens = int(Decimal(match["tokens"]) * UNITS[match["unit"].upper()])
        return Coordinates(tokens, tokens) if tokens <= LARGEST else None
    if parsed is None and (match := re.fullmatch(NUMBERED, name)) and int(match["step"]) <= LARGEST:
        return Coordinates(int(match["step"]))
    return parsed


def parse_within(name: str) -> Coordinates | None:
    """Parse a name in which a step stands anywhere, and only one.

    >>> parse_within("epoch=3-step=400-val_loss=0.52"), parse_within("step_5_of_step_9")
    (Coordinates(step=400, tokens=None, branch=''), None)
    """
    matches = list(re.finditer(WITHIN, name))
    if len(matches) != 1:
        return None
    step = int(matches[0]["step"]) * UNITS[matches[0]["scale"].upper()]
    return Coordinates(step) if step <= LARGEST else None


def convention(name: str) -> str:
    """Return how a name is made, whatever its numbers are.

    >>> convention("epoch=3-step=400-v1.ckpt"), convention("step-1195k-token-2.5T")
    ('epoch=#-step=#.ckpt', 'step-#-token-#')
    """
    return NUMBERS.sub("#", AGAIN.sub("", name))


def seed_of(name: str) -> int | None:
    """Return the seed that a repository's, a folder's or a branch's name ends with, None if it names none.

    >>> seed_of("EleutherAI/pythia-160m-seed3"), seed_of("seed_0"), seed_of("seedling-7")
    (3, 0, None)
    """
    match = re.fullmatch(r"(?:.*[-_./ ])?seed[-_ ]?(\d+)", name)
    return int(match[1]) if match else None


def coordinates(name: str, how: Parse) -> Coordinates | None:
    """Apply a parser, the user's own or one of this table.

    >>> coordinates("epoch3", lambda name: 100 * int(name.removeprefix("epoch")))
    Coordinates(step=300, tokens=None, branch='')
    """
    parsed = how(name)
    return Coordinates(parsed) if isinstance(parsed, int) else parsed
