"""Save small models in every way, open each series, and write docs/records/saved-series.md.

`python -m evidence.saved_series [--folder FOLDER] [words]`: series whose names hold all the words; the page is written
where there are none. What was asked is kept in the folder (`runs/saved_series`), and not asked again: delete it there
after a change.
"""

import argparse
import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

from evidence.saved_series.page import page
from evidence.saved_series.trial import Row, tried
from evidence.saved_series.ways import WAYS
from stagewise.models.process import one_thread

FOLDER = Path("runs/saved_series")
PAGE = Path("docs/records/saved-series.md")


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the series one after another, print each verdict, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m evidence.saved_series", description=__doc__)
    parser.add_argument("words", nargs="*", help="only series whose names hold all of these")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where verdicts are kept")
    chosen = parser.parse_args(arguments)
    one_thread()
    pairs = [(way, family) for way in WAYS for family in way.families]
    rows = []
    for way, family in pairs:
        name = f"{way.tool}: {way.name}: {family}"
        if not all(word in name for word in chosen.words):
            continue
        kept = chosen.folder / f"{re.sub('[^a-zA-Z0-9.]+', '-', name)}.json"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(dataclasses.asdict(tried(way, family))), encoding="utf8")
        rows.append(Row(**json.loads(kept.read_text(encoding="utf8"))))
        print(f"{len(rows)} of {len(pairs)}: {rows[-1].verdict.upper()} {name} | {rows[-1].said}", flush=True)
    if not chosen.words:
        PAGE.write_text(page(rows), encoding="utf8")
        print(PAGE)


if __name__ == "__main__":
    main()
