"""Everything in one call, on checkpoints that transformers' Trainer wrote."""

import concurrent.futures
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import stagewise
from stagewise import models
from stagewise.analysis import measured, opened
from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.checkpoints.run_folder import ANALYSIS, TABLE
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.checkpoints.trainer_callbacks import save_on
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, Loss
from stagewise.recipe import Recipe
from stagewise.reporting.page import report
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens
from tests.fixtures.runs import AtOnce

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")

SAVED = [0, 2, 5, 8, 12, 16, 20, 30]
TASK = RepeatedTokens(16, length=8, bos=0)


class Rows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Repeated random tokens as a data set of dictionaries."""

    def __init__(self) -> None:
        batch = TASK.sample(256, seed=0)
        self.tokens = torch.cat([batch.tokens, batch.targets[:, -1:]], 1)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[row], "labels": self.tokens[row]}


def trained(kind: str, folder: Path, steps: int, save: list[int]) -> Path:
    """A small model from a config, trained by transformers' Trainer."""
    import transformers

    sizes = {"vocab_size": 16, "bos_token_id": 0, "eos_token_id": 0}
    shape = {
        "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 24},
        "GPTNeoX": {
            **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2},
            **{"intermediate_size": 64, "max_position_embeddings": 24},
        },
    }[kind]
    config = getattr(transformers, f"{kind}Config")(**sizes, **shape)
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=steps, per_device_train_batch_size=32, learning_rate=3e-3, save_strategy="no",
        report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no", seed=0,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config)
    transformers.Trainer(model, arguments, train_dataset=Rows(), callbacks=[save_on(save)]).train()
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("GPT2", tmp_path_factory.mktemp("trained") / "GPT2", 30, SAVED)


@pytest.fixture(scope="module")
def neox_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained("GPTNeoX", tmp_path_factory.mktemp("trained") / "GPTNeoX", 30, SAVED)


@pytest.mark.parametrize("kind", ["folder", pytest.param("neox_folder", marks=pytest.mark.slow)])
def test_three_lines_audit_measure_and_report_a_trainers_checkpoints(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    series = stagewise.open_series(request.getfixturevalue(kind))
    analysis = stagewise.analyse(series, tmp_path / "out", progress=False)
    assert list(series.steps) == SAVED
    assert analysis.audit is not None
    assert analysis.audit.clean, str(analysis.audit)
    assert analysis.table["step"].drop_duplicates().tolist() == SAVED
    assert analysis.stages is not None
    assert len(analysis.stages) >= 1
    page = analysis.report.read_text(encoding="utf8")
    sections = ("The stages", "Copying", "What each head attends to", "What began when")
    for title in (*sections, "Loss by position", "OV copying"):
        assert f">{title}</h2>" in page
    assert "What is wrong with the checkpoints" not in page
    assert (analysis.report.parent / TABLE).exists()
    assert "report.html" in str(analysis)
    assert analysis._repr_html_().startswith("<iframe")


@pytest.mark.parametrize("kind", ["folder", "neox_folder"])
def test_the_loss_is_the_trained_models_own(kind: str, request: pytest.FixtureRequest) -> None:
    import transformers

    folder = request.getfixturevalue(kind)
    series = open_series(folder, steps=[0, 30])
    batch = TASK.probe_batch(8, seed=0)
    table = measure(series, [Loss()], batch, progress=False)
    for step in (0, 30):
        plain = transformers.AutoModelForCausalLM.from_pretrained(folder / f"checkpoint-{step}")
        with torch.no_grad():
            law = plain(batch.tokens).logits.log_softmax(-1)
        losses = -law.gather(-1, batch.targets[..., None])[..., 0][batch.scored]
        row = table[(table["step"] == step) & (table["quantity"] == "cross_entropy")]
        assert row["value"].item() == pytest.approx(losses.mean().item(), abs=1e-5)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("key", "value", "told"), [("eval_loss", 0.1, True), ("loss", 0.1, True), ("loss", 2.5, False)]
)
def test_a_loss_far_above_the_recorded_one_is_told(
    key: str, value: float, told: bool, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(folder, tmp_path / "run")
    history = [
        {"step": 12, key: 9.0},
        {"step": 16, key: value},
        {"step": 30, "grad_norm": 0.1},
        {"step": 30, key: value},
    ]
    (run / "checkpoint-30" / "trainer_state.json").write_text(json.dumps({"global_step": 30, "log_history": history}))
    batch = TASK.probe_batch(8, seed=1)
    measured(open_series(run), tmp_path / "out", batch=batch, probes=[Loss()], progress=False)
    said = [line for line in capsys.readouterr().err.splitlines() if "records" in line]
    assert len(said) == told
    assert all(f"trainer_state.json beside it records {key} 0.10: another text" in line for line in said)


def test_a_second_call_takes_up_what_was_measured(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
    series = open_series(folder, steps=SAVED[:3])
    first = stagewise.analyse(series, tmp_path, probes=[Loss(), AttentionTo()], progress=False)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").rglob("step-*.parquet")}
    again = stagewise.analyse(series, tmp_path, probes=[Loss(), AttentionTo()], progress=False)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").rglob("step-*.parquet")} == files
    pd.testing.assert_frame_equal(first.table.drop(columns="resamples"), again.table.drop(columns="resamples"))
    assert again.stages is None


def test_several_workers_are_one_pool_for_everything_and_give_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[int, bool]] = []

    def start(workers: int, models: bool = True) -> concurrent.futures.Executor:
        begun.append((workers, models))
        return AtOnce()

    for module in ("processes", "measurement._measuring"):
        monkeypatch.setattr(f"stagewise.{module}.worker_pool", start)
    series = open_series(folder, steps=SAVED[::4])
    several, alone = (
        stagewise.analyse(series, tmp_path / str(workers), probes=[Loss()], progress=False, workers=workers)
        for workers in (2, 1)
    )
    assert begun == [(2, True)]
    assert several.report.read_text(encoding="utf8") == alone.report.read_text(encoding="utf8")
    pd.testing.assert_frame_equal(several.table.drop(columns="resamples"), alone.table.drop(columns="resamples"))


def test_what_the_audit_found_stands_in_the_report(folder: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    shutil.copy(copy / "checkpoint-8" / "model.safetensors", copy / "checkpoint-12" / "model.safetensors")
    analysis = stagewise.analyse(open_series(copy), tmp_path / "out", probes=[Loss()], progress=False)
    page = analysis.report.read_text(encoding="utf8")
    assert "The audit of the checkpoints found 1 fault." in page
    assert "checkpoint-8, checkpoint-12 have the same bytes" in page
    assert report(tmp_path / "out").read_text(encoding="utf8") == page
    assert json.loads((tmp_path / "out" / ANALYSIS).read_text())["audit"]["findings"][0]["steps"] == [8, 12]


def test_a_checkpoint_that_does_not_fit_stops_it_and_names_the_step(folder: Path, tmp_path: Path) -> None:
    series = open_series(folder)

    def load(step: int) -> dict[str, torch.Tensor]:
        state = dict(series.load(step))
        return {name: weight[:4] if step == 5 and "0" in name else weight for name, weight in state.items()}

    broken = CheckpointSeries("broken", series.architecture, series.steps, load)
    with pytest.raises(ValueError, match=r"step 5 of 'broken': the weights do not fit the model"):
        stagewise.analyse(broken, tmp_path / "out", probes=[Loss()], progress=False)
    assert not (tmp_path / "out" / TABLE).exists()
    assert not (tmp_path / "out" / "report.html").exists()


def test_the_default_probes_run_on_a_native_run_too(
    small_run: CheckpointSeries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.analysis.report", lambda folder, **_: folder / "report.html")
    analysis = stagewise.analyse(small_run, tmp_path, progress=False)
    assert analysis.table["step"].drop_duplicates().tolist() == list(small_run.steps)


@pytest.mark.parametrize(
    ("d_vocab", "n_ctx", "bos", "length"),
    [(50_000, 1024, 0, 32), (16, 1024, None, 16), (16, 1024, 3, 15), (100, 9, None, 7), (100, 9, 0, 6), (100, 4, 0, 2)],
)
def test_the_batch_fits_the_model(d_vocab: int, n_ctx: int, bos: int | None, length: int) -> None:
    config = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": n_ctx, "d_vocab": d_vocab}
    made = Architecture(config, huggingface=None if bos is None else {"model_type": "gpt2", "bos_token_id": bos})
    task = RepeatedTokens.for_model(made)
    assert (task.length, task.bos) == (length, bos)
    assert task.n_ctx <= n_ctx


def test_a_model_too_short_for_the_default_batch_is_analysed_on_ones_own(tmp_path: Path) -> None:
    made = Architecture({"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 2, "d_vocab": 5, "attn_only": True})
    series = open_series([(step, models.build(made, step)) for step in range(3)])
    batch = Batch.from_tokens(torch.tensor([[1, 2, 3], [4, 0, 4]]))
    analysis = stagewise.analyse(series, tmp_path, batch=batch, probes=[Loss()], progress=False)
    assert set(analysis.table["n"]) == {2}


@pytest.mark.parametrize("wrong", [{"device": "nowhere"}, {"dtype": "float8"}, {"memory": 0}])
def test_a_run_that_is_refused_trains_no_baseline_and_claims_no_folder(
    wrong: dict[str, Any], small_recipe: Recipe, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"no device|dtype is one of|memory is a number"):
        stagewise.run(small_recipe, tmp_path / "run", restricted=True, **wrong)
    assert not (tmp_path / "run").exists()


def few(model: Any) -> list[tuple[int, Any]]:
    """A model and another one, as two checkpoints."""
    return [(0, model), (10, model)]


def test_whatever_opens_as_a_series_is_analysed(tmp_path: Path) -> None:
    model = models.build(full(5, 6, n_layers=1, n_heads=2, d_model=8, d_mlp=8))
    for step in (0, 10):
        torch.save(model.state_dict(), tmp_path / f"model_{step}.pt")
    steps = {
        name: opened(source, architecture=architecture).steps
        for name, source, architecture in (
            ("pairs", few(model), None),
            ("mapping", dict(few(model)), None),
            ("folder", str(tmp_path), model.cfg),
            ("files", sorted(tmp_path.iterdir()), model.cfg),
        )
    }
    assert steps == dict.fromkeys(steps, (0, 10))


@pytest.mark.parametrize(
    "probes", [[Loss(), AttentionTo()], pytest.param(None, marks=pytest.mark.slow)], ids=["two", "all"]
)
def test_one_model_has_a_report_and_no_stages(probes: list[AbstractProbe] | None, tmp_path: Path) -> None:
    model = models.build(full(5, 12, n_layers=1, n_heads=2, d_model=8, d_mlp=8))
    analysis = stagewise.analyse(model, tmp_path / "out", probes=probes, progress=False)
    assert analysis.stages is None
    assert "one checkpoint has no stages: the report says what its heads do" in str(analysis)
    assert (tmp_path / "out" / "report.html").stat().st_size > 1000
    weights = stagewise.analyse(
        model.state_dict(), tmp_path / "again", probes=probes, architecture=model.cfg, progress=False
    )
    pd.testing.assert_frame_equal(weights.table.assign(run=0), analysis.table.assign(run=0))


def test_what_is_no_series_is_named_with_what_is() -> None:
    for nothing, message in ((3, "got int"), (model_class(), "got")):
        with pytest.raises(ValueError, match=message):
            stagewise.analyse(nothing)


def model_class() -> type:
    """A class in place of a model, as where the brackets were forgotten."""
    return torch.nn.Linear
