"""The README's promises: its example runs as it stands, and the tables of the docs name what there is."""

import dataclasses
import re
import runpy
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

import stagewise
from stagewise import find_stages, measure, probes, tasks
from stagewise.probes import KLToReference

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BOTH = ("README.md", "CONTRIBUTING.md")
DRAWN = (
    "train",
    "open_series",
    "read_log",
    "measure",
    "find_stages",
    "report",
    "densify",
    "intervene",
    "branch",
    "certify",
)


@pytest.mark.docs
def test_the_python_example_runs_as_it_stands_and_prints_three_stages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    exec(example, names)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:7] for line in lines] == ["Two tra", "stage 1", "stage 2", "stage 3"]
    assert (tmp_path / "runs" / "example" / "kl.svg").stat().st_size > 0
    assert [each for each in printed_rows(README) if not in_table(each, names["table"])] == []
    # What the references are called decides nothing.
    batch, table = names["task"].probe_batch(200, seed=0), names["table"]
    references = {name.replace("A*_1", "after 1"): log_probs for name, log_probs in batch.references.items()}
    renamed = dataclasses.replace(batch, references=references)
    kl = measure(names["series"], [KLToReference()], renamed, progress=False)
    others = table[table["probe"] != "KLToReference"]
    stages = find_stages(pd.concat([kl, others], ignore_index=True))
    assert str(stages).splitlines() == [line.replace("A*_1", "after 1") for line in lines]


@pytest.mark.docs
def test_the_first_block_prints_the_line_that_stands_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other processors round other sums, after which another head of layer 1 may be first."""
    text, makefile = README.read_text(encoding="utf8"), (ROOT / "Makefile").read_text(encoding="utf8")
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (target,) = re.findall(r"^make (\w+)", next(code for language, code in fences if language == "bash"))
    (example,) = re.findall(rf"^{target}: .*\n\t.*\$\(BIN\)/python (.*)$", makefile, re.MULTILINE)
    assert f"`python {example}`" in text
    monkeypatch.chdir(tmp_path)
    picture = runpy.run_path(str(ROOT / example))["main"](tmp_path / "run")
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out.splitlines()[0]
    expected = next(code for language, code in fences if not language).splitlines()[0]
    assert re.sub(r"L1H\d|\d+", "#", said) == re.sub(r"L1H\d|\d+", "#", expected)
    lo, hi = map(int, re.findall(r"\[(\d+), (\d+)\]", expected)[0])
    (half,) = map(int, re.findall(r"Half-way at step (\d+)", said))
    assert lo <= half <= hi


PRINTED = 0.01
"""The rows of the page have two decimals, which another processor's order of sums may change by one."""


def printed_rows(page: Path) -> list[dict[str, str]]:
    """The rows of a table of measurements that a page shows, without empty cells."""
    lines = re.findall(r"^\| (.*) \|$", page.read_text(encoding="utf8"), re.MULTILINE)
    first = next(number for number, line in enumerate(lines) if line.startswith("step | probe | quantity"))
    names, _, *rows = ([cell.strip() for cell in line.split("|")] for line in lines[first : first + 7])
    return [{name: cell for name, cell in zip(names, row, strict=True) if cell} for row in rows]


def in_table(printed: dict[str, str], table: pd.DataFrame) -> bool:
    """Whether a table has one such row, the axes that are not printed missing, and the printed numbers in it."""
    numbers = {name: float(printed[name]) for name in ("value", "lo", "hi")}
    axes = ["step", "probe", "quantity", "reference", "layer", "head", "relation", "context", "kind", "control"]
    texts = table[axes].astype("string").fillna("")
    same = (texts == [printed.get(axis, "") for axis in axes]).all(axis=1)
    rows = table[same]
    return len(rows) == 1 and all(abs(rows[name].iloc[0] - number) <= PRINTED for name, number in numbers.items())


def test_contributing_shows_the_drawing_and_the_rows_of_the_readme() -> None:
    drawings = [re.findall(r"```\n( task.*?)```", (ROOT / name).read_text(encoding="utf8"), re.DOTALL) for name in BOTH]
    assert drawings[0] == drawings[1]
    assert len(drawings[0]) == 1
    assert all(verb in drawings[0][0] and verb in stagewise.__all__ for verb in DRAWN)
    assert len(printed_rows(README)) == 5
    assert printed_rows(README) == printed_rows(ROOT / "CONTRIBUTING.md")


@pytest.mark.parametrize("catalogue", [probes, tasks], ids=["probes", "tasks"])
def test_the_tables_name_every_probe_and_every_task(catalogue: ModuleType) -> None:
    table = (ROOT / "docs" / f"{catalogue.__name__.split('.')[-1]}.md").read_text(encoding="utf8")
    first, _, _ = table.partition("\n## ")
    named = set(re.findall(r"^\| `(\w+)`", first, re.MULTILINE))
    own = {name for name, value in vars(catalogue).items() if isinstance(value, type)}
    added = {entry.name for entry in entry_points(group=catalogue.__name__)}
    assert own <= named <= own | added


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_example_that_a_page_names_is_there() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"examples/(\w+\.py)", page.read_text(encoding="utf8"))}
    assert named <= {path.name for path in (ROOT / "examples").glob("*.py")}


def test_every_promise_names_tests_that_there_are() -> None:
    promises = (ROOT / "docs" / "reliability.md").read_text(encoding="utf8")
    named = set(re.findall(r"`(test_\w+)`", promises))
    sources = [path.read_text(encoding="utf8") for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(named) > 15
    assert not {name for name in named if not any(f"def {name}(" in source for source in sources)}
