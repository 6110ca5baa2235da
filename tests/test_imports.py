"""Imports run downwards only: read from the source, without importing anything."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for folder in ("stagewise", "probes", "tasks")
    for path in (ROOT / folder).rglob("*.py")
    if ".venv" not in path.parts
)
# The symbolic links show `probes/` and `tasks/` a second time.
SOURCES = [
    path
    for path in SOURCES
    if not path.relative_to(ROOT).as_posix().startswith(("stagewise/probes", "stagewise/tasks"))
]
EVERYTHING = [
    *SOURCES,
    *sorted(path for folder in ("tests", "examples") for path in (ROOT / folder).rglob("*.py")),
]

CORE = {
    *("architecture", "attention", "circuits", "init", "intervention", "loss", "n_grams", "probe", "relations"),
    *("corpora", "schedule", "task", "tokenizer"),
}
"""What a task or a probe may know: types and pure functions."""

ENGINES = {
    *("audit",),
    *("bridge", "edits", "folder", "forward", "hooked", "hub", "huggingface", "joining", "measurement", "model"),
    *("native", "readings", "revisions", "seeds", "series", "sources", "training", "vectors", "weights"),
    *("yz_hooked", "yz_model", "yz_training"),
}
NO_MODEL = (
    *("gaps", "outliers", "table", "turning", "events", "stages", "emergence", "power_law", "source_sections"),
    *("acceleration", "emergence_order", "figure", "laws_plot", "maps", "onset_stages", "onsets", "onsets_plot"),
    *("palette", "plot", "profiles", "rise", "rise_times", "step_axis"),
)
"""Modules that read tables: they know no torch model."""


def name(path: Path) -> str:
    """The module's name, as in "stagewise.probes.loss"."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "stagewise" else ("stagewise", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, package: str = "") -> list[tuple[str, int]]:
    """Every module imported, with its line. `from stagewise import model` counts as "stagewise.model"."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {package}, line {node.lineno}"
            module = node.module or ""
            inner = module in ("stagewise", "stagewise.experiments")
            found += [(f"{module}.{alias.name}" if inner else module, node.lineno) for alias in node.names]
    return found


def modules_of(path: Path) -> set[str]:
    return {module for module, _ in imports(ast.parse(path.read_text(encoding="utf8")), name(path))}


def siblings(path: Path) -> set[str]:
    """The first part after "stagewise." of all that a file imports from the library."""
    return {module.split(".")[1] for module in modules_of(path) if module.startswith("stagewise.")}


@pytest.mark.parametrize("path", sorted((ROOT / "probes").glob("*.py")), ids=lambda path: path.stem)
def test_probes_import_the_core_alone(path: Path) -> None:
    allowed = {"probes"} if path.stem == "__init__" else CORE
    assert siblings(path) <= allowed


@pytest.mark.parametrize("path", sorted((ROOT / "tasks").glob("*.py")), ids=lambda path: path.stem)
def test_tasks_import_the_core_alone(path: Path) -> None:
    allowed = {"tasks"} if path.stem == "__init__" else CORE
    assert siblings(path) <= allowed


@pytest.mark.parametrize("module", sorted(CORE | ENGINES | {"recipe", "table"}))
def test_the_core_and_the_engines_never_import_probes_or_tasks(module: str) -> None:
    assert not siblings(ROOT / "stagewise" / f"{module}.py") & {"probes", "tasks", "experiments"}


@pytest.mark.parametrize("module", sorted(CORE))
def test_the_core_imports_the_core_alone(module: str) -> None:
    assert siblings(ROOT / "stagewise" / f"{module}.py") <= CORE


@pytest.mark.parametrize("module", sorted(CORE | ENGINES | {"recipe", "table"}))
def test_nothing_below_imports_what_shows_or_runs_it(module: str) -> None:
    above = {
        *(
            "analysis",
            "attention_view",
            "callbacks",
            "cli",
            "cli_options",
            "cli_run",
            "experiments",
            "plot",
            "reporting",
        ),
        *("sections", "source_sections", "stages", "sweeping", "viewer"),
    }
    assert not siblings(ROOT / "stagewise" / f"{module}.py") & above


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if path.stem in NO_MODEL and path.parent.name == "stagewise"],
    ids=lambda path: path.stem,
)
def test_what_reads_tables_knows_no_model(path: Path) -> None:
    assert not siblings(path) & {"model", "training", "measurement", "series", "forward", "probe", "task"}


@pytest.mark.parametrize("path", sorted((ROOT / "stagewise" / "theory").glob("*.py")), ids=lambda path: path.stem)
def test_a_theory_knows_tables_and_numbers_alone(path: Path) -> None:
    assert siblings(path) <= {"theory", "table"}
    assert not {module.split(".")[0] for module in modules_of(path)} & {"torch", "transformer_lens"}


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_transformer_lens_is_imported_in_one_module_and_inside_functions(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf8"))
    everywhere = [line for module, line in imports(tree) if module.split(".")[0] == "transformer_lens"]
    inside = [
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for module, line in imports(node)
        if module.split(".")[0] == "transformer_lens"
    ]
    assert everywhere == inside
    assert bool(everywhere) == (name(path) == "stagewise.model")


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nobody_imports_the_bare_names(path: Path) -> None:
    assert not {module.split(".")[0] for module in modules_of(path)} & {"probes", "tasks"}


def test_imports_make_no_circle() -> None:
    graph = {name(path): {m for m in modules_of(path) if m.startswith("stagewise")} for path in SOURCES}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way, module))
        if module not in done:
            for below in graph.get(module, set()):
                visit(below, (*way, module))
            done.add(module)

    for module in graph:
        visit(module, ())
    assert len(done) >= len(SOURCES)


def test_importing_tasks_probes_and_tables_does_not_import_transformer_lens() -> None:
    code = (
        "import sys, stagewise.table, stagewise.tasks, stagewise.probes, stagewise.recipe, stagewise.training, "
        "stagewise.measurement; assert 'transformer_lens' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
