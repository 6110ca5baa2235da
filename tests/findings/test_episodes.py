"""Episodes beside transitions: each is found where it was planted, and none where nothing happened."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise import answer
from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._episodes import ASKED, EpisodeKind, beside, episodes_of, levels_of, power_of
from stagewise.findings.scores import followed, of_whole_model
from stagewise.findings.stages import find_stages
from stagewise.table import tidy

STEPS = np.arange(0, 10_000, 50)


def decay(seed: int = 0, noise: float = 0.02) -> np.ndarray:
    return 2 + 3 * np.exp(-STEPS / 1500) + noise * np.random.default_rng(seed).standard_normal(len(STEPS))


def rise(middle: float, seed: int) -> Any:
    u = np.log1p(STEPS)
    noise = 0.01 * np.random.default_rng(seed).standard_normal(len(STEPS))
    return 1 / (1 + np.exp(-(u - np.log(middle)) / 0.1)) + noise


def found(**columns: Any) -> list[dict[str, Any]]:
    frame = episodes_of(followed(read_log({"step": STEPS, **columns})))
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


@pytest.mark.parametrize("height", [1.0, 3.0])
def test_a_spike_has_its_peak_and_the_step_by_which_it_is_over(height: float) -> None:
    loss = decay()
    loss[80:83] += height * np.array([1, 0.6, 0.3])
    (spike,) = found(loss=loss)
    assert (spike["kind"], spike["start"], spike["end"]) == (EpisodeKind.SPIKE, STEPS[80], STEPS[83])
    assert spike["after"] - spike["before"] == pytest.approx(height, abs=0.1)


def test_a_loss_that_is_away_while_heads_change_is_no_spike() -> None:
    loss = decay()
    loss[80:83] += 2
    table = read_log({"step": STEPS, "loss": loss})
    of = {"probe": ["Logged"] * 2, "quantity": ["loss"] * 2, "t50": [STEPS[79], STEPS[83]]}
    spikes = episodes_of(followed(table))
    found = [beside(spikes, pd.DataFrame({**of, "starts_stage": stages})) for stages in ([2, 2], [2, 3])]
    assert [len(each) for each in found] == [0, 1]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("over", [4, 12])
def test_a_spike_is_told_once_however_long_it_takes_to_recover(over: int) -> None:
    loss = decay()
    loss[80:] += 0.8 * np.exp(-np.arange(len(STEPS) - 80) / over)
    stages = find_stages(read_log({"step": STEPS, "loss": loss}))
    (spike,) = stages.episodes.to_dict("records")
    assert (spike["kind"], spike["start"]) == (EpisodeKind.SPIKE, STEPS[80])
    assert len(stages) == 1
    told = find_stages(read_log({"step": STEPS, "loss": loss, "accuracy": rise(4000, 3)}))
    assert len(told) == 2


def test_overfitting_is_that_held_out_and_training_data_part() -> None:
    turns = np.clip(STEPS - 4000, 0, None) * 1e-4
    (one,) = found(train_loss=decay(), val_loss=decay(1) + turns)
    assert (one["kind"], one["quantity"], one["beside"]) == (EpisodeKind.OVERFITS, "val_loss", "train_loss")
    assert 3000 < one["start"] < 5500
    (same,) = found(loss=decay(2), train_loss=decay(), val_loss=decay(1) + turns)
    assert same["beside"] == "train_loss"
    assert found(train_loss=decay() + turns, val_loss=decay(1) + turns) == []


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ["held_loss", "held_out_loss", "heldout/loss", "eval_loss"])
def test_a_held_out_loss_is_known_by_its_name(name: str) -> None:
    turns = np.clip(STEPS - 4000, 0, None) * 1e-4
    (one,) = found(**{"train_loss": decay(), name: decay(1) + turns})
    assert (one["kind"], one["beside"]) == (EpisodeKind.OVERFITS, "train_loss")
    (alone,) = found(**{name: decay(1) + turns})
    assert (alone["kind"], alone["beside"], alone["start"]) == (EpisodeKind.OVERFITS, "", one["start"])


def test_the_minimum_of_a_held_out_loss_is_its_lowest_checkpoint_even_the_second() -> None:
    losses = np.append(6.2, np.linspace(2.0, 4.4, 30))
    table = read_log({"step": 400 * np.arange(31), "eval_loss": losses})
    (one,) = episodes_of(followed(table)).to_dict("records")
    assert (one["start"], one["before"]) == (400, 2.0)
    (told,) = (line for line in answer(find_stages(table)) if "minimum" in line)
    assert told == "Eval_loss has its minimum at step 400, and rises from 2.00 to 4.32: as in overfitting."


def test_a_loss_that_only_falls_and_a_score_that_turns_have_no_minimum_to_tell() -> None:
    assert found(val_loss=decay(1)) == []
    assert found(val_score=decay(1) + np.clip(STEPS - 4000, 0, None) * 1e-4) == []


def collapses(number: int, *, last: bool) -> tuple[np.ndarray, list[int]]:
    """Return an accuracy that is learned at step 1000, and lost at so many rows, if asked at the last one too."""
    accuracy = np.where(STEPS > 1000, 0.98, 0.1) + 0.004 * np.random.default_rng(0).standard_normal(len(STEPS))
    rows = [*range(40, 190, 150 // number)][:number]
    accuracy[rows] = 0.5
    accuracy[-1] = 0.5 if last else accuracy[-1]
    return accuracy, rows


@pytest.mark.parametrize("number", [5, 30])
def test_many_collapses_do_not_hide_one_another_and_are_counted(number: int) -> None:
    accuracy, rows = collapses(number, last=False)
    told = found(accuracy=accuracy)
    assert [one["start"] for one in told] == [STEPS[row] for row in rows]
    (line,) = (
        line for line in answer(find_stages(read_log({"step": STEPS, "accuracy": accuracy}))) if "not st" in line
    )
    assert line.startswith(f"Accuracy has {number} collapses, from 0.98 to 0.50, from step {STEPS[rows[0]]} to")


def test_the_level_at_the_end_is_that_of_the_plateau_if_the_last_row_is_one_collapse_more() -> None:
    accuracy, rows = collapses(6, last=True)
    stages = find_stages(read_log({"step": STEPS, "accuracy": accuracy}))
    assert stages.episodes["start"].tolist() == [*STEPS[rows], STEPS[-1]]
    assert np.isnan(stages.episodes["end"].iloc[-1])
    assert stages.levels["after"].iloc[-1] == pytest.approx(0.98, abs=0.02)
    assert any("7 collapses" in line and "the last not over at the end" in line for line in answer(stages))


def test_a_last_row_that_falls_without_any_before_it_is_a_level_and_no_collapse() -> None:
    accuracy = np.where(STEPS > 1000, 0.98, 0.1)
    accuracy[-1] = 0.5
    stages = find_stages(read_log({"step": STEPS, "accuracy": accuracy}))
    assert stages.episodes.empty
    assert stages.levels["after"].iloc[-1] == 0.5


def test_a_test_that_follows_long_after_training_is_grokking() -> None:
    (one,) = found(train_acc=rise(300, 0), test_acc=rise(4000, 1))
    assert (one["kind"], one["quantity"]) == (EpisodeKind.GROKS, "test_acc")
    assert (one["start"], one["end"]) == (pytest.approx(300, rel=0.1), pytest.approx(4000, rel=0.1))
    assert found(train_acc=rise(300, 0), test_acc=rise(500, 1)) == []


def test_a_held_out_loss_that_is_first_evaluated_late_is_no_grokking() -> None:
    fall = 2 + 3 * (1 + STEPS / 300) ** -0.6
    frame = pd.DataFrame({"step": STEPS, "train_loss": fall, "val_loss": np.where(STEPS < 1000, np.nan, fall + 0.05)})
    told = find_stages(read_log(frame)).episodes
    assert EpisodeKind.GROKS not in set(told["kind"])


def test_an_accuracy_that_is_high_in_most_of_the_run_still_rose_and_its_falls_are_collapses() -> None:
    early = np.where(STEPS[1] < STEPS, 1.0, 0.01)
    late = np.where(STEPS > 500, 1.0, 0.02)
    late[60] = 0.4
    told = found(train_accuracy=early, test_accuracy=late)
    assert {(one["kind"], one["quantity"]) for one in told} == {("spike", "test_accuracy"), ("groks", "test_accuracy")}
    assert np.isfinite([one["end"] for one in told]).all()


def test_losses_that_rise_one_after_the_other_are_no_grokking() -> None:
    told = found(train_loss=3 + rise(300, 0), test_loss=3 + rise(4000, 1))
    assert EpisodeKind.GROKS not in [one["kind"] for one in told]


def test_a_curve_that_ends_in_nan_diverges_and_is_searched_up_to_there() -> None:
    table = read_log({"step": STEPS, "accuracy": rise(1000, 0)})
    table.loc[table["step"] >= 6000, "value"] = np.nan
    stages = find_stages(table)
    assert len(stages) == 2
    (one,) = stages.episodes.to_dict("records")
    assert (one["kind"], one["start"]) == (EpisodeKind.DIVERGES, 6000)
    assert "Accuracy is not finite from step 6000 on." in answer(stages)


def test_a_perplexity_diverges_from_a_perplexity() -> None:
    (one,) = found(perplexity=np.where(STEPS < 6000, 20.0, np.nan))
    assert (one["kind"], one["before"]) == (EpisodeKind.DIVERGES, pytest.approx(20))


@pytest.mark.one_of(5)
@pytest.mark.parametrize("seed", range(5))
def test_noise_has_no_episodes(seed: int) -> None:
    heavy = 0.03 * np.random.default_rng(seed).standard_t(5, len(STEPS))
    assert found(train_loss=decay(seed), val_loss=decay(seed + 9) + 0.1, accuracy=heavy) == []


def test_a_norm_that_is_noisy_while_the_rate_warms_up_has_no_spikes_there() -> None:
    steps, g = np.arange(400), np.random.default_rng(0)
    norm = 0.3 + 0.7 * np.exp(-steps / 50) + np.where(steps < 60, 0.08, 0.004) * g.standard_normal(400)
    assert episodes_of(followed(read_log({"step": steps, "norm": norm}))).empty
    norm[[30, 300]] += 2
    assert episodes_of(followed(read_log({"step": steps, "norm": norm})))["start"].tolist() == [30, 300]


def test_between_checkpoints_far_apart_nothing_is_a_spike() -> None:
    steps = [0, *(2**k for k in range(14))]
    values = np.linspace(3, 1, 15) + np.where(np.arange(15) == 9, 2, 0)
    assert episodes_of(followed(read_log({"step": steps, "loss": values}))).empty


WHOLE_MODEL_STEPS = np.arange(0, 2000, 20)
JUMP = 1 / (1 + np.exp(-(WHOLE_MODEL_STEPS - 800) / 30.0))


def test_levels_are_those_that_a_reader_finds_on_the_curve() -> None:
    noisy = 0.1 + 0.8 * JUMP + 0.01 * np.random.default_rng(0).standard_normal(len(WHOLE_MODEL_STEPS))
    before, after = find_stages(read_log({"step": WHOLE_MODEL_STEPS, "accuracy": noisy})).levels.to_dict("records")
    assert before["after"] == after["before"] == pytest.approx(0.1, abs=0.04)
    assert after["after"] == pytest.approx(0.9, abs=0.04)


def test_heads_and_curves_that_are_not_finite_have_none(one_onset: pd.DataFrame) -> None:
    assert levels_of(of_whole_model(followed(one_onset)), [0.0], 9, episodes_of([])).empty
    table = read_log({"step": WHOLE_MODEL_STEPS, "loss": JUMP})
    table.loc[5, "value"] = np.nan
    assert levels_of(of_whole_model(followed(table)), [0.0], 2000, episodes_of([])).empty


EVEN = np.arange(0, 1000, 25)
NOISE = 0.02 * np.random.default_rng(0).standard_normal((3, len(EVEN)))


def test_curves_of_the_whole_model_are_asked_and_no_more_than_pay() -> None:
    curves = {"step": EVEN, "loss": 2 + NOISE[0], "accuracy": 0.5 + NOISE[1], "perplexity": 9 + NOISE[2]}
    power = power_of(followed(read_log(curves)))
    assert len(power) == ASKED
    assert (power["size"] > 0.02).all()


def test_without_such_the_head_is_asked_that_moved_most() -> None:
    heads = [
        pd.DataFrame({"step": EVEN, "value": 0.1 + size * EVEN / 1000 + NOISE[head]}).assign(layer=0, head=head)
        for head, size in enumerate((0.1, 0.4))
    ]
    table = tidy([pd.concat(heads).assign(run="r", probe="AttentionTo", quantity="along", relation="self")])
    assert power_of(followed(table))[["probe", "quantity"]].to_dict("records") == [
        {"probe": "AttentionTo", "quantity": "along"}
    ]


@pytest.mark.parametrize("jump", [0.0, 0.6])
def test_it_is_asked_only_where_nothing_was_found(jump: float) -> None:
    values = 0.2 + jump / (1 + np.exp(-(EVEN - 400) / 20)) + NOISE[0]
    stages = find_stages(read_log({"step": EVEN, "accuracy": values}))
    assert len(stages.power) == (jump == 0)
