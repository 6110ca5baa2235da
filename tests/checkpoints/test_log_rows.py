"""Several runs in one log, and steps that are all the same, are told with the way out; long logs keep their onsets."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise import answer, find_stages, read_log
from stagewise.findings.onsets import find_onsets


def _lines(number: int, first: int = 0) -> list[str]:
    return [f"step {10 * i} loss {3 - 0.04 * i:.3f}" for i in range(first, number)]


def test_two_runs_in_a_text_are_told_with_their_lines_of_which_each_is_read(tmp_path: Path) -> None:
    lines = ["run A", *_lines(50), "", "run B, again", *_lines(40)]
    both = tmp_path / "both.log"
    both.write_text("\n".join(lines), encoding="utf8")
    message = r"as of 2 runs: lines 2 to 51 and 54 to 93. Take one, as by `sed -n 54,93p FILE`"
    with pytest.warns(UserWarning, match="the step is"), pytest.raises(ValueError, match=message):
        read_log(both)
    one = tmp_path / "one.log"
    one.write_text("\n".join(lines[53:93]), encoding="utf8")
    with pytest.warns(UserWarning, match="the step is"):
        assert read_log(one)["step"].tolist() == list(range(0, 400, 10))


def test_runs_below_one_another_in_a_table_are_told_with_their_rows() -> None:
    frame = pd.DataFrame({"step": [*range(30)] * 3, "loss": np.linspace(3, 1, 90)})
    with pytest.raises(ValueError, match=r"3 runs: rows 0 to 29 and 30 to 59 and 60 to 89. .*`frame\[60:90\]`"):
        read_log(frame)
    assert read_log(frame[60:90])["step"].tolist() == [*range(30)]


def test_a_run_that_goes_on_from_an_earlier_step_is_one(tmp_path: Path) -> None:
    text = tmp_path / "resumed.log"
    text.write_text("\n".join([*_lines(50), "restored", *_lines(80, first=40)]), encoding="utf8")
    with (
        pytest.warns(UserWarning, match="the step is"),
        pytest.warns(UserWarning, match="logged again from step 400 on"),
    ):
        table = read_log(text)
    assert table["step"].tolist() == list(range(0, 800, 10))


def test_steps_that_are_all_the_same_can_be_the_rows_or_another_column() -> None:
    frame = pd.DataFrame({"step": 0, "time": np.arange(1000, 1400, 10), "loss": np.linspace(3, 1, 40)})
    with pytest.raises(ValueError, match=r"all 40 values of loss are at step 0: .*--step-column.*'rows' counts"):
        read_log(frame)
    assert read_log(frame, steps="rows")["step"].tolist() == [*range(40)]
    assert read_log(frame, steps="time")["step"].tolist() == frame["time"].tolist()


def test_a_column_called_rows_is_the_steps_where_it_is_named() -> None:
    frame = pd.DataFrame({"rows": np.arange(0, 80, 2), "loss": np.linspace(3, 1, 40)})
    assert read_log(frame, steps="rows")["step"].tolist() == frame["rows"].tolist()


@pytest.mark.one_of(2)
@pytest.mark.parametrize("at", [100, 40_000])
def test_a_log_of_every_step_is_averaged_and_keeps_its_onset(at: int) -> None:
    steps = np.arange(50_000)
    falls = 3 - 2 / (1 + np.exp(-(np.log1p(steps) - np.log1p(at)) / 0.1))
    noise = 0.1 * np.random.default_rng(0).standard_normal(len(steps))
    table = read_log({"step": steps, "loss": falls + noise})
    assert len(table) <= 400
    assert table["step"].is_unique
    assert np.abs(table["value"].to_numpy() - falls[table["step"].to_numpy()]).max() < 0.1
    (onset,) = find_onsets(table).to_dict("records")
    assert onset["onset"]
    assert abs(np.log1p(onset["t50"]) - np.log1p(at)) < 0.05


@pytest.mark.one_of(2)
@pytest.mark.parametrize("length", [10_000, 1_000_000])
@pytest.mark.parametrize(("at", "width"), [(406, 20), (5103, 2)])
def test_a_jump_is_found_where_it_is_however_long_the_log_goes_on(length: int, at: int, width: int) -> None:
    steps = np.arange(length)
    loss = 3 - np.tanh((steps - at) / (2 * width)) + 0.05 * np.random.default_rng(0).standard_normal(length)
    table = read_log({"step": steps, "loss": loss})
    assert len(table) <= 500
    (onset,) = find_onsets(table).to_dict("records")
    assert onset["onset"]
    assert onset["t50_lo"] <= at <= onset["t50_hi"]
    assert onset["t50_hi"] - onset["t50_lo"] < 0.1 * at


def test_noise_that_was_averaged_is_no_onset() -> None:
    noise = 0.1 * np.random.default_rng(0).standard_normal((6, 50_000))
    table = read_log({"step": np.arange(50_000), **{f"loss {i}": 3 + each for i, each in enumerate(noise)}})
    assert not find_onsets(table)["onset"].any()


@pytest.mark.parametrize("length", [401, 2000, 12_345])
def test_a_log_of_every_step_ends_at_its_own_last_step_without_a_warning(length: int) -> None:
    steps = np.arange(1, length + 1)
    loss = 2 + np.exp(-steps / 300) + 0.01 * np.random.default_rng(0).standard_normal(length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_log({"step": steps, "loss": loss})
    assert table["step"].iloc[-1] == length
    assert table["step"].is_monotonic_increasing


@pytest.mark.one_of(2)
@pytest.mark.parametrize("at", [600, 603])
def test_a_drop_of_the_rate_in_a_log_of_every_step_explains_the_fall_at_that_step(at: int) -> None:
    steps = np.arange(1, 1001)
    fall = np.where(steps >= at, 0.4 * (1 - np.exp(-(steps - at) / 8)), 0)
    loss = 1.8 + 2.2 * (1 + steps / 60) ** -0.5 - fall + 0.02 * np.random.default_rng(0).standard_normal(1000)
    with_rate = find_stages(read_log({"step": steps, "loss": loss, "lr": np.where(steps < at, 1e-3, 1e-4)}))
    assert (with_rate.causes, len(with_rate)) == ({"the learning rate's drop to 0.0001": round(at - 0.5)}, 1)
    assert not any("Done to the run, without a transition" in line for line in answer(with_rate))
    elsewhere = find_stages(read_log({"step": steps, "loss": loss, "lr": np.where(steps < 300, 1e-3, 1e-4)}))
    assert len(elsewhere) == 2  # a drop at another step explains nothing
