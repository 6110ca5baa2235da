"""The answer: how many transitions, when, from where to where, which heads; and what is not certain."""

import re

import numpy as np
import pandas as pd
import pytest

from stagewise import answer
from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.stages import Stages, find_stages
from stagewise.table import tidy
from stagewise.words._answer import headline

STEPS = np.arange(0, 3000, 25)


def jump(at: float, seed: int = 0) -> np.ndarray:
    noise = 0.01 * np.random.default_rng(seed).standard_normal(len(STEPS))
    return 0.1 + 0.8 / (1 + np.exp(-(STEPS - at) / 40)) + noise


def with_spike() -> np.ndarray:
    curve = jump(1000)
    curve[90] = 0.1
    return curve


def test_a_transition_has_its_step_and_the_levels_before_and_after_it() -> None:
    stages = find_stages(read_log({"step": STEPS, "accuracy": jump(1000), "loss": 4 - 3 * jump(1000, 1)}))
    lead, transition, uncertain = answer(stages)
    (step,) = stages.table["start"].iloc[1:]
    assert lead == "One transition was found."
    assert transition.startswith(f"Half-way at step {step} [")
    levels = re.search(r"accuracy from (\S+) to (\S+), loss from (\S+) to (\S+)\.$", transition)
    assert levels is not None
    assert [float(level) for level in levels.groups()] == pytest.approx([0.1, 0.9, 3.7, 1.3], abs=0.1)
    assert uncertain == "This is one run."


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ["mAP", "eMMC", "val_mAP@50", "nDCG/test"])
def test_the_name_of_a_curve_stays_as_it_is_wherever_it_stands(name: str) -> None:
    _, transition, spike, _ = answer(find_stages(read_log({"step": STEPS, name: with_spike()})))
    assert f"]: {name} from 0.1" in transition
    assert spike.startswith(f"{name} goes from 0.9")
    setting, drop = name.replace("/", "_"), np.where(STEPS < 2000, 0.0, 0.3)
    explained = answer(find_stages(read_log({"step": STEPS, "loss": jump(-2000) + drop, f"{setting}_coef": drop})))
    assert explained[1].startswith(f"{setting}_coef's rise to 0.3 at step 1988 explains")


def test_a_plain_word_at_the_beginning_of_a_sentence_has_a_capital() -> None:
    assert answer(find_stages(read_log({"step": STEPS, "reward": with_spike()})))[2].startswith("Reward goes from 0.9")


def test_several_transitions_are_told_in_their_order_and_in_the_headline() -> None:
    both = 0.5 * (jump(500) + jump(2000, 1))
    stages = find_stages(read_log({"step": STEPS, "accuracy": both}))
    first, second = stages.table["start"].iloc[1:]
    assert headline(stages) == f"Two transitions, at steps {first} and {second}"
    assert answer(stages)[0] == "Two transitions were found."


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("times", "words"), [
    ((1000, 1250, 1560, 1950, 2440), "Half-way one after another, steps "),
    ((1500, 1500, 1500, 1500, 1500), "Half-way at step 1"),
])  # fmt: skip
def test_curves_that_follow_one_another_have_a_range_and_curves_at_one_time_a_step(
    times: tuple[int, ...], words: str
) -> None:
    steps, generator = np.arange(0, 10_000, 50), np.random.default_rng(0)
    rises = (1 / (1 + np.exp(-(np.log1p(steps) - np.log(time)) / 0.1)) for time in times)
    curves = {f"task_{i}": rise + 0.01 * generator.standard_normal(200) for i, rise in enumerate(rises)}
    lines = answer(find_stages(read_log({"step": steps, **curves})))
    assert lines[0] == "One transition was found."
    assert lines[1].startswith(words)


def test_a_transition_within_one_gap_is_told_by_its_ends() -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
    stages = find_stages(read_log({"step": STEPS, "accuracy": 0.1 + 0.8 * (STEPS > 1000) + noise}))
    assert headline(stages) == "One transition, steps 1000 to 1025"
    assert answer(stages)[1].startswith(
        "Between steps 1000 and 1025 (one gap: when within it, these checkpoints cannot "
    )


def test_a_jump_within_the_last_gap_is_told_by_its_ends_too() -> None:
    steps = np.arange(3000, 16001, 1000)
    accuracy = np.where(steps < 8500, 0.25, np.where(steps < 15500, 0.5, 0.8))
    accuracy += 0.01 * np.random.default_rng(1).standard_normal(len(steps))
    log = {"step": steps, "acc": accuracy, "acc_stderr": np.full(len(steps), 0.012)}
    _, first, second, _ = answer(find_stages(read_log(log)))
    assert first.startswith("Between steps 8000 and 9000 (one gap")
    assert second.startswith("Between steps 15000 and 16000 (one gap")


def test_growth_behind_a_jump_is_not_told_within_its_gap() -> None:
    steps, generator = np.arange(1000, 40_001, 1000), np.random.default_rng(0)
    grown = 0.45 + 0.3 * np.log10(np.maximum(steps, 5500) / 5500)
    accuracy = generator.binomial(2000, np.where(steps < 5500, 0.25, grown)) / 2000
    log = {"step": steps, "acc": accuracy, "acc_stderr": np.sqrt(accuracy * (1 - accuracy) / 2000)}
    line = answer(find_stages(read_log(log)))[1]
    assert line.startswith("Between steps 5000 and 6000 (one gap")
    (after,) = re.findall(r"acc from 0\.2\d to (\S+)\.$", line)
    assert float(after) == pytest.approx(0.46, abs=0.03)


def test_levels_are_without_the_noise_that_shows_in_them() -> None:
    steps = np.arange(10, 801, 10)
    for seed in range(3):
        noise = 10 * np.random.default_rng(seed).standard_normal(len(steps))
        reward = -200 + 180 / (1 + np.exp(-(steps - 300) / 8)) + noise
        line = answer(find_stages(read_log({"step": steps, "reward": reward})))[1]
        ((before, after),) = re.findall(r"reward from (\S+) to (\S+)\.$", line)
        assert [float(before), float(after)] == pytest.approx([-200, -20], abs=6)


def test_growth_after_a_jump_is_no_part_of_its_levels() -> None:
    grown = 0.1 + (0.4 + 0.35 * (STEPS - 1000) / 2000) * (STEPS > 1000)
    accuracy = grown + 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
    line = answer(find_stages(read_log({"step": STEPS, "accuracy": accuracy})))[1]
    ((before, after),) = re.findall(r"accuracy from (\S+) to (\S+)\.$", line)
    assert [float(before), float(after)] == pytest.approx([0.1, 0.5], abs=0.04)


def test_what_is_lost_is_named_beside_what_is_gained() -> None:
    log = {"step": STEPS, **{f"new_{k}": jump(1500, k) for k in range(4)}, "kept": 1 - 0.6 * jump(1500, 9)}
    line = answer(find_stages(read_log(log)))[1]
    assert re.search(r"new_\d from 0\.1\S* to 0\.9\S*, new_\d from .*, kept from 0\.9\S* to 0\.4", line)


def test_six_steps_of_one_curve_are_six_transitions() -> None:
    steps, generator = np.unique(np.geomspace(10, 100_000, 120).round()), np.random.default_rng(0)
    places = 100 * 3.0 ** np.arange(6)
    rises = 1 / (1 + np.exp(-(np.log10(steps[:, None] + 1) - np.log10(places + 1)) / 0.02))
    accuracy = generator.binomial(4000, 0.05 + 0.15 * rises.sum(1)) / 4000
    log = {"step": steps, "acc": accuracy, "acc_stderr": np.sqrt(accuracy * (1 - accuracy) / 4000)}
    lead, *each, _ = answer(find_stages(read_log(log)))
    assert lead == "Six transitions were found."
    intervals = [re.findall(r"\[(\d+), (\d+)\]", line)[0] for line in each]
    assert all(int(lo) <= at <= int(hi) for (lo, hi), at in zip(intervals, places, strict=True))


def test_what_moves_at_other_times_is_not_told_within_the_gap_of_another_curve() -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal((2, len(STEPS)))
    slow = 0.9 - 0.8 * (1 + STEPS / 300) ** -0.5 + noise[0]
    jumps = 0.1 + 0.8 * (STEPS > 1000) + noise[1]
    line = answer(find_stages(read_log({"step": STEPS, "accuracy": jumps, "other_accuracy": slow})))[1]
    assert line.startswith("Between steps 1000 and 1025 (one gap")
    assert "accuracy from 0.1" in line
    assert "other_accuracy" not in line


def test_without_a_transition_it_says_what_moved_and_what_would_have_been_seen() -> None:
    loss = 2 + 3 * (1 + STEPS / 50) ** -0.5 + 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
    lead, gradual, power = answer(find_stages(read_log({"step": STEPS, "loss": loss})))
    assert lead == "No transition was found."
    assert gradual.startswith("Gradually, or too unlike a step to be told: loss from 5.0")
    assert re.fullmatch(r"A change between two checkpoints would be seen if it were \d\S* or more in loss\.", power)


def test_what_was_done_to_the_run_is_told_once_it_was_done() -> None:
    causes = {"the drop": 2000, "the cool-down": 5000}
    table = read_log({"step": STEPS, "accuracy": jump(1000)})
    assert "Done to the run, without a transition: the drop at step 2000." in answer(find_stages(table, causes=causes))
    still = find_stages(read_log({"step": STEPS, "loss": np.full(len(STEPS), 2.0)}), causes=causes)
    assert answer(still)[2] == "Nothing moved by much."


def test_what_a_cause_explains_is_told_with_its_levels_and_not_again() -> None:
    drop, noise = np.where(STEPS < 2000, 0, 0.5), jump(-2000)
    alone, beside = (
        answer(find_stages(read_log({"step": STEPS, "loss": curve - drop}), causes={"the restart": 2000}))
        for curve in (4 - noise, 4 - jump(1000))
    )
    told = r"The restart at step 2000 explains the change of 1 curve: loss from 3\.1\d* to 2\.[56]\d*\."
    assert alone[0] == "No transition was found."
    assert re.fullmatch(told, alone[1])
    assert [line[:8] for line in alone[2:]] == ["A change"]
    assert beside[0] == "One transition was found."
    assert re.fullmatch(told, beside[2])


def test_a_spike_is_told_with_the_level_that_is_left_of_it() -> None:
    left = np.where(STEPS < 2000, 0, np.where(STEPS < 2050, 2, 0.2))
    told = " ".join(answer(find_stages(read_log({"step": STEPS, "loss": 4 - jump(1000) + left}))))
    assert re.search(r"from 3\.1\d* to 5\.1\d* at step \d+, and is back at 3\.3\d* by step 2050: a spike", told)


@pytest.mark.parametrize("number", [10, 4])
def test_too_few_checkpoints_are_said_first(number: int) -> None:
    stages = find_stages(read_log({"step": range(number), "loss": np.linspace(3, 1, number)}))
    assert (answer(stages)[0] == "No transition was found.") == (number == 10)
    assert str(stages).startswith(answer(stages)[0] if number == 10 else "no stages can be found: with 4 checkpoints")


def test_heads_are_named_by_what_they_turn_to(stages_of_both: Stages) -> None:
    _, first, second, _ = answer(stages_of_both)
    assert first.endswith("L0H1 becomes a previous-token head (0.05 -> 0.75).")
    assert second.endswith("L1H1 becomes an induction head (0.05 -> 0.75).")


def test_every_number_of_the_answer_stands_in_the_tables(stages_of_both: Stages) -> None:
    stages = stages_of_both
    for row, sentence in zip(stages.table.iloc[1:].to_dict("records"), answer(stages)[1:], strict=False):
        assert f"At step {row['start']} " in sentence
        assert f"the model leaves {row['left']}, half-way at {row['t50']:.0f}" in sentence


def test_a_head_that_reads_is_named_before_one_that_rests_on_the_first_token(one_onset: pd.DataFrame) -> None:
    resting = one_onset.assign(relation="first token")
    reading = one_onset.assign(relation="induction", layer=1, value=0.05 + 0.6 * (one_onset["value"] - 0.05))
    _, alone, _ = answer(find_stages(resting))
    _, both, _ = answer(find_stages(tidy([resting, reading])))
    assert "L0H0 becomes a first-token head" in alone
    assert "L1H0 becomes an induction head" in both
    assert "L0H0" not in both


def test_a_class_that_is_learned_at_its_own_time_is_told_where_the_mean_loss_hides_it() -> None:
    stages = find_stages(tidy(_hidden(1000)))
    (row,) = stages.table.iloc[1:].to_dict("records")
    assert row["start_lo"] <= 1000 <= row["start_hi"]
    (onset,) = stages.onsets[stages.onsets["onset"]].to_dict("records")
    assert onset["before"] - onset["after"] == pytest.approx(1.6, abs=0.2)
    assert "; with no onset of the mean loss, predictions of token 7 are learned (" in answer(stages)[1]


def test_a_hidden_transition_is_told_with_the_head_that_moves_then_and_no_other() -> None:
    blocks = _hidden(2000)
    for head, at in enumerate((500, 2000)):
        known = {"probe": "AttentionTo", "quantity": "mass", "relation": "induction", "layer": 0, "head": head}
        blocks.append(pd.DataFrame({"run": "planted", "step": STEPS, "value": jump(at, head), **known}))
    _, first, second, _ = answer(find_stages(tidy(blocks)))
    assert "L0H0 becomes an induction head" in first
    assert "predictions" not in first
    assert "L0H1 becomes an induction head" in second
    assert "; with no onset of the mean loss, predictions of token 7 are learned (" in second
    assert "L0H0" not in second


def test_what_the_mean_loss_shows_too_is_not_told_as_hidden() -> None:
    curves = [_losses("Loss", 4 - 2 * jump(1000)), _losses("LossByToken", 4 - 2 * jump(1000), predictions="of token 7")]
    stages = find_stages(tidy(curves))
    assert stages.onsets["onset"].tolist() == [True, True]
    assert "predictions" not in " ".join(answer(stages))


def _hidden(step: int) -> list[pd.DataFrame]:
    """Return losses of which a rare class falls at a step, and their mean hides it."""
    drift = 2 + 3 * (1 + STEPS / 50) ** -0.5
    common, rare = drift + 0.01 * np.random.default_rng(0).standard_normal(len(STEPS)), drift - 2 * jump(step)
    curves = {"of token 0": common, "of token 7": rare}
    blocks = [_losses("Loss", 0.97 * common + 0.03 * rare)]
    return blocks + [_losses("LossByToken", values, predictions=name) for name, values in curves.items()]


def _losses(probe: str, values: np.ndarray, **labels: str) -> pd.DataFrame:
    known = {"run": "planted", "step": STEPS, "probe": probe, "quantity": "cross_entropy"}
    return pd.DataFrame({**known, **labels, "value": values})


def test_the_loss_is_told_where_other_curves_change_more() -> None:
    rise = 1 - np.exp(-STEPS / 400)
    curves = {
        ("Loss", "cross_entropy"): 4 - rise,
        ("Accuracy", "accuracy"): 0.1 + 0.8 * rise,
        ("Copying", "accuracy"): 0.1 + 0.8 * rise,
        ("InContextLearning", "score"): -2 * rise,
    }
    columns = ["run", "probe", "quantity"]
    rows = [
        pd.DataFrame({"step": STEPS, "value": values}).assign(**dict(zip(columns, ("run", *name), strict=True)))
        for name, values in curves.items()
    ]
    _, gradual, *_ = answer(find_stages(tidy(rows)))
    assert re.search(r"accuracy from 0.\d+ to 0.\d+; loss from 4.\d+ to 3.\d+;", gradual)


def test_few_checkpoints_are_said_of_few_checkpoints_alone() -> None:
    flat = find_stages(read_log({"step": range(0, 800, 20), "loss": [2.0] * 40}))
    assert answer(flat) == ["No transition was found.", "Nothing moved by much."]
