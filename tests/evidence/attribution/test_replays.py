"""Replays with weighted samples: without a change they are the run, resumed they are the same, and halves are pairs."""

import numpy as np
import pytest
import torch

from evidence.attribution import predicted
from evidence.attribution.replays import Draw, Replayer, place_of, replay_all, weights_of
from evidence.attribution.windows import Window
from stagewise import models
from stagewise.checkpoints.series import open_series
from stagewise.measurement.probe_batch import load_batch
from stagewise.papers.samples import attention_score
from stagewise.training import train
from tests.fixtures.two_lags import TWO_LAGS

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Window:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(TWO_LAGS, folder, progress=False)
    return Window(folder, (0, 0), "near", 28, 48, 20)


@pytest.fixture(autouse=True)
def own_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.attribution.windows.recipe_at", lambda folder: TWO_LAGS)


def test_weights_of_one_give_the_run(window: Window) -> None:
    replayer = Replayer(window)
    curves = replayer.curves(torch.ones(window.length, replayer.size))
    assert curves.shape == (2, len(replayer.steps)) == (2, 9)
    model, batch = replayer.training.model, load_batch(TWO_LAGS, window.folder)
    series = open_series(window.folder, classes=[type(TWO_LAGS.architecture.init)])
    for column, step in enumerate(replayer.steps):
        if step in series.steps:
            models.load(model, series.weights(step))
            expected = attention_score(model, batch, (0, 0), "near").item()
            assert curves[replayer.row, column] == pytest.approx(expected, abs=1e-4)


def test_what_is_on_disk_is_not_replayed_and_gives_the_same_curves(window: Window) -> None:
    draws: list[Draw] = [(number, 0.5, False) for number in range(4)]
    whole = replay_all(window, draws, workers=1)
    kept = [place_of(window, draw).stat().st_mtime_ns for draw in draws]
    place_of(window, draws[2]).unlink()
    np.testing.assert_array_equal(replay_all(window, draws, workers=1), whole)
    again = [place_of(window, draw).stat().st_mtime_ns for draw in draws]
    assert [one == other for one, other in zip(kept, again, strict=True)] == [True, True, False, True]


def test_a_draw_and_its_complement_count_every_sample_twice_together() -> None:
    first, second, other = (weights_of((6, 50), number, 1.0) for number in (0, 1, 2))
    torch.testing.assert_close(first + second, torch.full((6, 50), 2.0))
    assert first.unique().tolist() == [0, 2]
    assert not first.equal(other)


def test_small_changes_of_weights_move_attention_as_the_derivatives_say(window: Window) -> None:
    replayer, effects = Replayer(window), predicted.exact(window)
    column = replayer.steps.index(window.stop)
    changes, expected = [], []
    for number in range(2):
        weights = weights_of((window.length, replayer.size), number, 0.05)
        changes.append(replayer.curves(weights)[replayer.row, column])
        expected.append(float((effects * (weights - 1)).sum()))
    assert changes[0] - changes[1] == pytest.approx(expected[0] - expected[1], rel=0.1)


def test_each_method_says_something_of_every_sample(window: Window) -> None:
    shape = (window.length, TWO_LAGS.plan.batch_size)
    found = {name: method(window) for name, method in predicted.METHODS.items()}
    assert {name: tuple(each.shape) for name, each in found.items()} == dict.fromkeys(predicted.METHODS, shape)
    late = found["exact"][-1], found["TracIn"][-1]
    assert np.corrcoef(late[0], late[1])[0, 1] > 0.3
