"""Figure 7 on a small text: what it writes, and that its SGD takes the notebook's steps."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.experiments.scan_and_snap_text import draw_maps, figure_7, sgd
from stagewise.experiments.wikitext_baseline import Baseline, columns


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text")
    words = np.random.default_rng(0).choice(list("abcdefgh"), size=20 * 3600)
    for name in ("train", "valid", "test"):
        (path / f"{name}.txt").write_text(" ".join(words) + "\n", encoding="utf8")
    return str(path)


def test_it_writes_the_maps_and_what_they_say(folder: str, tmp_path: Path) -> None:
    printed = figure_7(tmp_path, data=folder, steps=6, progress=False)
    table = pd.read_csv(tmp_path / "probe.csv")
    assert table["step"].tolist() == [0, 2, 4, 6]
    assert "entropy" in printed
    saved = np.load(tmp_path / "maps.npz")
    maps = dict(zip(saved["steps"].tolist(), saved["attention"], strict=True))
    for step, entropy, largest in table[["step", "entropy", "largest"]].itertuples(index=False):
        attention = maps[int(step)]
        np.testing.assert_allclose(attention.sum(1), 1, atol=1e-5)
        rows = [-sum(p * np.log(p) for p in row if p > 0) for row in attention]
        assert np.mean(rows) == pytest.approx(entropy, abs=1e-4)
        assert attention.max(1).mean() == pytest.approx(largest, abs=1e-5)
    assert (tmp_path / "figure_7.png").stat().st_size > 0


def test_the_feed_forward_layer_has_twice_the_rate_and_the_gradient_is_clipped() -> None:
    rows = columns(np.arange(2 * 40) % 7, 2)
    model = Baseline(7, dropout=0.0)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    (words, targets), first = (rows[:35], rows[1:36]), next(steps := sgd(model, rows, 1))
    logits, _ = model(words)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    assert first == pytest.approx(loss.item(), abs=1e-5)
    gradients = dict(zip(before, torch.autograd.grad(loss, list(model.parameters())), strict=True))
    assert next(steps) is None
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    for name, parameter in model.named_parameters():
        rate = (10 if name.startswith("layers.0.linear") else 5) * min(1.0, 0.5 / norm.item())
        torch.testing.assert_close(parameter.detach(), before[name] - rate * gradients[name], atol=1e-4, rtol=1e-3)


def test_dropout_repeats_by_seed_and_leaves_the_global_generator_alone() -> None:
    rows = columns(np.arange(2 * 80) % 7, 2)
    state = torch.get_rng_state()
    runs = [list(sgd(Baseline(7, dropout=0.3), rows, 3, seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_map_is_drawn_for_every_moment() -> None:
    figure = draw_maps({0: np.eye(3), 5: np.eye(3)})
    assert [ax.get_title(loc="left") for ax in figure.axes[:2]] == ["minibatch 0", "minibatch 5"]


def test_fewer_than_three_minibatches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 3, got 2"):
        figure_7(tmp_path, steps=2)
