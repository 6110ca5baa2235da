"""The benchmark of effects of samples: its files hold what was written, and its replays what derivatives say."""

from pathlib import Path

import numpy as np
import pytest

from evidence.attribution import benchmark
from evidence.attribution.replays import place_of, weights_of
from evidence.attribution.windows import STUDIES, Window
from stagewise.training import train
from tests.fixtures.two_lags import TWO_LAGS

LARGEST = 2 * 10**6
"""Bytes of all files."""


@pytest.mark.usefixtures("few_sequences", "unchecked")
def test_a_packed_file_holds_the_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.attribution.windows.recipe_at", lambda folder: TWO_LAGS)
    train(TWO_LAGS, tmp_path / "run", progress=False)
    window = Window(tmp_path / "run", (0, 0), "near", 28, 48, 20)
    effects = np.random.default_rng(0).normal(size=(20, TWO_LAGS.plan.batch_size))
    benchmark.pack(window, "small", 4, 0.25, effects, tmp_path)
    replays = benchmark.load("small", 0.25, tmp_path)
    np.testing.assert_allclose(replays.derivatives, effects, rtol=1e-6)
    for draw in range(4):
        np.testing.assert_array_equal(replays.weights[draw], weights_of(effects.shape, draw, 0.25))
        curves = np.load(place_of(window, (draw, 0.25, False)))
        column = replays.names.index(replays.head)
        assert replays.target[draw] == curves[column, curves.shape[1] // 2]


@pytest.mark.parametrize("task", STUDIES)
def test_derivatives_rank_small_changes_of_weights_and_noise_does_not(task: str) -> None:
    replays = benchmark.load(task, 0.1)
    np.testing.assert_allclose(replays.weights.mean(-1), 1)
    found, _ = benchmark.rank(replays.derivatives, replays)
    noise, _ = benchmark.rank(np.random.default_rng(0).normal(size=replays.derivatives.shape), replays)
    assert found.lo > noise.value
    with pytest.raises(ValueError, match="one effect a step and sample"):
        benchmark.rank(replays.derivatives[1:], replays)


def test_the_files_are_small() -> None:
    files = list(benchmark.FOLDER.glob("*.npz"))
    assert {file.stem for file in files} == {f"{task}-{size}" for task in STUDIES for size in ("1", "0.1")}
    assert sum(file.stat().st_size for file in files) < LARGEST
