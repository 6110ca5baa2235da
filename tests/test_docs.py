"""The documents: code is compiled and its names are there, commands parse, pages are in the site's menu."""

import ast
import contextlib
import inspect
import json
import pkgutil
import re
import shlex
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

import stagewise
from stagewise import plot, probes, tasks
from stagewise.cli.app import app
from stagewise.papers.emergence import figures as emergence
from stagewise.papers.incremental import recipes
from stagewise.papers.incremental.command import FLOWS, OTHERS
from stagewise.papers.scan_and_snap import figures as snap
from stagewise.probes import default_probes

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
SNIPPET = re.compile(r'--8<-- "([^":]+)(?::(\w+))?"')


def blocks(page: Path, language: str) -> list[str]:
    return [code for name, code in FENCE.findall(page.read_text(encoding="utf8")) if re.fullmatch(language, name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_python_compile_and_name_what_there_is(page: Path) -> None:
    for code in [*blocks(page, "py"), *blocks(page, "python")]:
        if SNIPPET.search(code):
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "stagewise":
                assert node.attr in stagewise.__all__
            if isinstance(node, ast.ImportFrom) and node.module == "stagewise":
                assert {alias.name for alias in node.names} <= set(stagewise.__all__)


OPEN = {"plot", "probes", "tasks", "task", "probe", "loss", "attention", "intervention", "statistics"}
OPEN |= {"architectures", "schedules", "table", "init", "saved_findings", "sweeping", "reporting"}
"""What is open beside the door: catalogues, figures, and the nouns that an author of a task or a probe imports."""


def test_pages_notebooks_and_examples_import_from_open_places_alone() -> None:
    """The papers are open too."""
    codes = {f"{page.name} {n}": code for page in PAGES for n, code in enumerate(blocks(page, "py(?:thon)?"))}
    codes |= {path.name: path.read_text(encoding="utf8") for path in (ROOT / "examples").glob("*.py")}
    for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        cells = [cell for cell in json.loads(path.read_text(encoding="utf8"))["cells"] if cell["cell_type"] == "code"]
        lines = "\n".join("".join(cell["source"]) for cell in cells).splitlines()
        codes[path.name] = "\n".join(line for line in lines if not line.startswith("%"))
    inner = [
        f"{name}: {node.module}"
        for name, code in codes.items()
        if not SNIPPET.search(code)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (parts := (node.module or "").split("."))[0] == "stagewise"
        if len(parts) > 1 and not (parts[1] in OPEN and len(parts) == 2) and parts[1] != "papers"
    ]
    assert len(codes) > 20
    assert inner == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_includes_is_there(page: Path) -> None:
    for name, section in SNIPPET.findall(page.read_text(encoding="utf8")):
        if name.startswith("["):
            continue
        text = (ROOT / name).read_text(encoding="utf8")
        assert not section or f"--8<-- [start:{section}]" in text


def test_every_example_that_a_page_includes_is_run_by_a_test() -> None:
    included = {name for page in PAGES for name, _ in SNIPPET.findall(page.read_text(encoding="utf8"))}
    sources = [path.read_text(encoding="utf8") for path in (ROOT / "tests").rglob("test_*.py")]
    for name in (name for name in included if name.startswith("examples/")):
        stem = Path(name).stem
        assert any(f'"{stem}"' in source or f'"{stem}.py"' in source for source in sources)


def arguments_of(function: Callable[..., Any]) -> set[str]:
    """The names of a function's arguments, those of `**choices` too; without a type these are of `open_series`."""
    parameters = inspect.signature(function).parameters
    named = set(parameters)
    for parameter in parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            choices = typing.get_args(parameter.annotation) or [stagewise.open_series]
            named |= {name for one in choices for name in typing.get_type_hints(one)}
    return named


CALLABLE = {
    name: value
    for module in (plot, tasks, probes, stagewise)
    for name in getattr(module, "__all__", vars(module))
    if callable(value := getattr(module, name))
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_calls_between_the_lines_have_arguments_that_there_are(page: Path) -> None:
    for code in re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text(encoding="utf8"))):
        with contextlib.suppress(SyntaxError):
            for node in ast.walk(ast.parse(code, mode="eval")):
                name = getattr(getattr(node, "func", None), "id", getattr(getattr(node, "func", None), "attr", ""))
                if isinstance(node, ast.Call) and name in CALLABLE:
                    assert {word.arg for word in node.keywords if word.arg} <= arguments_of(CALLABLE[name]), code


def commands(page: Path) -> list[str]:
    """The commands in the blocks of a page."""
    lines = [line for code in blocks(page, "bash") for line in code.splitlines()]
    return [line.partition("#")[0].strip() for line in lines if line.startswith("stagewise ")]


def mentions(page: Path) -> list[str]:
    """The commands between the lines of a page, but for those that stand for any task or name an option alone."""
    between = FENCE.sub("", page.read_text(encoding="utf8"))
    group = "series|cause|papers"
    return [
        " ".join(line.split())
        for line in re.findall(rf"`(stagewise (?:(?:{group}) )?(?!{group})[a-z-]+ (?!TASK`|--\w+`)[^`]+)`", between)
    ]


COMMAND = typer.main.get_command(app)
"""Made once: that takes as long as to parse a page of commands."""


def parse(line: str) -> None:
    command: Any = COMMAND
    context, arguments = command.context_class(command, info_name="stagewise"), shlex.split(line)[1:]
    while hasattr(command, "resolve_command"):
        name, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command = found
        if hasattr(command, "resolve_command"):  # a group reads its name from its context
            context = command.context_class(command, info_name=name, parent=context)
    command.make_context(command.name, arguments, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_of_a_page_is_one(page: Path) -> None:
    for line in [*commands(page), *mentions(page)]:
        parse(line)


def test_every_page_is_in_the_menu() -> None:
    menu = set(re.findall(r"- ([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf8")))
    beside = {"index.md", "papers.md", "contributing.md", "changelog.md"}
    notebooks = {f"notebooks/{path.stem}.md" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert menu == pages | beside | notebooks


def entries(title: str) -> list[str]:
    """The entries below a title of docs/api.md, without that of a module."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf8")
    section = page[page.index(f"## {title}") :]
    return re.findall(r"^::: (\S+)$(?!\n +options)", section.partition("\n\n## ")[0], re.MULTILINE)


def test_the_page_of_python_lists_all_figures() -> None:
    listed = [entry.rpartition(".")[2] for entry in entries("Figures: `stagewise.plot`")]
    assert sorted(listed) == sorted(dir(plot))


def test_every_entry_of_the_page_of_python_is_there() -> None:
    for entry in re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf8"), re.MULTILINE):
        assert pkgutil.resolve_name(entry).__doc__


def test_the_page_of_probes_names_the_default_ones() -> None:
    page = (ROOT / "docs" / "probes.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| .*", page[page.index("## Default probes") :].partition("\n\n## ")[0], re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", "\n".join(rows)))
    catalogue = {name for name, value in vars(probes).items() if isinstance(value, type)}
    assert named == catalogue & set(re.findall(r"probes\.(\w+)\(", inspect.getsource(default_probes)))


def test_the_page_of_papers_has_every_figure_that_a_command_makes() -> None:
    page = (ROOT / "docs" / "paper-figures.md").read_text(encoding="utf8")
    incremental = [*recipes.FIGURES, *FLOWS, *OTHERS]
    made = {"incremental": incremental, "emergence": emergence.FIGURES, "scan-and-snap": snap.FIGURES}
    for paper, figures in made.items():
        chapter = page[page.index(f"stagewise run {paper} ") :]
        named = set(re.findall(r"--figure (\w+)", chapter[: chapter.index("\n## ")]))
        assert named == {str(figure) for figure in figures}
    pictures = {match for match in re.findall(r"\]\(([\w/-]+\.png)\)", page)}
    assert sum((ROOT / "docs" / name).stat().st_size for name in pictures) < 2_000_000
    shown = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "gallery").glob("*.png")}
    assert shown <= pictures
