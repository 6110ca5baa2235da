"""Ask stagewise about every record of a folder, judge its answers, and write docs/records.md.

`python -m evidence.records FOLDER [words]`: records whose names hold all the words; the page is written where there are
none. Beside the records the folder has `truths.json` and `README.md`, whose table names their sources.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

from evidence.judged_rows import told
from evidence.records.judging import Verdict, judged
from evidence.records.page import Row, page
from evidence.records.rivals import absent, answers_of
from evidence.records.told import Answer, answer_of
from evidence.records.truth import sources_of, truths_of
from stagewise.models.process import one_thread

PAGE = Path("docs/records.md")
SECONDS = 600
"""An answer that takes longer is none."""


class Asked(NamedTuple):
    """What is told of a record, None where nothing is, and the first sentences, or why there is none."""

    answer: Answer | None
    said: str


def asked(path: Path) -> Asked:
    """Ask about a file or folder, in a folder of its own, as a person would."""
    command = [sys.executable, "-m", "stagewise", "stages", str(path.resolve()), "--json"]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return Asked(None, f"no answer within {SECONDS} seconds")
    if done.returncode:
        return Asked(None, done.stderr.strip().rpartition("\n")[2].replace(str(path.resolve().parent) + "/", ""))
    written = json.loads(done.stdout)
    first = written if isinstance(written, dict) else written[0]
    return Asked(answer_of(written), " ".join(first["words"][:1]))


def judged_row(name: str, folder: Path) -> Row:
    """Ask about one record, and judge what is told of it, here and by other searches."""
    one_thread()
    truth, source = truths_of(folder)[name], sources_of(folder)[name]
    answer, said = asked(folder / truth.file)
    verdict, reasons = judged(truth, answer)
    reasons = reasons if verdict != Verdict.RIGHT else ()
    others = answers_of(folder / truth.file).items()
    of_others = {search: str(judged(truth, told).verdict) for search, told in others if told is not None}
    return Row(name, " ".join(source), truth.sentence, said, str(verdict), list(reasons), of_others)


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask about the records in two processes, print each verdict, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m evidence.records", description=__doc__)
    parser.add_argument("folder", type=Path, help="the records, with truths.json and README.md")
    parser.add_argument("words", nargs="*", help="only records whose names hold all of these")
    parser.add_argument("--processes", type=int, default=2, help="how many records are asked about at once")
    chosen = parser.parse_args(arguments)
    names = [name for name in truths_of(chosen.folder) if all(word in name for word in chosen.words)]
    with ProcessPoolExecutor(chosen.processes) as pool:
        rows = told(pool.map(judged_row, names, repeat(chosen.folder)))
    if not chosen.words:
        PAGE.write_text(page(rows, absent()), encoding="utf8")
        print(PAGE)


if __name__ == "__main__":
    main()
