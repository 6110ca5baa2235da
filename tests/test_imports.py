"""Imports run downwards only: read from the source, without importing anything."""

import ast
import functools
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.fixtures.imported import Imported

ROOT = Path(__file__).parents[1]
LAYERS: tuple[set[str], ...] = (
    {"bars", "criteria", "entry_points", "own_code", "plain_text", "statistics"},
    {"table", "text"},
    {
        "prediction_classes",
        "value_schedules",
        "architecture",
        "architectures",
        "config",
        "attention",
        "event",
        "fields",
        "init",
        "intervention",
        "learning_rates",
        "loss",
        "plan",
        "presets",
        "probe",
        "batch",
        "recipe",
        "schedules",
        "task",
        "token_axis",
    },
    {"models"},
    {"checkpoints"},
    {"probes", "processes"},
    {"tasks", "training", "sweeping", "findings"},
    {"saved_findings", "words"},
    {"measurement", "plot"},
    {"reporting"},
    {"replay", "analysis", "recording"},
    {"papers"},
    {"cli"},
)
"""The rooms and the modules at the door, low to high: each imports what is below it, and its own room."""

SHARED = ("", "stagewise.papers.tasks", "stagewise.papers.theory")
"""Folders of `papers/` that each paper imports, and the modules beside them."""

NO_MODEL = {"table", "statistics", "findings", "words", "plot"}
"""What reads and writes tables knows neither torch nor any model."""

SOURCES = sorted(
    path
    for folder in ("stagewise", "papers", "probes", "tasks")
    for path in (ROOT / folder).rglob("*.py")
    # The symbolic links show these three folders a second time.
    if path.relative_to(ROOT).parts[:2]
    not in (("stagewise", "papers"), ("stagewise", "probes"), ("stagewise", "tasks"))
)
PROGRAMS = ("evidence",)
"""What lies beside the tests and is run by hand."""

SCRIPTS = sorted(path for folder in ("tests", "examples", *PROGRAMS) for path in (ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    """The module's name, as in "stagewise.probes.loss"."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "stagewise" else ("stagewise", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in SOURCES}


def names_at_the_doors() -> dict[str, str]:
    """What each room's door hands on -> the module that it lies in, as the stubs say."""
    return {
        f"stagewise.{stub.parent.name}.{alias.name}": f"stagewise.{stub.parent.name}.{node.module or alias.name}"
        for stub in (ROOT / "stagewise").glob("*/__init__.pyi")
        for node in ast.parse(stub.read_text(encoding="utf8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


DOORS = names_at_the_doors()
NOUNS = next(rooms for rooms in LAYERS if "task" in rooms)
ROOM_FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms}


Statement = ast.Import | ast.ImportFrom


def imports(statements: Iterable[Statement]) -> set[str]:
    """Every module imported: of `from stagewise import task` "stagewise.task", of a name at a door its module."""
    names = set()
    for node in statements:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"relative import, line {node.lineno}"
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            inner = {DOORS.get(name, name) for name in full} & MODULES.keys()
            names |= inner or {node.module or ""}
    return names


@functools.cache
def statements_in(path: Path) -> list[Statement]:
    """The import statements of a file, inside functions too."""
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))) if isinstance(node, Statement)]


def imports_in(path: Path) -> set[str]:
    return imports(statements_in(path))


@functools.cache
def imports_of_all() -> dict[str, set[str]]:
    return {module: imports_in(path) for module, path in MODULES.items()}


def room(module: str) -> str:
    """The room of a module; `python -m stagewise` is the command line at the door."""
    part = module.split(".")[1] if "." in module else ""
    return "cli" if part == "__main__" else part


def test_every_module_has_its_room_in_the_order() -> None:
    assert {room(module) for module in MODULES} == {"", *ROOM_FLOOR}


def test_contributing_names_every_room_on_its_floor() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", page, re.MULTILINE)
    written = [(room, int(floor)) for floor, rooms in rows for room in re.findall(r"`(\w+)(?:\.py|/)`", rooms)]
    assert sorted(written) == sorted((room, floor + 1) for room, floor in ROOM_FLOOR.items())


def test_imports_run_downwards() -> None:
    upwards = {
        f"{module} -> {below}"
        for module, belows in imports_of_all().items()
        for below in belows
        if room(module) and room(below) in ROOM_FLOOR and below.startswith("stagewise.")
        if ROOM_FLOOR[room(below)] >= ROOM_FLOOR[room(module)] and room(below) != room(module)
        if not {room(module), room(below)} <= NOUNS  # the nouns lie side by side
    }
    assert upwards == set()


def names_taken(path: Path) -> set[str]:
    """Every name that a file imports from a module, as "stagewise.findings.find_stages"."""
    nodes = [node for node in statements_in(path) if isinstance(node, ast.ImportFrom)]
    return {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}


def private_of_others(path: Path) -> set[str]:
    """What a module imports of another room past its door: a private module, or a private name."""
    parts = {name: name.split(".")[1:] for name in names_taken(path) if name.startswith("stagewise.")}
    others = {name: inside for name, inside in parts.items() if inside[0] != room(module_of(path))}
    return {name for name, inside in others.items() if any(part.startswith("_") for part in inside)}


def test_a_room_is_entered_by_its_door() -> None:
    """`room._module` is private to the room: other rooms take what its `__init__` lists, and public modules."""
    assert {module: past for module, path in MODULES.items() if (past := private_of_others(path))} == {}


def test_the_doors_list_names_that_are_there_and_taken() -> None:
    """By an import, or as in `models.build`; the names of figures and of statistics are a user's."""
    texts = "\n".join(path.read_text(encoding="utf8") for path in (*SOURCES, *SCRIPTS))
    taken = {name for path in (*SOURCES, *SCRIPTS) for name in names_taken(path)}
    taken |= {f"stagewise.{name}" for name in re.findall(r"\b\w+\.\w+", texts)}
    assert len(DOORS) > 100
    assert {name for name, module in DOORS.items() if module not in MODULES} == set()
    assert {name for name in DOORS if name not in taken and name.split(".")[1] not in ("plot", "statistics")} == set()


def test_imports_make_no_circle() -> None:
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " -> ".join((*way, module))
        if module not in done:
            for below in imports_of_all().get(module, set()) - {"stagewise"}:
                visit(below, (*way, module))
            done.add(module)

    for module in imports_of_all():
        visit(module, ())
    assert len(done) >= len(MODULES)


def paper_of(module: str) -> str:
    """The folder of a module in `papers/`; nothing of what the papers share, or is none of theirs."""
    folder = ".".join(module.split(".")[:3])
    return folder if folder.startswith("stagewise.papers.") and MODULES[folder].stem == "__init__" else ""


def test_the_core_imports_no_paper() -> None:
    of_core = {(module, below) for module, belows in imports_of_all().items() for below in belows}
    assert {pair for pair in of_core if room(pair[1]) == "papers" and room(pair[0]) != "papers"} == set()


def test_no_paper_imports_another() -> None:
    assert len({paper_of(module) for module in MODULES} - {""}) > 3
    assert {
        f"{module} -> {below}"
        for module, belows in imports_of_all().items()
        for below in belows & MODULES.keys()
        if paper_of(module) and paper_of(below) not in (*SHARED, paper_of(module))
    } == set()


def test_what_reads_tables_knows_no_model() -> None:
    known = {
        f"{module} -> {below}"
        for module, belows in imports_of_all().items()
        if room(module) in NO_MODEL
        for below in belows
        if below.split(".")[0] in ("torch", "transformer_lens", "transformers")
    }
    assert known == set()


def test_what_finds_asks_for_roles_and_names_no_probe_of_the_catalogue() -> None:
    files = (ROOT / "probes").glob("*.py")
    trees = [ast.parse(path.read_text(encoding="utf8")) for path in files]
    probes = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    assert {"Loss", "AttentionTo", "KLToReference"} <= probes
    texts = {
        module: path.read_text(encoding="utf8")
        for module, path in MODULES.items()
        if room(module) in ("findings", "statistics")
    }
    assert len(texts) > 35
    assert {module: named for module, text in texts.items() if (named := probes & set(re.findall(r"\w+", text)))} == {}


def test_findings_are_data_and_import_no_sentence() -> None:
    of_findings = {module: belows for module, belows in imports_of_all().items() if room(module) == "findings"}
    assert len(of_findings) > 15
    assert {
        module for module, belows in of_findings.items() if any(room(below) == "words" for below in belows)
    } == set()
    through_the_door = {module for module, belows in of_findings.items() if "stagewise" in belows}
    # To print, and for what the catalogue declares of its numbers.
    assert through_the_door == {"stagewise.findings._frames", "stagewise.findings.scores"}


def test_statistics_imports_numpy_and_scipy_and_nothing_of_the_rest() -> None:
    others = {
        f"{module} -> {below}"
        for module, belows in imports_of_all().items()
        if room(module) == "statistics"
        for below in belows
        if not below.startswith("stagewise.statistics")
        if below.split(".")[0]
        not in {"numpy", "scipy", "threadpoolctl", "jaxtyping", "cachetools", "lazy_loader", *sys.stdlib_module_names}
    }
    assert others == set()


@functools.cache
def chain(module: str) -> tuple[str, ...]:
    """The longest chain of files, each imported by the one before, as a module is imported."""
    body = ast.parse(MODULES[module].read_text(encoding="utf8")).body
    below = imports(node for node in body if isinstance(node, Statement)) & MODULES.keys()
    return (module, *max(map(chain, sorted(below)), key=len, default=()))


def test_no_chain_of_imports_in_the_core_has_more_than_eighteen_files() -> None:
    longest = max((chain(module) for module in MODULES if room(module) != "papers"), key=len)
    assert 10 < len(longest) <= 18, " -> ".join(longest)


def test_importing_the_package_imports_no_torch(imported: Imported) -> None:
    assert not {"torch", "pandas"} & imported["the package"]


def test_importing_processes_does_not_import_torch(imported: Imported) -> None:
    assert "stagewise.processes" in imported["processes"]
    assert "torch" not in imported["processes"]


def test_importing_statistics_imports_neither_torch_nor_pandas(imported: Imported) -> None:
    assert {"scipy", "numpy"} <= imported["statistics"]
    assert not {"torch", "pandas"} & imported["statistics"]


def test_transformer_lens_is_named_in_one_room_and_imported_inside_functions() -> None:
    named = {path for module, path in MODULES.items() if "transformer_lens" in path.read_text(encoding="utf8")}
    assert {room(module_of(path)) for path in named} == {"models"}
    at_the_top = [
        path
        for path in named
        for node in ast.parse(path.read_text(encoding="utf8")).body
        if isinstance(node, Statement)
        if any(name.split(".")[0] == "transformer_lens" for name in imports([node]))
    ]
    assert at_the_top == []


def roots(path: Path) -> set[str]:
    return {module.split(".")[0] for module in imports_in(path)}


def test_the_library_imports_neither_programs_nor_tests_and_programs_import_no_tests() -> None:
    outside = {"tests", *PROGRAMS}
    assert [path for path in SOURCES if roots(path) & outside] == []
    programs = [path for path in SCRIPTS if path.relative_to(ROOT).parts[0] in PROGRAMS]
    assert len(programs) > 30
    mixed = [path for path in programs if roots(path) & (outside - {path.relative_to(ROOT).parts[0]})]
    assert mixed == []


def test_nobody_imports_the_bare_names() -> None:
    links = {"papers", "probes", "tasks"}
    bare = [path.relative_to(ROOT).as_posix() for path in (*SOURCES, *SCRIPTS) if roots(path) & links]
    assert bare == []


def test_importing_tasks_probes_and_tables_does_not_import_transformer_lens(imported: Imported) -> None:
    assert "torch" in imported["tasks, probes and tables"]
    assert "transformer_lens" not in imported["tasks, probes and tables"]


def test_the_house_has_at_most_ten_floors() -> None:
    below = {
        name: {
            room(other)
            for module, belows in imports_of_all().items()
            if room(module) == name
            for other in belows & MODULES.keys()
        }
        & ROOM_FLOOR.keys() - {name}
        for name in ROOM_FLOOR
    }

    def floor(name: str) -> int:
        return 1 + max((floor(other) for other in below[name]), default=0)

    assert max(map(floor, below)) <= 10
