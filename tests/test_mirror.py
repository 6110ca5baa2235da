"""The tests mirror the house: every module has its test file in its place."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DOORS = {"__init__", "__main__"}
"""Files that only open a folder."""


def modules() -> dict[str, Path]:
    """Every module by its place in the house; papers, probes and tasks lie beside it, shown to it by links."""
    found = {}
    for folder, inside in (("stagewise", ""), ("papers", "papers/"), ("probes", "probes/"), ("tasks", "tasks/")):
        for path in (ROOT / folder).rglob("*.py"):
            place = inside + path.relative_to(ROOT / folder).as_posix()
            linked = not inside and place.startswith(("papers/", "probes/", "tasks/"))
            if path.stem not in DOORS and not linked:
                found[place] = ROOT / "tests" / Path(place).parent / f"test_{path.name.lstrip('_')}"
    return found


def test_every_module_has_its_tests_in_its_place() -> None:
    places = modules()
    assert {"table.py", "probes/loss.py", "tasks/markov_chain.py", "models/lean.py"} <= places.keys()
    without = [
        f"{module} has no tests in {test.relative_to(ROOT)}"
        for module, test in places.items()
        if not test.is_file() or "def test_" not in test.read_text(encoding="utf8")
    ]
    assert without == []
