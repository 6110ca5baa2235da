"""Long logs are averaged, and their onsets are kept."""

import warnings

import numpy as np
import pytest

from stagewise import answer, find_stages
from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.onsets import find_onsets


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
