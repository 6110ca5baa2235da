"""Every example runs, at small sizes, and makes the file that it says."""

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stagewise import models
from stagewise.architectures import minimal
from stagewise.checkpoints.run_folder import TABLE
from stagewise.checkpoints.series import open_series
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionTo, HeadAblation, HeadAttribution
from stagewise.tasks import RepeatedTokens
from tests.fixtures.late import LATE

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ELSEWHERE = {"own_task_and_probe"}
"""`tests/cli/test_run_every_task.py` runs it as a user would, from the command line."""


def example(name: str) -> Callable[..., Path]:
    """Return an example's `main`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[..., Path] = module.main
    return main


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_test(path: Path) -> None:
    assert f'"{path.stem}"' in Path(__file__).read_text(encoding="utf8") or path.stem in ELSEWHERE


@pytest.mark.slow
@pytest.mark.usefixtures("no_workers")
def test_the_markov_examples_draw_their_figures_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("overview", "restricted_context"):
        figure = example(name)(tmp_path / "run", steps=6, batch_size=8, save=(0, 2, 4, 6))
        assert figure.read_bytes().startswith(b"\x89PNG")
        monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")  # once is enough


def test_induction_heads_are_recorded_and_drawn(tmp_path: Path) -> None:
    figure = example("induction_heads")(tmp_path / "run", steps=30)
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert open_series(tmp_path / "run").steps == (0, 10, 20, 30)


@pytest.mark.slow  # four to seven small runs
@pytest.mark.parametrize("given", [False, True])
def test_the_heads_that_stages_need_are_drawn(given: bool, tmp_path: Path) -> None:
    made = example("needed_heads").__globals__
    rows = made["delays_of"](LATE, tmp_path, 0, 16, given)
    assert set(rows["event"]) == {1}
    assert {"transition 1", "attention to lag"} >= {axes.get_title() for axes in made["drawn"](rows).axes} != set()


@pytest.mark.slow
def test_forecasts_of_plateaus_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = example("early_warning")(tmp_path, steps=300, cuts=(200, 225))
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("by step") == 3


@pytest.mark.slow
def test_a_recall_model_gets_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = example("associative_recall")(tmp_path, steps=4, n_pairs=3, n_tokens=12)
    assert report.read_text(encoding="utf8").startswith("<!doctype html>")
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed[-2:]] == ["value to key", "query to value"]


@pytest.mark.slow
def test_the_theory_is_drawn_over_the_measurement(tmp_path: Path) -> None:
    figure = example("theory_overlay")(tmp_path, steps=20, batch_size=8, save_every=5)
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_model_under_transformers_trainer_gets_its_report(tmp_path: Path) -> None:
    report = example("huggingface_trainer")(tmp_path, steps=4)
    assert report.read_text(encoding="utf8").startswith("<!doctype html>")


@pytest.mark.slow
def test_the_checkpoints_of_a_hub_repository_get_their_report(
    tmp_path: Path, local_hub: Callable[..., Any], saved: Callable[..., dict[str, bytes]]
) -> None:
    hub = local_hub({name: saved("GPTNeoX", seed) for seed, name in enumerate(("main", "step0", "step512"))})
    report = example("hub_checkpoints")("owner/model", tmp_path, steps=(0, 512), endpoint=hub.endpoint)
    series = json.loads((tmp_path / "analysis.json").read_text(encoding="utf8"))["series"]
    assert series["commits"] == [hub.commit(name) for name in series["revisions"]]
    assert report.read_text(encoding="utf8").startswith("<!doctype html>")


def test_the_real_models_heads_are_drawn_by_role_and_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    architecture = minimal(16, 24, n_heads=2)
    series = open_series([(0, models.build(architecture))])
    batch = RepeatedTokens.for_model(architecture).probe_batch(4, seed=0)
    probes = [AttentionTo(("previous token", "induction")), HeadAblation(kinds=("mean",)), HeadAttribution(top=2)]
    measure(series, probes, batch, save=tmp_path / TABLE, progress=False)
    path = example("real_model")("measured before", tmp_path)
    assert path == tmp_path / "heads.png"
    assert path.stat().st_size > 1000
    said = capsys.readouterr().out
    assert re.search(r"ablation costs most \(nats\): L0H\d -?\d\.\d\d, L0H\d", said)
    assert "the gradient's estimate: L0H" in said
