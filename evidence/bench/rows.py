"""The rows of the bench: which there are, how they are kept in a file, and the table that the docs quote."""

import dataclasses
import importlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from evidence.bench.timing import Row
from stagewise.checkpoints.run_folder import write, write_json

FOLDER = Path("runs/bench")
HERE = Path(__file__).parent


def areas() -> dict[str, tuple[Callable[[], Iterable[Row]], ...]]:
    """Return the functions that yield rows, by area: `ROWS` of every module of this folder that has one."""
    modules = {
        path.stem: importlib.import_module(f"evidence.bench.{path.stem}")
        for path in sorted(HERE.glob("*.py"))
        if not path.stem.startswith("_")
    }
    return {name: module.ROWS for name, module in modules.items() if hasattr(module, "ROWS")}


def chosen(names: Sequence[str]) -> list[str]:
    """Return the rows of the named areas and the named rows, as "area.row"; all where nothing is named.

    Raises:
        ValueError: there is no such area or row.
    """
    known = [f"{area}.{function.__name__}" for area, functions in areas().items() for function in functions]
    selected = [row for row in known if not names or {row, *row.split(".")} & set(names)]
    parts = {part for row in known for part in (row, *row.split("."))}
    if unknown := [name for name in names if name not in parts]:
        raise ValueError(f"the bench has no row or area {unknown[0]!r}; it has {', '.join(known)}")
    return selected


def run_row(name: str) -> list[Row]:
    """Measure the rows of a function, "area.row"."""
    area, _, function = name.partition(".")
    module = importlib.import_module(f"evidence.bench.{area}")
    return list(getattr(module, function)())


def record(rows: Sequence[Row], folder: Path = FOLDER) -> None:
    """Write rows into bench.json beside those that other calls measured, and the table of all into bench.md."""
    path = folder / "bench.json"
    earlier = [Row(**each) for each in json.loads(path.read_text("utf8"))] if path.exists() else []
    merged = {row.name: row for row in (*earlier, *rows)}
    write_json(path, [dataclasses.asdict(row) for row in merged.values()])
    write(folder / "bench.md", lambda partial: partial.write_text(table(list(merged.values())) + "\n", "utf8"))


def table(rows: Sequence[Row], *, header: bool = True) -> str:
    """Return rows as a Markdown table.

    >>> print(table([Row("a over b", 1.04, 1.0, 1.31, 1.1)]))
    | row | median | least to largest | goal | reached | |
    | --- | --- | --- | --- | --- | --- |
    | a over b | 1.04 | 1.00 to 1.31 | <= 1.1 | yes | |
    """
    lines = ["| row | median | least to largest | goal | reached | |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*(lines if header else []), *map(_line, rows)])


def _line(row: Row) -> str:
    goal = "" if row.goal is None else f"{'>=' if row.better == 'higher' else '<='} {row.goal:g}"
    reached = {None: "", True: "yes", False: "no"}[row.reached]
    cells = (row.name, _number(row.value), f"{_number(row.low)} to {_number(row.high)}", goal, reached, row.note)
    return "| " + " | ".join(cells).rstrip() + " |"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
