"""Ask stagewise about every run and log whose truth is known, judge its answers, and write docs/answers.md.

`python -m evidence.answers [--folder FOLDER] [words]`: cases whose names hold all the words; the page is written
where there
are none. What was trained and measured is kept in the folder (`runs/answers`), and taken from there the next time:
after a change of a run's recipe, or of a probe, its folder there has to go.
"""

import argparse
import hashlib
import json
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

from evidence.answers import circuits, continued, logged, printed_logs, public_logs, trained, trainer_logs
from evidence.answers.case import Case, MissingError
from evidence.answers.judging import Verdict, judged
from evidence.answers.page import Row, page
from evidence.judged_rows import told
from stagewise import Stages, answer, find_stages
from stagewise.models.process import one_thread

FOLDER = Path("runs/answers")
PAGE = Path("docs/answers.md")
DECIDES = (
    *(f"stagewise/{room}/**/*.py" for room in ("statistics", "findings", "words")),
    *("stagewise/checkpoints/*log*.py", "evidence/answers/*.py"),
)
"""Code that decides an answer, or its verdict: with another one a case is asked anew."""


def cases() -> dict[str, Case]:
    """Return every case by its name."""
    areas = logged, trainer_logs, printed_logs, circuits, trained, continued, public_logs
    return {case.name: case for area in areas for case in area.cases()}


def place(name: str) -> str:
    """Return what the folder and the answer of a case are called."""
    return re.sub("[^a-zA-Z0-9.]+", "-", name)


def code() -> str:
    """Return a hash of the code that answers and judges."""
    found = sorted(path for pattern in DECIDES for path in Path().glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest()[:12]


def first_sentences(stages: Stages) -> str:
    """Return the answer without its last sentence, which says what is uncertain."""
    return " ".join(answer(stages)[:-1] or answer(stages))


def asked(name: str, folder: Path) -> Row:
    """Ask about one case, or read what was answered."""
    one_thread()
    path = folder / "answers" / code() / f"{place(name)}.json"
    if path.exists():
        return Row(**json.loads(path.read_text(encoding="utf8")))
    case = cases()[name]
    try:
        table = case.table(folder / place(name))
    except MissingError as reason:
        return Row(name, case.sentence, "", "skipped", [str(reason)])
    try:
        stages = find_stages(table)
        said = first_sentences(stages)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # which is an answer, too
        return Row(name, case.sentence, "", Verdict.WRONG.value, [f"raises {error!r}"])
    truth = case.truth(table) if callable(case.truth) else case.truth
    verdict, reasons = judged(truth, stages)
    row = Row(name, case.sentence, said, str(verdict), list(reasons))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row._asdict()), encoding="utf8")
    return row


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask about the cases in two processes, print each verdict, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m evidence.answers", description=__doc__)
    parser.add_argument("words", nargs="*", help="only cases whose names hold all of these")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where runs and their tables are kept")
    parser.add_argument("--processes", type=int, default=2, help="how many cases are asked about at once")
    chosen = parser.parse_args(arguments)
    names = [name for name in cases() if all(word in name for word in chosen.words)]
    with ProcessPoolExecutor(chosen.processes) as pool:
        rows = told(pool.map(asked, names, repeat(chosen.folder)))
    if not chosen.words:
        PAGE.write_text(page(rows), encoding="utf8")
        print(PAGE)


if __name__ == "__main__":
    main()
