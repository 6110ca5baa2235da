"""Tables and JSON in text as tools write them: encodings, separators, names, decimals; the curves are the same."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise import read_log

STEPS = [0, 500, *range(1000, 20_000, 1000)]
LOSS = [round(4 - 3 / (1 + np.exp(-(step - 9000) / 900)), 3) for step in STEPS]
LOG = pd.DataFrame({"step": STEPS, "loss": LOSS})


def csv(**how: object) -> bytes:
    """What pandas writes of the log."""
    return LOG.to_csv(index=False, **how).encode()  # type: ignore[call-overload, no-any-return]


def savetxt(**how: str) -> bytes:
    """What NumPy writes of the log."""
    file = io.BytesIO()
    np.savetxt(file, LOG.to_numpy(), **how)
    return file.getvalue()


def german(step: int, loss: float) -> str:
    """A row as a spreadsheet in German saves it."""
    return f"{step:,};{loss}".translate({ord(","): ".", ord("."): ","})


WRITTEN: dict[str, tuple[str, bytes]] = {
    "UTF-16, of Excel": ("log.csv", LOG.to_csv(index=False).encode("utf-16")),
    "UTF-16, of PowerShell": ("log.txt", "".join(f"step {s} loss {v}\r\n" for s, v in LOG.values).encode("utf-16")),
    "Latin-1 beside numbers": ("log.csv", LOG.assign(note="é").to_csv(index=False).encode("latin-1")),
    "units in brackets": ("log.csv", csv(header=["Step [#]", "loss"])),
    "units in a row": ("log.csv", csv().replace(b"step,loss\n", b"step,loss\n#,nats\n")),
    "names again, after a stop": ("log.csv", csv().replace(b"\n9000,", b"\nstep,loss\n9000,")),
    "a comment of percents": ("log.csv", b"% lr 0.1\n" + csv()),
    "spaces": ("log.csv", csv(sep=" ")),
    "a frame as it is printed": ("log.txt", LOG.to_string(index=False).encode()),
    "bars": ("log.csv", csv(sep="|")),
    "savetxt": ("log.txt", savetxt(header="step loss")),
    "savetxt, commas": ("log.csv", savetxt(header="step,loss", delimiter=",")),
    "German": ("log.csv", "\n".join(["step;loss", *(german(int(s), v) for s, v in LOG.values)]).encode()),
    "decimal commas behind whole numbers": ("log.csv", csv(sep=";", decimal=",", float_format="%.3f")),
    "thousands between tabs": (
        "log.tsv",
        "\n".join(["step\tloss", *(f"{int(s):,}\t{v}" for s, v in LOG.values)]).encode(),
    ),
    "numbers as text in JSON": ("log.jsonl", LOG.astype(str).to_json(orient="records", lines=True).encode()),
    "TensorBoard's download": ("log.json", json.dumps([[1.7e9 + s, int(s), v] for s, v in LOG.values]).encode()),
    "a history beside settings": (
        "log.json",
        json.dumps({"history": LOG.to_dict("records"), "args": {"lr": 0.1}}).encode(),
    ),
    "columns beside settings": ("log.json", json.dumps({**LOG.to_dict("list"), "args": {"lr": 0.1}}).encode()),
    "rows by their steps": ("log.json", LOG.set_index("step").to_json(orient="index").encode()),
}
"""A file of the log -> its name, and what is in it."""


@pytest.mark.filterwarnings("ignore:log.txt. the step is")
@pytest.mark.parametrize("way", WRITTEN)
def test_a_log_is_read_however_it_is_written(way: str, tmp_path: Path) -> None:
    name, content = WRITTEN[way]
    (tmp_path / name).write_bytes(content)
    table = read_log(tmp_path / name)
    assert table["step"].tolist() == STEPS
    np.testing.assert_allclose(table["value"], LOSS, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "write", "reason"),
    [
        ("log.feather", LOG.to_feather, "log.feather is no text: save its columns of steps and values as .csv"),
        ("log.npz", lambda path: np.savez(path, **LOG), "log.npz is no text"),
        ("log.csv.gz", LOG.to_csv, "log.csv.gz is no text"),
        ("log.csv", lambda path: LOG.to_csv(path, header=False, index=False), "its first line holds numbers: write"),
        ("log.csv", lambda path: LOG[:0].to_csv(path, index=False), "there are no rows of numbers yet; the columns"),
        ("log.csv", lambda path: path.write_text(""), "No columns to parse"),
    ],
)
def test_what_holds_no_such_columns_is_refused_with_what_to_do(
    name: str, write: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    write(tmp_path / name)
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_log(tmp_path / name)


def test_a_last_line_that_is_cut_off_is_left_out_and_named(tmp_path: Path) -> None:
    text = LOG.to_json(orient="records", lines=True)
    (tmp_path / "log.jsonl").write_text(text[:-10])
    with pytest.warns(UserWarning, match=r"the last line is cut off, and left out: '\{\"step\":19000"):
        assert read_log(tmp_path / "log.jsonl")["step"].tolist() == STEPS[:-1]
    (tmp_path / "log.jsonl").write_text(text[10:])
    with pytest.raises(ValueError, match="holds no columns of curves that can be read"):
        read_log(tmp_path / "log.jsonl")


@pytest.mark.parametrize("values", [False, True], ids=["columns", "a row a value"])
def test_rows_on_other_data_are_other_curves(values: bool, tmp_path: Path) -> None:
    both = pd.concat([LOG.assign(split="train"), LOG[::5].assign(split="val", loss=9.0)]).sort_values("step")
    if values:
        both = both.melt(["step", "split"], var_name="metric")
    both.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    curves = {name: rows["value"].tolist() for name, rows in read_log(tmp_path / "log.jsonl").groupby("quantity")}
    assert curves == {"train/loss": LOSS, "val/loss": [9.0] * len(LOG[::5])}


def test_phases_that_follow_each_other_are_one_curve() -> None:
    phases = ["warmup" if step < 9000 else "main" for step in STEPS]
    assert read_log(LOG.assign(phase=phases))["quantity"].unique().tolist() == ["loss"]


def test_steps_that_begin_anew_in_each_epoch_are_no_resumed_run() -> None:
    anew = pd.concat([LOG.iloc[:1], *(LOG.iloc[1:] for _ in range(3))]).assign(epoch=[0, *sorted([0, 1, 2] * 20)])
    with pytest.raises(ValueError, match="the steps in 'step' begin anew in each epoch"):
        read_log(anew)
