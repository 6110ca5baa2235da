"""Probes while a model trains: the numbers are those of its weights, and the training is the same to the bit."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from stagewise import models, schedules
from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import read_table
from stagewise.checkpoints.series import open_series
from stagewise.cli.app import app
from stagewise.measurement.engine import measure
from stagewise.models._bridge_loading import wrapped
from stagewise.probes import AttentionTo, Loss
from stagewise.recording import Recorder, record
from stagewise.task import Batch

pytestmark = pytest.mark.usefixtures("undrawn", "unchecked")

BATCH = Batch.from_tokens(torch.tensor([[1, 2, 1, 2, 3], [3, 4, 3, 4, 0]]), ["induction", "self"])
SIZES = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "attn_only": True}
PROBES = [Loss(), AttentionTo()]


def own() -> Any:
    return models.build(Architecture(SIZES), 3)


@pytest.fixture
def kinds(hugging_face: Callable[..., Any]) -> dict[str, Callable[[], Any]]:
    """Models as a user has them; those of Hugging Face with dropout."""
    dropped = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.3)

    def plain() -> Any:
        return hugging_face("GPT2", **dropped, n_positions=6, vocab_size=5)

    return {"own": own, "plain": plain, "bridge": lambda: wrapped(plain())}


def train(model: Any, recorder: Callable[[int], object], steps: int = 6) -> list[torch.Tensor]:
    """Train with gradients that add up over two steps, and noise of three generators; return all that it leaves."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - a user's
    model.train()
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=1e-2)
    for step in range(steps):
        recorder(step)
        output = model(torch.randint(5, (4, 6)))
        logits = getattr(output, "logits", output)
        noise = random.random() + np.random.rand()  # noqa: NPY002
        (logits.square().mean() * noise).backward()
        if step % 2:
            optimiser.step()
            optimiser.zero_grad()
    assert model.training
    assert torch.is_grad_enabled()
    return [*(each.detach().clone() for each in model.parameters()), torch.random.get_rng_state()]


@pytest.mark.parametrize("kind", ["own", "plain", "bridge"])
def test_training_is_the_same_to_the_bit_with_and_without(kind: str, kinds: Any, tmp_path: Path) -> None:
    without = train(kinds[kind](), lambda step: None)
    model = kinds[kind]()
    hooks = len(models.extras(model))
    recorder = record(model, PROBES, 1, tmp_path / "run", batch=BATCH, weights=True)
    recorded = train(model, recorder)
    assert all(torch.equal(one, other) for one, other in zip(without, recorded, strict=True))
    assert len(models.extras(model)) == hooks
    assert recorder.series.steps == (0, 1, 2, 3, 4, 5)
    table = measure(recorder.series, PROBES, BATCH, progress=False)
    pd.testing.assert_series_equal(values(table), values(recorder.table()))
    first, last = ([*recorder.series.weights(step).values()] for step in (0, 5))
    assert not any(torch.equal(one, other) for one, other in zip(first[:3], last[:3], strict=True))


def values(table: pd.DataFrame) -> pd.Series:
    return table["value"].reset_index(drop=True)


def test_a_compiled_model_is_recorded_by_its_weights_and_told(tmp_path: Path, capsys: Any) -> None:
    model = own()
    one = record(model, PROBES, 1, tmp_path / "run", batch=BATCH)
    other = record(torch.compile(model, backend="eager"), PROBES, 1, tmp_path / "compiled", batch=BATCH)
    assert capsys.readouterr().err.count("the model is compiled: hooks that were added afterwards do not run") == 1
    assert one(0)
    assert other(0)
    assert one.values() == other.values()
    parallel = torch.nn.DataParallel(model)
    assert models.bare(torch.compile(parallel, backend="eager")) is model


def test_the_surroundings_of_the_loop_change_no_number(tmp_path: Path) -> None:
    model = own()
    plain, inside = (record(model, PROBES, 1, tmp_path / name, batch=BATCH) for name in ("plain", "inside"))
    plain(0)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
            inside(0)
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert inside.values() == plain.values()


def moved(model: Any, share: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + share)


def recorded(folder: Path, steps: range = range(0, 50, 10), **options: Any) -> tuple[Any, Recorder]:
    model = own()
    recorder = record(model, PROBES, folder=folder, batch=BATCH, **options)
    for step in steps:
        recorder(step)
        moved(model, 0.1)
    return model, recorder


def test_a_folder_of_rows_alone_is_opened_while_it_grows(tmp_path: Path) -> None:
    model, recorder = recorded(tmp_path / "run")
    recorder.save()
    runner = CliRunner()
    for command in (["stages", "run"], ["report", "run"], ["watch", "run", "--once", "--quiet"]):
        result = runner.invoke(app, [command[0], str(tmp_path / "run"), *command[2:]])
        assert result.exit_code == 0, result.output
    assert "step 40: " in result.output
    assert set(read_table(tmp_path / "run")["step"]) == {0, 10, 20, 30, 40}
    recorder(60)
    assert recorder.report().series.steps[-1] == 60
    assert recorder.report().report.exists()
    assert not list(tmp_path.rglob("*.safetensors"))
    with pytest.raises(ValueError, match="weights of step 60 are not kept"):
        recorder.series.weights(60)
    assert repr(recorder).startswith(f"Recorder({str(tmp_path / 'run')!r}: 6 checkpoints, steps 0 to 60; ")
    assert "L0H1" in " ".join(recorder.values())
    assert model.training is False


def test_kept_weights_are_those_of_the_step(tmp_path: Path) -> None:
    model, recorder = recorded(tmp_path / "run", weights=True)
    series = open_series(tmp_path / "run")
    assert series.steps == (0, 10, 20, 30, 40)
    at = [series.weights(step)["embed.W_E"] for step in (30, 40)]
    torch.testing.assert_close(1.1 * at[0], at[1])
    torch.testing.assert_close(1.1 * at[1], dict(models.weights(model))["embed.W_E"])
    assert recorder.report().stages is not None


def test_a_resumed_training_goes_on_and_another_one_is_refused(tmp_path: Path, capsys: Any) -> None:
    recorded(tmp_path / "run")
    _, recorder = recorded(tmp_path / "run", range(30, 80, 10))
    assert "steps 30 to 40 are recorded anew" in capsys.readouterr().err
    table = recorder.table()
    assert sorted(set(table["step"])) == [0, 10, 20, 30, 40, 50, 60, 70]
    losses = table[table["quantity"] == "cross_entropy"].set_index("step")["value"]
    assert losses[30] == pytest.approx(losses[0])  # the resumed one began with these weights
    recorded(tmp_path / "run")  # from its very start again
    model = own()
    moved(model, 1.0)
    other = record(model, PROBES, folder=tmp_path / "run", batch=BATCH)
    with pytest.raises(ValueError, match="has the recording of another run, from step 0 on: give another folder"):
        other(0)


def test_seconds_of_a_step_are_said_once_the_second_model_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("stagewise.recording._LONG", 0.0)
    recorder, said = record(own(), [Loss()], 1, tmp_path / "run", batch=BATCH, resamples=0), list[int]()
    for step in range(4):
        recorder(step)
        said.append(capsys.readouterr().err.count("for each step that is recorded; fewer probes"))
    assert said == [0, 1, 0, 0]


def test_schedules_are_steps_a_number_or_a_twentieth_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = range(0, 100)
    chosen: list[Any] = [25, schedules.linear(25, 100), {0, 25, 50, 75}]
    for schedule in chosen:
        recorder = record(own(), [Loss()], schedule, batch=BATCH, resamples=0)
        assert [step for step in steps if recorder(step)] == [0, 25, 50, 75]
    recorder = record(own(), [Loss()], batch=BATCH, resamples=0)
    assert recorder.folder == Path("runs/recording-4")
    seen = [step for step in steps if recorder(step)]
    assert seen[:22] == [*range(22)]
    assert all(1.05 * a <= b <= 1.05 * a + 1 for a, b in itertools.pairwise(seen[21:]))
    assert not recorder(seen[-1])
    every = record(own(), [Loss()], 1, batch=BATCH, resamples=0)
    every(7)
    with pytest.raises(ValueError, match="steps ascend, got 3 after 7: for another training make a new recorder"):
        every(3)
    with pytest.raises(ValueError, match="nothing is recorded"):
        record(own(), [Loss()], 1, batch=BATCH).stages()


def test_without_a_batch_it_is_recorded_on_repeated_tokens(tmp_path: Path, few_sequences: Any) -> None:
    model = models.build(Architecture({**SIZES, "n_ctx": 24, "d_vocab": 16}))
    recorder = record(model, [Loss()], 1, tmp_path / "run")
    recorder(0)
    assert recorder.batch.tokens.max() < 16
    assert recorder.report().familiarity is not None


def trained(folder: Path, probed: bool) -> tuple[Any, list[dict[str, float]]]:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    torch.manual_seed(0)
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(5, (8, 6))]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, n_positions=6))
    arguments = TrainingArguments(
        str(folder), max_steps=3, per_device_train_batch_size=2, use_cpu=True, disable_tqdm=True, save_strategy="no",
        logging_strategy="no", report_to=[],
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows)
    if probed:
        recorder = record(trainer.model, PROBES, {0, 2}, folder / "recorded", batch=BATCH)

        class Recorded(TrainerCallback):  # type: ignore[misc]  # untyped base
            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                if recorder(state.global_step):
                    trainer.log(recorder.values())

            on_train_begin = on_step_end

        trainer.add_callback(Recorded())
    trainer.train()
    return model, [entry for entry in trainer.state.log_history if "Loss/cross_entropy" in entry]


@pytest.mark.slow
def test_a_callback_of_trainer_logs_what_is_measured_and_trains_the_same(tmp_path: Path) -> None:
    model, logged = trained(tmp_path / "probed", probed=True)
    plain, none = trained(tmp_path / "plain", probed=False)
    assert [entry["step"] for entry in logged] == [0, 2]
    assert none == []
    assert {"AttentionTo/mass/L0H1/induction", "AttentionTo/along/L0H0/self"} <= logged[0].keys()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
    table = read_table(tmp_path / "probed/recorded")
    assert set(table["step"]) <= {0, 2}


def test_a_callback_of_lightning_holds_the_recorder(tmp_path: Path) -> None:
    pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed: pip install lightning")

    class Module(pl.LightningModule):  # type: ignore[misc, name-defined]  # where Lightning is installed
        def __init__(self) -> None:
            super().__init__()
            self.net = own()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.net.parameters(), lr=0.1)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            loss: torch.Tensor = self.net(batch[0]).square().mean()
            return loss

    class Recorded(pl.Callback):  # type: ignore[misc, name-defined]
        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.recorder = record(module.net, [Loss()], 2, tmp_path / "run", batch=BATCH, weights=True)
            self.recorder(0)

        def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
            self.recorder(trainer.global_step)

    data = torch.utils.data.TensorDataset(torch.randint(5, (20, 6), generator=torch.Generator().manual_seed(0)))
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    callback, module = Recorded(), Module()
    batches = torch.utils.data.DataLoader(data, batch_size=2)
    trainer = pl.Trainer(**quiet, accelerator="cpu", callbacks=[callback], accumulate_grad_batches=2, max_epochs=1)
    trainer.fit(module, batches)
    series = callback.recorder.series
    assert series.steps == (0, 2, 4)  # ten batches are five updates
    assert not torch.equal(series.weights(0)["embed.W_E"], series.weights(4)["embed.W_E"])
    assert set(callback.recorder.table()["step"]) == {0, 2, 4}
