"""Lines as trainers print them: the numbers, their names and their step; what cannot be read is said."""

import contextlib
import functools
import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints._log_lines import _parse, read_lines, text_of

PRINTED = {
    "nanoGPT's evaluation": (
        "step 250: train loss 2.0976, val loss 2.1011",
        ("step", 250, {"train loss": 2.0976, "val loss": 2.1011}),
    ),
    "nanoGPT": ("iter 10: loss 3.2012, time 98.31ms, mfu 11.90%", ("iter", 10, {"loss": 3.2012, "mfu": 0.119})),
    "modded-nanogpt": (
        "step:125/1750 val_loss:4.6123 train_time:15331ms step_avg:133.31ms",
        ("step", 125, {"val_loss": 4.6123}),
    ),
    "llm.c's log": ("s:250 trl:6.1 lr:0.0002 norm:1.1", ("s", 250, {"trl": 6.1, "lr": 0.0002, "norm": 1.1})),
    "llm.c": (
        "step   12/18865 | loss 9.012345 (+0.05z)| norm 3.1200 (+nanz)| lr 8.57e-06 | 1843.07 ms | 41.2% bf16 MFU",
        ("step", 12, {"loss": 9.012345, "norm": 3.12, "lr": 8.57e-6}),
    ),
    "fairseq": (
        "2021-05-07 10:11:12 | INFO | train_inner | epoch 002:    100 / 1122 loss=9.2, ppl=588, num_updates=1222",
        ("num_updates", 1222, {"train_inner/epoch": 2, "train_inner/loss": 9.2, "train_inner/ppl": 588}),
    ),
    "fairseq's validation": (
        "2021-05-07 10:11:12 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 7.3 | num_updates 1122",
        ("num_updates", 1122, {"valid/epoch": 1, "valid/loss": 7.3}),
    ),
    "fairseq's JSON": (
        '2021-05-07 10:11:12 | INFO | train | {"epoch": 1, "train_loss": "9.1", "train_num_updates": "1122"}',
        ("train_num_updates", 1122, {"train/epoch": 1, "train_loss": 9.1}),
    ),
    "Megatron": (
        " iteration      200/  500000 | elapsed time per iteration (ms): 812.3 | learning rate: 1.500E-05 | "
        "lm loss: 8.0E+00 | number of nan iterations:   0 |",
        ("iteration", 200, {"elapsed time per iteration (ms)": 812.3, "learning rate": 1.5e-5, "lm loss": 8.0}),
    ),
    "Megatron's validation": (
        " validation loss at iteration 1000 | lm loss value: 6.2E+00 | lm loss PPL: 4.9E+02 |",
        ("validation loss at iteration", 1000, {"lm loss value": 6.2, "lm loss PPL": 490}),
    ),
    "brackets": ("Epoch [1/5], Step [100/600], Loss: 0.2345", ("Step", 100, {"Epoch": 1, "Loss": 0.2345})),
    "equal signs": ("[12:00:01][INFO] Step=1,000 Loss=2.31 acc=81.2%", ("Step", 1000, {"Loss": 2.31, "acc": 0.812})),
    "a part in words": ("INFO:root:[eval] step 100 | loss 2.5", ("step", 100, {"eval/loss": 2.5})),
    "not a number": ("it 7: loss nan, lr 0.1", ("it", 7, {"lr": 0.1})),
    "torchtitan": (
        "[rank0]:[titan] 2025-01-01 10:00:11,123 - root - INFO - step: 10  loss: 4.0  memory: 41GiB(43.4%)  tps: 5,123",
        ("step", 10, {"loss": 4.0, "tps": 5123}),
    ),
    "a bracket": ("[100/5000] loss=2.31", ("[N/M]", 100, {"loss": 2.31})),
    "a bracket behind the epoch": ("Epoch: [3][ 100/5000]\tLoss 2.3 (2.4)", ("[N/M]", 100, {"Epoch": 3, "Loss": 2.3})),
    "an epoch alone": ("Epoch [1/5] loss 2.3", (None, None, {"Epoch": 1, "loss": 2.3})),
    "a number sign": ("Step #100: loss = 2.3", ("Step", 100, {"loss": 2.3})),
    "Python's thousands": ("step 1_000 loss 2.3", ("step", 1000, {"loss": 2.3})),
    "where it was printed": ("[10:00:11,1][trainer.py:123] step=1 loss=2.3", ("step", 1, {"loss": 2.3})),
    "a time to come": ("[step=50/5000,eta=1:02:03] loss=2.3", ("step", 50, {"loss": 2.3})),
    "litgpt": ("Epoch 1 | iter 400 step 100 | loss train: 2.3", ("step", 100, {"Epoch": 1, "loss train": 2.3})),
    "a part before its step": ("eval step 500: loss 2.5", ("eval step", 500, {"eval/loss": 2.5})),
    "torch": (f"step 5 loss {torch.tensor(2.5, requires_grad=True) * 1}", ("step", 5, {"loss": 2.5})),
    "NumPy": (str({"step": 5, "loss": np.float64(2.5)}), ("step", 5, {"loss": 2.5})),
    "MaxText": ("completed step: 20, seconds: 1.2, loss: 4.5", ("completed step", 20, {"seconds": 1.2, "loss": 4.5})),
    "T5X": (
        "I0501 12:00:00.123456 140 logging_writer.py:48] [20] accuracy=0.5, train/loss=4.5",
        ("[N]", 20, {"accuracy": 0.5, "train/loss": 4.5}),
    ),
    "no numbers of a run": ("number of parameters: 123.59M", (None, None, {})),
}


@pytest.mark.parametrize(("text", "expected"), PRINTED.values(), ids=PRINTED.keys())
def test_a_line_is_read_as_it_is_printed(text: str, expected: tuple[Any, ...]) -> None:
    line = _parse(text)
    finite = {name: value for name, value in line.values.items() if value == value}
    assert (line.key, line.step) == expected[:2]
    assert finite == pytest.approx(expected[2])


def log(folder: Path, text: str) -> tuple[pd.DataFrame, str]:
    """The frame of a log, and what is said of it."""
    path = folder / "train.log"
    path.write_text(text, encoding="utf8")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        frame = read_lines(path)
    return frame, str(said[0].message)


def test_a_line_with_one_of_two_counts_has_the_step_of_the_line_with_both(tmp_path: Path) -> None:
    """As litgpt 0.5.13 prints, whose validation tells batches alone."""
    lines = [
        f"Epoch 1 | iter {4 * i} step {i} | loss train: {3 - i / 10}, val: n/a | iter time: 35.02 ms (step)"
        + (f"\niter {4 * i}: val loss {3 - i / 20}, val time: 15.44 ms" if i % 2 == 0 else "")
        for i in range(1, 10)
    ]
    frame, _ = log(tmp_path, "\n".join(lines))
    assert frame.dropna(subset="loss train")["step"].tolist() == [*range(1, 10)]
    assert frame.dropna(subset="val loss")["step"].tolist() == [2, 4, 6, 8]


def test_numbers_below_a_line_of_names_have_these(tmp_path: Path) -> None:
    """As mlx-lm 0.32.2 prints, in colours."""
    lines = ["Trainable parameters: 23.212% (0.014M/0.062M)", "  \x1b[1miter   train_loss     tok/s     tokens\x1b[0m"]
    lines += ["  \x1b[38;5;244m   1\x1b[0m    \x1b[1;35mval\x1b[0m \x1b[1m3.536\x1b[0m    \x1b[38;5;244m4.23s\x1b[0m"]
    for i in range(3, 60, 3):
        lines += [f"  \x1b[38;5;244m  {i:2d}\x1b[0m    \x1b[1;32m{3.5 - i / 90:.3f} \u25bc\x1b[0m      797    0.3k"]
        lines += (
            [f"    {i:2d}    val {3.6 - i / 90:.3f}    0.04s", f"  save  {i:07d}_adapters.safetensors"]
            if i % 12 == 0
            else []
        )
    frame, _ = log(tmp_path, "\n".join(lines))
    losses, evaluated = frame.dropna(subset="train_loss"), frame.dropna(subset="val")
    assert losses["step"].tolist() == [*range(3, 60, 3)]
    np.testing.assert_allclose(losses["train_loss"], 3.5 - losses["step"] / 90, atol=1e-3)
    assert evaluated["step"].tolist() == [1, 12, 24, 36, 48]


def test_lines_without_a_step_have_that_of_the_line_before_and_it_is_said(tmp_path: Path) -> None:
    lines = [f"step {i} | loss {3 - i / 10}\nval loss {3 - i / 20}" for i in range(6)]
    frame, said = log(tmp_path, "number of heads: 12\n" + "\n".join(lines))
    assert frame.groupby("step")["val loss"].max().tolist() == [3 - i / 20 for i in range(6)]
    assert said == (
        "train.log: the step is 'step' (6 lines), that of a line before (6 lines); "
        "left out: 1 lines with numbers and no step, as 'number of heads: 12'"
    )


def test_steps_that_begin_anew_in_each_epoch_count_on(tmp_path: Path) -> None:
    lines = [f"epoch: {e}, batch: {b}/300, loss: {3 - e}" for e in (1, 2, 3) for b in (100, 200, 300)]
    assert log(tmp_path, "\n".join(lines))[0]["step"].diff().dropna().unique().tolist() == [100]
    with pytest.raises(ValueError, match="steps begin anew in each epoch, of a length that no line tells"):
        log(tmp_path, "\n".join(lines).replace("/300", ""))


@pytest.mark.parametrize(("first", "begins"), [(1, 100), (0, 100), (5, 1600)])
def test_the_first_epoch_counts_from_nothing_unless_it_is_a_later_one(first: int, begins: int, tmp_path: Path) -> None:
    lines = [
        f"| epoch {first + e:3d} | {b:5d}/  300 batches | ms/batch 11.65 | loss {3 - e:5.2f} | ppl {9 - e:8.2f}"
        for e in (0, 1, 2)
        for b in (100, 200)
    ]
    frame, _ = log(tmp_path, "\n".join(lines))
    assert (frame["step"] - begins).tolist() == [0, 100, 300, 400, 600, 700]
    assert frame["loss"].tolist() == [3, 3, 2, 2, 1, 1]


def test_a_progress_bar_tells_the_step_of_what_is_printed_behind_it(tmp_path: Path) -> None:
    keras = "".join(f"Epoch {e}/4\n 30/30 [======] - 1s 3ms/step - loss: {2 - e / 4}\n" for e in (1, 2, 3, 4))
    frame, _ = log(tmp_path, keras)
    assert frame["step"].tolist() == [30, 60, 90, 120]
    assert frame["loss"].tolist() == [1.75, 1.5, 1.25, 1.0]


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_bar_that_is_drawn_again_or_begins_anew_is_one_curve(epochs: int, tmp_path: Path) -> None:
    from tqdm import tqdm

    screen = io.StringIO()
    for epoch in range(epochs):
        bar = tqdm(range(50), file=screen, mininterval=0, miniters=1, desc=f"Epoch {epoch}")
        for step in bar:
            bar.set_postfix(loss=100 - epoch * 50 - step)
    frame, said = log(tmp_path, screen.getvalue())
    frame = frame.dropna(subset="loss")
    assert frame["step"].is_unique
    assert frame["step"].max() == 50 * epochs
    assert (frame["loss"] + frame["step"]).between(100, 101).all()  # a bar is drawn before and behind an update
    assert said.startswith("train.log: the step is that of a line before")


@pytest.mark.parametrize("text", ["", "hello\nworld", "loss 3\nloss 2", "[4242] loss 3\n[4242] loss 2"])
def test_a_file_without_steps_is_refused_with_what_was_expected(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no line with a step and another number, as 'step 100 loss 2.31'"):
        log(tmp_path, text)


def test_an_evaluations_bar_tells_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tqdm.auto import tqdm
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    rows = [{"input_ids": (ids := torch.randint(9, (8,))), "labels": ids} for _ in range(16)]
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=20, logging_steps=2, eval_strategy="steps", eval_steps=5,
        per_device_train_batch_size=2, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=False,
    )  # fmt: skip
    monkeypatch.setattr("transformers.trainer_callback.tqdm", functools.partial(tqdm, mininterval=0, miniters=1))
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=8, n_positions=8, vocab_size=9))
        Trainer(model, arguments, train_dataset=rows, eval_dataset=rows).train()
    frame, _ = log(tmp_path, screen.getvalue())
    assert frame.dropna(subset="eval_loss")["step"].tolist() == [5, 10, 15, 20]
    assert frame.dropna(subset="loss")["step"].tolist() == [*range(2, 21, 2)]


def test_what_trainer_prints_is_the_log_that_it_keeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tqdm.auto import tqdm
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    rows = [{"input_ids": (ids := torch.randint(9, (8,))), "labels": ids} for _ in range(16)]
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=12, logging_steps=2, per_device_train_batch_size=2, save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=False,
    )  # fmt: skip
    # A bar is drawn at every step, however fast these are.
    monkeypatch.setattr("transformers.trainer_callback.tqdm", functools.partial(tqdm, mininterval=0, miniters=1))
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=8, n_positions=8, vocab_size=9))
    trainer = Trainer(model, arguments, train_dataset=rows)
    trainer.train()
    out, err = capsys.readouterr()
    kept = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    bars = {int(match[1]): match[0] for match in re.finditer(r"[^\r\n]*\| *(\d+)/12 \[[^\r\n]*", err)}
    printed = [line for line in out.splitlines() if "'loss'" in line]
    assert len(kept) == len(printed) == 6
    behind = [(step, line) for step, line in zip(range(2, 13, 2), printed, strict=True) if step in bars]
    frame, _ = log(tmp_path, "".join(f"{bars[step]}\r{line}\n" for step, line in behind))
    assert len(frame) == len(behind) > 3
    assert frame["loss"].round(3).tolist() == [round(kept[int(step) // 2 - 1], 3) for step in frame["step"]]


LINE = "step 10: loss 2.5 \u2014 \u00e9pisode\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_as_it_was_written(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(LINE.encode(encoding))
    assert text_of(path) == LINE


def test_what_a_terminal_is_told_between_the_letters_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("\x1b[32mstep 10\x1b[0m: loss \x1b[1;31m2.5\x1b[K\n")
    assert text_of(path) == "step 10: loss 2.5\n"


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.log"
    path.write_bytes(b"\x80\x02\x00\x00torch")
    with pytest.raises(ValueError, match=r"model.log is no text: save its columns"):
        text_of(path)
