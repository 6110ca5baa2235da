"""The README's promises: its example runs as it stands, and its tables name what there is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from stagewise import probes, tasks

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs_as_it_stands_and_prints_three_stages(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)
    assert len(example.strip().splitlines()) <= 15
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line[:7] for line in done.stdout.splitlines()] == ["stage 1", "stage 2", "stage 3"]
    assert (tmp_path / "runs" / "example" / "kl.svg").stat().st_size > 0


@pytest.mark.parametrize("catalogue", [probes, tasks], ids=["probes", "tasks"])
def test_the_tables_name_every_probe_and_every_task(catalogue: object) -> None:
    named = set(re.findall(r"^\| `(\w+)`", README.read_text(encoding="utf8"), re.MULTILINE))
    assert {name for name, value in vars(catalogue).items() if isinstance(value, type)} <= named
