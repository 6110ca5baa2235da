"""The paper's WikiText model in training: its steps, and that a killed run resumes as if it had not been."""

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.checkpoints.run_folder import METRICS, checkpoint_file
from stagewise.checkpoints.series import open_series
from stagewise.papers.scan_and_snap._wikitext_model import Baseline, blocks, columns
from stagewise.papers.scan_and_snap._wikitext_training import Setting, block, train_baseline
from stagewise.papers.scan_and_snap.wikitext_hooked import baseline, hooked_weights
from stagewise.recipe import Recipe, TrainPlan
from stagewise.tasks import MarkovChain

ROWS = columns(np.arange(2 * 80) % 7, 2)
SMALL = Setting("adam", 1e-3, steps=4)


def weights(model: Baseline) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def state(model: Baseline) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def killed(model: Baseline) -> None:
    raise KeyboardInterrupt


def test_the_feed_forward_layer_has_its_own_rate_and_the_gradient_is_clipped(tmp_path: Path) -> None:
    setting = Setting("sgd", rate=5.0, ffn_rate=10.0, steps=1, dropout=0.0)
    losses, seen = train_baseline(setting, ROWS, 7, {0: weights, 1: weights}, tmp_path, progress=False)
    model = Baseline(7, dropout=0.0)
    logits, _ = model(ROWS[:35])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ROWS[1:36].flatten())
    assert losses == pytest.approx([loss.item()], abs=1e-5)
    gradients = dict(zip(seen[0], torch.autograd.grad(loss, list(model.parameters())), strict=True))
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    for name, after in seen[1].items():
        rate = (10 if name.startswith("layers.0.linear") else 5) * min(1.0, 0.5 / norm.item())
        torch.testing.assert_close(after, seen[0][name] - rate * gradients[name], atol=1e-4, rtol=1e-3)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_killed_run_goes_on_with_the_same_bits(optimiser: Literal["adam", "sgd"], tmp_path: Path) -> None:
    setting = Setting(optimiser, 1e-3, steps=5)
    whole = train_baseline(setting, ROWS, 7, {1: weights, 5: weights}, tmp_path / "a", progress=False)
    with pytest.raises(KeyboardInterrupt):
        train_baseline(setting, ROWS, 7, {1: weights, 4: killed}, tmp_path / "b", save_every=3, progress=False)
    again = train_baseline(setting, ROWS, 7, {1: weights, 5: weights}, tmp_path / "b", progress=False)
    assert again.losses == whole.losses
    for step in (1, 5):
        assert all(torch.equal(again.seen[step][name], weight) for name, weight in whole.seen[step].items())


def with_checkpoints(setting: Setting, save: set[int]) -> Recipe:
    """A record that saves these steps; what it says of the task is not read in training."""
    task = MarkovChain(7, (1, 1), length=4)
    return Recipe(task, baseline(7), TrainPlan(steps=setting.steps, save=save))


def test_checkpoints_change_no_bit_of_a_run_and_hold_its_weights(tmp_path: Path) -> None:
    setting, looks = Setting("sgd", 1.0, steps=4, dropout=0.3), {0: state, 3: state, 4: state}
    plain = train_baseline(setting, ROWS, 7, looks, tmp_path / "plain", progress=False)
    recipe = with_checkpoints(setting, {3})
    saved = train_baseline(setting, ROWS, 7, looks, tmp_path / "saved", recipe=recipe, progress=False)
    assert saved.losses == plain.losses
    series = open_series(tmp_path / "saved")
    assert series.steps == (0, 3, 4)
    for step, weights_then in series:
        expected = hooked_weights(plain.seen[step])
        assert weights_then.keys() == expected.keys()
        assert all(torch.equal(weights_then[name], weight) for name, weight in expected.items())
    assert not (tmp_path / "plain" / "checkpoints").exists()


def test_a_killed_run_with_checkpoints_resumes_with_the_same_files(tmp_path: Path) -> None:
    setting = Setting("adam", 1e-3, steps=5)
    recipe = with_checkpoints(setting, {2, 4})
    train_baseline(setting, ROWS, 7, {}, tmp_path / "a", recipe=recipe, progress=False)
    with pytest.raises(KeyboardInterrupt):
        train_baseline(setting, ROWS, 7, {3: killed}, tmp_path / "b", recipe=recipe, progress=False)
    assert open_series(tmp_path / "b").steps == (0, 2)
    train_baseline(setting, ROWS, 7, {}, tmp_path / "b", recipe=recipe, progress=False)
    for step in (0, 2, 4, 5):
        assert checkpoint_file(tmp_path / "a", step).read_bytes() == checkpoint_file(tmp_path / "b", step).read_bytes()
    one, other = (pd.read_parquet(tmp_path / name / METRICS) for name in "ab")
    pd.testing.assert_frame_equal(one, other)
    assert one["step"].tolist() == [0, 1, 2, 3, 4]


def test_a_run_without_its_checkpoints_starts_over_and_gives_the_same(tmp_path: Path) -> None:
    recipe = with_checkpoints(SMALL, {2})
    plain = train_baseline(SMALL, ROWS, 7, {}, tmp_path, progress=False)  # as an earlier version did
    assert train_baseline(SMALL, ROWS, 7, {}, tmp_path, recipe=recipe, progress=False).losses == plain.losses
    before = checkpoint_file(tmp_path, 2).read_bytes()
    checkpoint_file(tmp_path, 2).unlink()
    assert train_baseline(SMALL, ROWS, 7, {}, tmp_path, recipe=recipe, progress=False).losses == plain.losses
    assert checkpoint_file(tmp_path, 2).read_bytes() == before
    with pytest.raises(ValueError, match=r"plan\.save: .* requested"):
        train_baseline(SMALL, ROWS, 7, {}, tmp_path, recipe=with_checkpoints(SMALL, {1}), progress=False)


def test_a_run_that_goes_on_does_not_start_over(tmp_path: Path) -> None:
    train_baseline(SMALL, ROWS, 7, {4: weights}, tmp_path, progress=False)
    again = train_baseline(SMALL, ROWS, 7, {0: killed, 4: killed}, tmp_path, progress=False)
    assert set(again.seen) == {4}


def test_dropout_repeats_by_seed_and_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    runs = [
        train_baseline(Setting("sgd", 1.0, steps=2, seed=seed), ROWS, 7, {}, tmp_path / name, progress=False).losses
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert runs[0] == runs[1] != runs[2]
    assert torch.equal(torch.get_rng_state(), state)


def test_blocks_come_in_order_and_again_from_the_start() -> None:
    one_pass = list(blocks(ROWS))
    for step in range(2 * len(one_pass)):
        for found, expected in zip(block(ROWS, step), one_pass[step % len(one_pass)], strict=True):
            assert torch.equal(found, expected)


def test_a_folder_of_other_settings_or_another_text_is_refused(tmp_path: Path) -> None:
    train_baseline(SMALL, ROWS, 7, {}, tmp_path, progress=False)
    with pytest.raises(ValueError, match=r"rate: 0\.002 requested, 0\.001 on disk"):
        train_baseline(Setting("adam", 2e-3, steps=4), ROWS, 7, {}, tmp_path, progress=False)
    with pytest.raises(ValueError, match=r"text: .* requested"):
        train_baseline(SMALL, ROWS.flip(0), 7, {}, tmp_path, progress=False)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"steps and layers must be at least 1 .* got steps=0"):
        Setting("sgd", 1.0, steps=0)
