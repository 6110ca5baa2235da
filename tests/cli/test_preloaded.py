"""What the server of a command's workers imports."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_it_imports_what_a_run_takes_and_reads_no_settings_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\n")
    code = (
        "import sys, stagewise.cli._preloaded, matplotlib; "
        "print('stagewise.analysis' in sys.modules, matplotlib.rcParams['text.usetex'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout == "True False\n"
