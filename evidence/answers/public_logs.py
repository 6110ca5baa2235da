"""Logs that nobody here wrote, where they are: each with an expert's sentence."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from evidence.answers.case import Case, Change, MissingError, Truth
from stagewise import read_log
from stagewise.checkpoints.openers import is_log

BESIDE = Path(__file__).parents[3] / "shared" / "data" / "logs"
VARIABLE = "STAGEWISE_LOGS"
"""The environment variable that names the folder of the logs; without it, that beside the repository."""

ACCURACY = Truth((Change(512, 3000),))
LOGS = {
    "pythia_pythia-70m.csv": (
        "Zero-shot evaluations of Pythia 70M: LAMBADA rises once, between steps 512 and 3000; tasks near "
        "chance jump from label to label.",
        ACCURACY,
    ),
    "pythia_pythia-1.4b.csv": (
        "Zero-shot evaluations of Pythia 1.4B: LAMBADA rises once, between steps 512 and 3000; tasks near "
        "chance jump from label to label.",
        ACCURACY,
    ),
    "llmc-gpt2.log": ("GPT-2 by llm.c: a warm-up, then a smooth power law; no transition and no spike.", Truth()),
}


def cases() -> Iterator[Case]:
    """Yield the public logs."""
    for name, (sentence, truth) in LOGS.items():
        yield Case(f"public: {name}", sentence, functools.partial(_read, name), truth)


def _read(name: str, folder: Path) -> pd.DataFrame:
    path = Path(os.environ.get(VARIABLE) or BESIDE) / name
    if not path.exists():
        raise MissingError(f"{path} is not there: {VARIABLE} names the folder of public logs")
    if not is_log(path):
        raise MissingError(f"{path.suffix} files are not read")
    return read_log(path)
