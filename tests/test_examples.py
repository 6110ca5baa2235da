import subprocess
import sys
from pathlib import Path

import pytest

from stagewise.experiments.incremental.recipes import FIGURES

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


TRAINED = {f"incremental_figure_{figure}" for figure in FIGURES if figure != "heads"} | {"incremental_head_count"}


def test_every_figure_of_incremental_learning_has_its_example() -> None:
    assert TRAINED | {"incremental_figure_10"} <= {path.stem for path in EXAMPLES}
    for path in EXAMPLES:
        if path.stem.startswith("incremental_figure_"):
            assert f'script("{path.stem.removeprefix("incremental_figure_")}")' in path.read_text(encoding="utf8")


OWN = "own_task_and_probe"
"""A whole task and a whole probe, which the command line runs: tests/cli/test_run_every_task.py does."""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_at_most_forty_lines(example: Path) -> None:
    assert len(example.read_text(encoding="utf8").splitlines()) <= (90 if example.stem == OWN else 40)


@pytest.mark.slow
def test_every_example_makes_its_figure(tmp_path: Path) -> None:
    for example in EXAMPLES:
        if example.stem in ("scan_and_snap_text", "wikitext_stages", "wikitext_repetition", OWN, *TRAINED):
            continue  # they need a corpus, or hours in all; the functions are tested on small texts and runs
        command = [sys.executable, str(example), str(tmp_path / "run")]
        printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert Path(printed.split()[-1]).stat().st_size > 0
