"""Names of strangers on a page: as text, bounded, and without anything that runs."""

import html
import html.parser
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import BATCH, EXAMPLE, RUN, TABLE
from stagewise.cli.app import app
from stagewise.plain_text import CONTROL
from tests.fixtures.runs import draw_some


class Read(html.parser.HTMLParser):
    """What a page holds: its elements, its text, and what in it would run or lead away."""

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.words, self.harm = Counter[str](), list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.harm += [f"{name}={value}" for name, value in attrs if name.startswith("on")]
        links = [value or "" for name, value in attrs if name in ("href", "src")]
        self.harm += [link for link in links if not link.startswith(("#", "data:", "figures/"))]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


HOSTILE = {
    "<script>alert(1)</script>": "<script>alert(1)</script>",
    "</style></svg><b>bold</b>": "</style></svg><b>bold</b>",
    "\x1b[2J\x07bell": "\\u0007bell",
    "\u202egpj.exe": "\\u202egpj.exe",
    "of two\nlines": "of two lines",
    "$\\frac$ and $x^2$": "$\\frac$ and $x^2$",
    "--><!-- ]]>": "--><!-- ]]>",
    "a" * 10_000: "a" * 40,
    "a" * 10_000 + "b": "a" * 40,
    "../../outside": "../../outside",
    "損失": "損失",
}
"""Names, and the text that a page shows of each."""


def check_page(page: Path, hostile: Iterable[str]) -> None:
    text, read = page.read_text(encoding="utf8"), Read()
    read.feed(text)
    assert read.harm == []
    assert not {"b", "i"} & read.elements.keys()
    assert not CONTROL.search(re.sub(r"[\n\t]", "", text))
    words = html.unescape(" ".join(read.words))
    assert [name for name in hostile if HOSTILE[name] not in words] == []


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")
@pytest.mark.parametrize(
    ("columns", "every"),
    [(len(HOSTILE), False), *(pytest.param(number, True, marks=pytest.mark.slow) for number in (len(HOSTILE), 200))],
)
def test_a_log_with_hostile_names_is_reported_as_text(
    columns: int, every: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = np.arange(0, 300, 10)
    names = [*HOSTILE, *(f"curve {number} <i>{number}</i>" for number in range(columns - len(HOSTILE)))]
    curves = {name: 5 / (1 + np.exp((steps - 100) / 10)) for name in names}
    pd.DataFrame({"step": steps, **curves}).to_csv("log.csv", index=False)
    if not every:
        draw_some(monkeypatch)
    result = CliRunner().invoke(app, ["report", "log.csv"])
    assert result.exit_code == 0, result.output
    check_page(next(tmp_path.glob("runs/*/report.html")), HOSTILE)
    drawings = [ElementTree.parse(path) for path in tmp_path.glob("runs/*/figures/*.svg")]
    assert len(drawings) >= columns
    shown = CliRunner().invoke(app, ["stages", "log.csv"]).output
    assert not CONTROL.search(shown.replace("\n", ""))
    assert max(map(len, shown.splitlines())) < 30_000


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning", "ignore:constrained_layout not applied:UserWarning")
@pytest.mark.parametrize("fixture", ["undrawn", pytest.param("tmp_path", marks=pytest.mark.slow)])
def test_a_folder_with_hostile_names_is_reported_as_text(
    fixture: str, small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(fixture)  # no drawings, or all of them
    monkeypatch.setattr("stagewise.measurement.probe_batch._RUN_SEQUENCES", 16)
    bad = "".join(HOSTILE)
    ignored = shutil.ignore_patterns("SHA256SUMS")
    folder = Path(shutil.copytree(small_folder, tmp_path / "<img src=x onerror=alert(1)>\x1b[2J", ignore=ignored))
    only = [word for name in ("KLToReference", "AttentionTo", "MeanPattern") for word in ("--only", name)]
    assert CliRunner().invoke(app, ["measure", str(folder), "--quiet", *only]).exit_code == 0
    for sums in folder.rglob("SHA256SUMS"):
        sums.unlink()
    table = pq.read_table(folder / TABLE)
    rows = table.to_pandas(ignore_metadata=True)
    for column in ("run", "reference", "relation"):
        rows[column] = rows[column].map(lambda name: name if name is None else f"{name}{bad}")
    rows.to_parquet(folder / TABLE, index=False)
    run = json.loads((folder / RUN).read_text())
    run["recipe"]["task"] |= {"type": bad, bad: bad}
    (folder / RUN).write_text(json.dumps(run))
    batch = json.loads((folder / BATCH).read_text())
    batch["relations"] = {f"{name}{bad}": pairs for name, pairs in batch["relations"].items()}
    (folder / BATCH).write_text(json.dumps(batch))
    assert not (folder / EXAMPLE).exists()
    (folder / EXAMPLE).write_text(json.dumps({"tokens": [bad], "heads": [bad], "attention": {"6": [[[1.0]]]}}))
    result = CliRunner().invoke(app, ["report", str(folder)])
    assert result.exit_code == 0, result.output
    assert not CONTROL.search(result.output.replace("\n", ""))
    check_page(folder / "report.html", ["<script>alert(1)</script>"])
