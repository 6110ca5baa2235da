"""Columns as a loop of training collects them; of a log that goes back to an earlier step the later values count."""

import io
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints._log_columns import as_numbers, from_text
from stagewise.checkpoints.logged_curves import read_log

VALUES = [0.5, 0.25, 0.125]


@pytest.mark.parametrize(
    "values",
    [
        [torch.tensor(value) for value in VALUES],
        [torch.tensor(value, requires_grad=True) for value in VALUES],
        [np.array(value) for value in VALUES],
        [Decimal(value) for value in VALUES],
        pd.Series(VALUES, dtype=object),
    ],
)
def test_a_list_of_scalars_is_a_curve(values: Any) -> None:
    table = read_log({"step": [torch.tensor(step) for step in (0, 10, 20)], "loss": values})
    assert table["value"].tolist() == VALUES
    assert table["step"].tolist() == [0, 10, 20]


@pytest.mark.parametrize("values", [["0.5", 0.25], [np.zeros(2), 0.25], [{}, 0.25]])
def test_other_objects_stay_as_they_are(values: list[Any]) -> None:
    assert as_numbers(pd.Series(values, dtype=object)).tolist() == values


STEPS = np.arange(0, 3000, 50)
LOG = pd.DataFrame({"step": STEPS, "accuracy": STEPS / 3000, "loss": 3 - STEPS / 3000})


@pytest.mark.parametrize("starts", [[2025], [1525, 2510], [2999]])
def test_a_resumed_run_need_not_log_at_the_same_steps(starts: list[int]) -> None:
    parts = [np.arange(0, 3001, 50), *(np.arange(start, 4000, 50) for start in starts)]
    log = pd.concat([pd.DataFrame({"step": steps, "loss": float(number)}) for number, steps in enumerate(parts)])
    with pytest.warns(UserWarning, match=f"loss was logged again from step {starts[0]} on, as by a resumed run"):
        table = read_log(log)
    resumed = np.searchsorted(starts, table["step"], side="right")
    assert table["value"].tolist() == resumed.tolist()


@pytest.mark.parametrize("order", ["descending", "shuffled", "parts", "ascending"])
def test_a_log_in_another_order_is_no_resumed_run(order: str) -> None:
    places = np.arange(len(LOG))
    orders = {
        "descending": places[::-1], "shuffled": np.random.default_rng(0).permutation(places),
        "parts": np.r_[places[:20], places[40:], places[20:40]], "ascending": places,
    }  # fmt: skip
    pd.testing.assert_frame_equal(read_log(LOG.iloc[orders[order]]), read_log(LOG))


@pytest.mark.parametrize("step", [0, 1000, 2950])
def test_of_a_step_that_is_logged_twice_the_last_value_counts(step: int) -> None:
    again = pd.DataFrame({"step": [step], "loss": [9.0]})
    log = pd.concat([LOG[LOG.step <= step], again, LOG[LOG.step > step]])[["step", "loss"]]
    with pytest.warns(UserWarning, match=rf"loss was logged again at step {step}, .*: 1 earlier values are left out"):
        table = read_log(log)
    assert table["step"].tolist() == STEPS.tolist()
    assert table.loc[table["step"] == step, "value"].tolist() == [9.0]


def test_two_values_of_each_step_are_no_resumed_run() -> None:
    with pytest.raises(ValueError, match=r"loss has several values at step 0"):
        read_log(pd.concat([LOG, LOG]).sort_values("step")[["step", "loss"]])


def test_columns_of_several_levels_have_the_names_of_all(tmp_path: Path) -> None:
    runs = pd.concat(LOG_TABLES_LOG.assign(acc=1 - LOG_TABLES_LOG["loss"] / 5 + 0.01 * seed) for seed in range(3))
    runs.groupby("step").agg(["mean", "max"]).to_csv(tmp_path / "log.csv")  # as tensorboard-reducer does
    table = read_log(tmp_path / "log.csv")
    assert table["quantity"].unique().tolist() == ["loss/mean", "loss/max", "acc/mean", "acc/max"]
    assert table["step"].unique().tolist() == LOG_TABLES_STEPS
    values = {name: rows["value"].to_numpy() for name, rows in table.groupby("quantity")}
    np.testing.assert_allclose(values["loss/max"], LOSS)
    np.testing.assert_allclose(values["acc/max"] - values["acc/mean"], 0.01)


def test_text_is_numbers_where_each_entry_is_one() -> None:
    assert from_text(pd.Series(["1,000", "tensor(0.5)"])).tolist() == [1000, 0.5]
    assert from_text(pd.Series(["12.5%", "50%"])).tolist() == [0.125, 0.5]
    assert from_text(pd.Series(["1.5", "low"])).tolist() == ["1.5", "low"]
    assert from_text(pd.Series(["1.5", "-", "\u2013"])).isna().tolist() == [False, True, True]


LOG_TABLES_STEPS = [0, 500, *range(1000, 20_000, 1000)]
LOSS = [round(4 - 3 / (1 + np.exp(-(step - 9000) / 900)), 3) for step in LOG_TABLES_STEPS]
LOG_TABLES_LOG = pd.DataFrame({"step": LOG_TABLES_STEPS, "loss": LOSS})


def as_json(held: object) -> bytes:
    return json.dumps(held).encode()


def csv(**how: object) -> bytes:
    """What pandas writes of the log."""
    return LOG_TABLES_LOG.to_csv(index=False, **how).encode()  # type: ignore[call-overload, no-any-return]


def savetxt(**how: str) -> bytes:
    """What NumPy writes of the log."""
    file = io.BytesIO()
    np.savetxt(file, LOG_TABLES_LOG.to_numpy(), **how)
    return file.getvalue()


def german(step: int, loss: float) -> str:
    """A row as a spreadsheet in German saves it."""
    return f"{step:,};{loss}".translate({ord(","): ".", ord("."): ","})


def markdown(line: str) -> str:
    """The log as a table of Markdown, each of its lines in such a one."""
    head = [line.format("step | loss"), line.format("---: | :---")]
    return "\n".join([*head, *(line.format(f"{int(s):,} | {v}") for s, v in LOG_TABLES_LOG.values)]) + "\n"


WRITTEN: dict[str, tuple[str, bytes]] = {
    "UTF-16, of Excel": ("log.csv", LOG_TABLES_LOG.to_csv(index=False).encode("utf-16")),
    "UTF-16, of PowerShell": (
        "log.txt",
        "".join(f"step {s} loss {v}\r\n" for s, v in LOG_TABLES_LOG.values).encode("utf-16"),
    ),
    "Latin-1 beside numbers": ("log.csv", LOG_TABLES_LOG.assign(note="é").to_csv(index=False).encode("latin-1")),
    "units in brackets": ("log.csv", csv(header=["Step [#]", "loss"])),
    "units in a row": ("log.csv", csv().replace(b"step,loss\n", b"step,loss\n#,nats\n")),
    "names again, after a stop": ("log.csv", csv().replace(b"\n9000,", b"\nstep,loss\n9000,")),
    "a comment of percents": ("log.csv", b"% lr 0.1\n" + csv()),
    "spaces": ("log.csv", csv(sep=" ")),
    "a frame as it is printed": ("log.txt", LOG_TABLES_LOG.to_string(index=False).encode()),
    "bars": ("log.csv", csv(sep="|")),
    "Markdown among text": ("README.md", b"# A | B\n\n" + markdown("| {} |").encode() + b"\nand so | on.\n"),
    "Markdown without bars outside": ("README.md", markdown("{}").encode()),
    "savetxt": ("log.txt", savetxt(header="step loss")),
    "savetxt, commas": ("log.csv", savetxt(header="step,loss", delimiter=",")),
    "German": ("log.csv", "\n".join(["step;loss", *(german(int(s), v) for s, v in LOG_TABLES_LOG.values)]).encode()),
    "decimal commas behind whole numbers": ("log.csv", csv(sep=";", decimal=",", float_format="%.3f")),
    "thousands between tabs": (
        "log.tsv",
        "\n".join(["step\tloss", *(f"{int(s):,}\t{v}" for s, v in LOG_TABLES_LOG.values)]).encode(),
    ),
    "numbers as text in JSON": ("log.jsonl", LOG_TABLES_LOG.astype(str).to_json(orient="records", lines=True).encode()),
    "TensorBoard's download": (
        "log.json",
        json.dumps([[1.7e9 + s, int(s), v] for s, v in LOG_TABLES_LOG.values]).encode(),
    ),
    "a history beside settings": (
        "log.json",
        json.dumps({"history": LOG_TABLES_LOG.to_dict("records"), "args": {"lr": 0.1}}).encode(),
    ),
    "columns beside settings": (
        "log.json",
        json.dumps({**LOG_TABLES_LOG.to_dict("list"), "args": {"lr": 0.1}}).encode(),
    ),
    "rows by their steps": ("log.json", LOG_TABLES_LOG.set_index("step").to_json(orient="index").encode()),
    "rows by names of steps": ("log.json", as_json({f"step_{int(s)}": {"loss": v} for s, v in LOG_TABLES_LOG.values})),
    "values by their steps": ("log.json", as_json({"loss": {int(s): v for s, v in LOG_TABLES_LOG.values}, "lr": 0.1})),
    "pandas' columns": ("log.json", LOG_TABLES_LOG.to_json().encode()),
    "pandas' split": ("log.json", LOG_TABLES_LOG.to_json(orient="split").encode()),
    "pandas' table": ("log.json", LOG_TABLES_LOG.set_index("step").to_json(orient="table").encode()),
    "columns within": ("log.json", as_json({"series": LOG_TABLES_LOG.to_dict("list"), "first": {"loss": 3.0}})),
    "columns within, steps outside": (
        "log.json",
        as_json({"step": LOG_TABLES_LOG["step"].tolist(), "history": {"loss": LOG_TABLES_LOG["loss"].tolist()}}),
    ),
    "columns by checkpoints": (
        "log.json",
        as_json({"checkpoints": LOG_TABLES_LOG["step"].tolist(), "scores": {"loss": LOG_TABLES_LOG["loss"].tolist()}}),
    ),
    "rows deep within": ("log.json", as_json({"result": {"log": LOG_TABLES_LOG.to_dict("records"), "lags": [1, 2]}})),
    "pairs": ("log.json", as_json({"loss": LOG_TABLES_LOG.to_numpy().tolist(), "betas": [0.9, 0.95]})),
}
"""A file of the log -> its name, and what is in it."""


@pytest.mark.filterwarnings("ignore:log.txt. the step is")
@pytest.mark.parametrize("way", WRITTEN)
def test_a_log_is_read_however_it_is_written(way: str, tmp_path: Path) -> None:
    name, content = WRITTEN[way]
    (tmp_path / name).write_bytes(content)
    table = read_log(tmp_path / name)
    assert table["step"].tolist() == LOG_TABLES_STEPS
    np.testing.assert_allclose(table["value"], LOSS, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "write", "reason"),
    [
        (
            "log.feather",
            LOG_TABLES_LOG.to_feather,
            "log.feather is no text: save its columns of steps and values as .csv",
        ),
        ("log.csv.gz", LOG_TABLES_LOG.to_csv, "log.csv.gz is no text"),
        (
            "log.csv",
            lambda path: LOG_TABLES_LOG.to_csv(path, header=False, index=False),
            "its first line holds numbers: write",
        ),
        (
            "log.csv",
            lambda path: LOG_TABLES_LOG[:0].to_csv(path, index=False),
            "there are no rows of numbers yet; the columns",
        ),
        ("log.csv", lambda path: path.write_text(""), "No columns to parse"),
    ],
)
def test_what_holds_no_such_columns_is_refused_with_what_to_do(
    name: str, write: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    write(tmp_path / name)
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_log(tmp_path / name)


def test_a_row_that_is_cut_off_is_left_out_and_told(tmp_path: Path) -> None:
    lines = LOG_TABLES_LOG.to_csv(index=False).splitlines()
    (tmp_path / "log.csv").write_text("\n".join([*lines[:9], lines[9].partition(",")[0], *lines[10:]]))
    with pytest.warns(UserWarning, match=r"a line is cut off, and left out: '\d+'"):
        table = read_log(tmp_path / "log.csv")
    assert len(table["step"].unique()) == len(lines) - 2


@pytest.mark.parametrize("line", [1, 12, 21])
def test_a_line_that_is_cut_off_is_left_out_and_named(line: int, tmp_path: Path) -> None:
    lines = LOG_TABLES_LOG.to_json(orient="records", lines=True).splitlines()
    lines[line - 1] = lines[line - 1][:-5]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match=rf"line {line} is cut off, and left out: '\{{\"step\""):
        steps = read_log(tmp_path / "log.jsonl")["step"].tolist()
    assert steps == [step for number, step in enumerate(LOG_TABLES_STEPS, 1) if number != line]


def test_lines_of_another_form_are_refused_by_their_number(tmp_path: Path) -> None:
    lines = LOG_TABLES_LOG.to_json(orient="records", lines=True).splitlines()
    (tmp_path / "log.jsonl").write_text("\n".join([*lines, "", "once", "more", "again"]))
    with pytest.raises(ValueError, match="3 lines are no JSON, line 23 first: 'once'"):
        read_log(tmp_path / "log.jsonl")


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity", "nan", "inf"])
def test_what_is_no_number_is_one_as_text_too(written: str, tmp_path: Path) -> None:
    rows = [{"step": step, "loss": written if step == 9000 else loss} for step, loss in LOG_TABLES_LOG.to_numpy()]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    LOG_TABLES_LOG.assign(loss=[row["loss"] for row in rows]).to_csv(tmp_path / "log.csv", index=False)
    expected = LOG_TABLES_LOG.assign(loss=[float(row["loss"]) for row in rows])
    infinite = "inf" in written.lower()
    with pytest.warns(UserWarning, match="loss is infinite at step 9000.0: left out") if infinite else nullcontext():
        as_numbers = read_log(expected, run="log")
        for name in ("log.jsonl", "log.csv"):
            pd.testing.assert_frame_equal(read_log(tmp_path / name), as_numbers)


@pytest.mark.parametrize("values", [False, True], ids=["columns", "a row a value"])
def test_rows_on_other_data_are_other_curves(values: bool, tmp_path: Path) -> None:
    both = pd.concat(
        [LOG_TABLES_LOG.assign(split="train"), LOG_TABLES_LOG[::5].assign(split="val", loss=9.0)]
    ).sort_values("step")
    if values:
        both = both.melt(["step", "split"], var_name="metric")
    both.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    curves = {name: rows["value"].tolist() for name, rows in read_log(tmp_path / "log.jsonl").groupby("quantity")}
    assert curves == {"train/loss": LOSS, "val/loss": [9.0] * len(LOG_TABLES_LOG[::5])}


def test_phases_that_follow_each_other_are_one_curve() -> None:
    phases = ["warmup" if step < 9000 else "main" for step in LOG_TABLES_STEPS]
    assert read_log(LOG_TABLES_LOG.assign(phase=phases))["quantity"].unique().tolist() == ["loss"]


def test_steps_that_begin_anew_in_each_epoch_are_no_resumed_run() -> None:
    anew = pd.concat([LOG_TABLES_LOG.iloc[:1], *(LOG_TABLES_LOG.iloc[1:] for _ in range(3))]).assign(
        epoch=[0, *sorted([0, 1, 2] * 20)]
    )
    with pytest.raises(ValueError, match="the steps in 'step' begin anew in each epoch"):
        read_log(anew)


def test_steps_may_be_written_in_thousands(tmp_path: Path) -> None:
    (tmp_path / "evals.csv").write_text("step,acc\n0,0.1\n500,0.2\n50K,0.3\n1.2M,0.4\n")
    assert read_log(tmp_path / "evals.csv")["step"].tolist() == [0, 500, 50_000, 1_200_000]


def test_letters_that_are_no_thousands_are_refused_as_steps() -> None:
    with pytest.raises(ValueError, match="steps are whole numbers"):
        read_log({"step": ["1x", "2x", "3x", "4x"], "acc": [0.1, 0.2, 0.3, 0.4]})


@pytest.mark.parametrize("gradients", [True, False])
def test_a_run_that_diverged_under_trainer_does_not_end_at_a_loss_of_zero(
    gradients: bool, tmp_path: Path, hugging_face: Callable[..., Any]
) -> None:
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Diverges(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.global_step == 6:
                given["model"].get_input_embeddings().weight.data.fill_(float("nan"))

    data = [{name: list(range(1, 7)) for name in ("input_ids", "labels")}] * 16
    arguments = TrainingArguments(
        str(tmp_path),
        max_steps=12,
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        max_grad_norm=1.0 if gradients else 0.0,
    )
    trainer = Trainer(hugging_face("GPT2"), arguments, train_dataset=data, callbacks=[Diverges()])
    trainer.train()
    trainer.state.save_to_json(str(tmp_path / "trainer_state.json"))
    written = json.loads((tmp_path / "trainer_state.json").read_text())["log_history"]
    assert written[-2]["loss"] == 0.0
    with pytest.warns(UserWarning, match="loss is 0 from step 7(.0)? on, as a trainer writes nan: the run diverged"):
        table = read_log(tmp_path / "trainer_state.json")
    loss = table[(table["quantity"] == "loss") & table["value"].notna()]
    assert loss["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert (loss["value"] > 1).all()


def test_a_loss_that_fades_to_zero_is_none_of_trainers_nan() -> None:
    losses = [3.0, 1.0, 0.3, 0.02, 0.0, 0.0, 0.0, 0.0]
    table = read_log({"step": range(8), "loss": losses, "grad_norm": [1.0] * 8})
    assert table[table["quantity"] == "loss"]["value"].tolist() == losses


@pytest.mark.parametrize("value", [2.88, 10.825])
def test_a_loss_that_has_one_value_from_a_row_on_is_as_nan(value: float) -> None:
    losses = 3 - np.arange(60) / 100 + np.random.default_rng(0).normal(0, 0.01, 60)
    with pytest.warns(UserWarning, match=f"eval_loss is {value} from step 40(.0)? on, as a trainer writes nan"):
        table = read_log({"step": range(60), "eval_loss": np.where(np.arange(60) < 40, losses, value)})
    assert table["value"].notna().sum() == 40


def test_a_loss_of_few_digits_and_one_that_is_logged_again_until_it_is_measured_are_none_of_nan() -> None:
    fades = np.round(np.exp(-np.arange(60) / 10), 2)
    again = np.repeat(3 - np.arange(6) / 10, 10)
    table = read_log({"step": range(60), "loss": fades, "val_loss": again, "accuracy": 1 - fades})
    assert table["value"].notna().all()


ROWS = np.arange(100)
FALLS = 8 / (1 + np.exp((ROWS - 40) / 0.6)) * np.exp(np.random.default_rng(1).normal(0, 0.03, 100))


@pytest.mark.parametrize(
    "losses",
    [
        (FALLS + 0.02).round(3),
        np.maximum(2.3 * np.exp(-ROWS / 8) + 0.01 * np.abs(FALLS), 0.02),
        np.where(ROWS > 40, np.log(2), np.log(2) * np.tanh(ROWS / 15)),
    ],
    ids=["digits", "a bound", "chance"],
)
def test_a_loss_that_has_come_near_to_its_last_value_ends_at_a_floor(losses: np.ndarray) -> None:
    assert len({*losses[-10:]}) == 1
    assert read_log({"step": ROWS, "val_loss": losses})["value"].notna().all()


BESIDE = {
    "train_loss": 3 / (1 + ROWS / 10) + 0.1 * FALLS,
    "grad_norm": 1 + 0.1 * FALLS,
    "test_acc": np.where(ROWS > 39, 1.0, 0.5 + ROWS / 100),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_loss_that_has_one_value_while_the_run_goes_on_is_no_nan(name: str) -> None:
    losses = np.where(ROWS > 40, 2.88, 3 - ROWS / 100)
    table = read_log({"step": ROWS, "eval_loss": losses, name: BESIDE[name]})
    assert table["value"].notna().all()


def test_a_run_whose_scale_of_the_loss_alone_moves_does_not_go_on() -> None:
    losses = np.where(ROWS > 40, 10.825, 3 - ROWS / 100)
    with pytest.warns(UserWarning, match="loss is 10.825 from step 41 on, as a trainer writes nan"):
        read_log({"step": ROWS, "loss": losses, "loss_scale": 2.0 ** (16 - ROWS // 3), "acc": (ROWS < 41) * 0.5})


@pytest.mark.parametrize("sign", [" ± ", "±", " +/- "])
@pytest.mark.parametrize("name", ["log.csv", "log.json"])
def test_an_error_in_the_cell_of_its_value_is_its_error(name: str, sign: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"step": range(4), "acc": [f"0.{i}5{sign}0.012" for i in range(4)]})
    frame.to_csv(tmp_path / name, index=False) if name.endswith("csv") else frame.to_json(
        tmp_path / name, orient="records"
    )
    table = read_log(tmp_path / name)
    assert table["value"].tolist() == [0.05, 0.15, 0.25, 0.35]
    assert (table["hi"] - table["value"]).to_numpy() == pytest.approx(1.96 * 0.012, rel=1e-3)


def test_a_range_in_a_cell_is_text(tmp_path: Path) -> None:
    cells = pd.DataFrame(
        {"step": range(4), "loss": [3.0, 2.0, 1.5, 1.2], "pages": [f"{i} - {i + 9}" for i in range(4)]}
    )
    cells.to_csv(tmp_path / "log.csv", index=False)
    assert read_log(tmp_path / "log.csv")["quantity"].unique().tolist() == ["loss"]


@pytest.mark.parametrize("second", ["acc,step,loss", "step,loss,acc,grad_norm", "step,acc"])
def test_a_second_header_in_the_middle_is_read_as_one(second: str, tmp_path: Path) -> None:
    later = [",".join({"step": str(10 * i), "loss": "1.5", "acc": "0.9"}.get(n, "7") for n in second.split(","))
             for i in range(4, 8)]  # fmt: skip
    (tmp_path / "log.csv").write_text(
        "\n".join(["step,loss,acc", *(f"{10 * i},3,0.1" for i in range(4)), second, *later])
    )
    acc = read_log(tmp_path / "log.csv").query("quantity == 'acc'")
    assert acc["step"].tolist() == [*range(0, 80, 10)]
    assert acc["value"].tolist() == [0.1] * 4 + [0.9] * 4


def test_words_among_the_values_of_a_table_are_no_header(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("step,loss,note\n0,3,loss\n10,2,step\n20,1,loss\n30,1,none\n")
    assert read_log(tmp_path / "log.csv")["value"].tolist() == [3, 2, 1, 1]


def test_a_length_of_completions_of_which_none_ended_is_none() -> None:
    lengths = [90.2, 88.0, 0.0, 94.4, 91.0]
    names = "completions/mean_terminated_length", "completions/mean_length"
    table = read_log({"step": range(5), **dict.fromkeys(names, lengths)})
    assert [len(rows) for _, rows in table.groupby("quantity")] == [5, 4]


@pytest.mark.parametrize("column", ["model_id", "checkpoint", "Revision"])
def test_steps_are_read_from_the_names_of_checkpoints(column: str) -> None:
    with pytest.warns(UserWarning, match=rf"no column of steps: they are read from the names in '{column}'"):
        table = read_log({column: ["step1000", "step2000", "step10000"], "acc": [0.1, 0.2, 0.9]})
    assert table["step"].tolist() == [1000, 2000, 10000]


def test_names_of_several_models_are_no_steps() -> None:
    with pytest.raises(ValueError, match="there is no column of steps"):
        read_log({"model": ["small", "medium", "small-2"], "acc": [0.1, 0.2, 0.9]})
    with pytest.raises(ValueError, match="there is no column of steps"):
        read_log({"checkpoint": ["stage1-step100", "stage2-step100", "stage2-step200"], "acc": [0.1, 0.2, 0.9]})


@pytest.mark.parametrize("column", ["tokens_b", "Tokens (B)", "tokens_in_billions", "train_tokens_B"])
def test_tokens_in_billions_are_tokens(column: str) -> None:
    with pytest.warns(UserWarning, match="no column of steps: 'tokens' is taken for it"):
        table = read_log({column: [0.5, 1, 20], "acc": [0.1, 0.2, 0.9]})
    assert table["step"].tolist() == [500_000_000, 1_000_000_000, 20_000_000_000]
