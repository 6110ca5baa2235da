"""The notebooks run from top to bottom, and show what they print and draw."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LARGEST = 100_000
"""Bytes of a notebook with its outputs."""

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@each
def test_a_notebook_was_run_in_order_without_a_warning_and_is_small(path: Path) -> None:
    assert path.stat().st_size < LARGEST
    cells = code_cells(path)
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_one_tells_the_whole_story_of_a_model_of_ones_own() -> None:
    sources = ["".join(cell["source"]) for cell in code_cells(ROOT / "docs/notebooks/own-hooked-transformer.ipynb")]
    code = "\n".join(sources)
    assert all(
        step in code
        for step in ("HookedTransformer(", "optimiser.step()", "record(", "open_series(", "analyse(", "plot.")
    )


@pytest.mark.docs
@each
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = pytest.importorskip("nbclient", reason="nbclient is not installed: `make docs` in a new .venv has it")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=None, startup_timeout=600, kernel_name="python3", resources=where).execute()
    before, after = (
        [
            sorted(output.get("data", {"text": 0}))
            for cell in cells
            for output in cell["outputs"]
            if output.get("name") != "stderr"
        ]
        for cells in (code_cells(path), [cell for cell in notebook.cells if cell.cell_type == "code"])
    )
    assert after == before
