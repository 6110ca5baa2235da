"""`stagewise watch`: what is written during a training is measured and told, until it ends."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import read_table
from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")

REFRESH = '<meta http-equiv="refresh" content="7">'


def watch(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["watch", *arguments, "--quiet"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def between_looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterator[None]], None]:
    """What happens while the command sleeps: the next part of a generator, each time."""

    def take(events: Iterator[None]) -> None:
        monkeypatch.setattr("stagewise.cli._watch.sleep", lambda _: next(events))

    return take


def test_a_run_is_followed_from_before_its_first_checkpoint_to_its_last_one(
    small_folder: Path, tmp_path: Path, between_looks: Callable[[Iterator[None]], None]
) -> None:
    folder, refreshes = tmp_path / "run", []

    def trained() -> Iterator[None]:
        shutil.copytree(small_folder, folder)
        last = folder / "checkpoints" / "step-00000006.safetensors"
        whole = last.read_bytes()
        last.unlink()
        yield
        refreshes.append(REFRESH in (folder / "report.html").read_text(encoding="utf8"))
        last.write_bytes(whole[: len(whole) // 2])
        yield
        last.write_bytes(whole)
        yield

    between_looks(trained())
    printed = watch(str(folder), "--only", "Loss", "--every", "7")
    first, *_, final = [line for line in printed.splitlines() if line.startswith("step ")]
    assert f"waiting: there is no {folder} yet" in printed
    assert "is damaged" in printed
    assert (first[:8], final[:8]) == ("step 4: ", "step 6: ")
    assert refreshes == [True]
    assert REFRESH not in (folder / "report.html").read_text(encoding="utf8")
    assert set(read_table(folder)["step"]) == {0, 2, 4, 6}


def test_a_log_is_read_again_until_a_step(
    tmp_path: Path, between_looks: Callable[[Iterator[None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = np.arange(0, 2000, 20)
    loss = 3 - 2 / (1 + np.exp(-(steps - 800) / 30)) + 0.01 * np.random.default_rng(0).standard_normal(len(steps))
    log = pd.DataFrame({"step": steps, "loss": loss})

    def logged() -> Iterator[None]:
        for rows in (60, 100):
            log.iloc[:rows].to_csv("log.csv", index=False)
            yield

    log.iloc[:30].to_csv("log.csv", index=False)
    between_looks(logged())
    printed = watch("log.csv", "--until", "1980")
    before, after = (next(line for line in printed.splitlines() if line.startswith(f"step {at}")) for at in (580, 1180))
    assert "No transition was found" in before
    assert "One transition was found. Half-way at step 8" in after


def test_once_refuses_what_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "empty"), "--once"])
    assert result.exit_code == 2
    assert "there is no run.json in it" in " ".join(result.output.split())


def test_an_unknown_probe_is_refused_before_any_look(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["watch", str(tmp_path / "later"), "--only", "Lss"])
    assert result.exit_code == 2
    assert "Loss" in result.output
