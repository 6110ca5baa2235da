"""Onsets: planted ones found in time and in order, none in nulls, over as many curves as a model has."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.criteria import OnsetVerdict, StageCriteria
from stagewise.findings.onsets import find_onsets
from tests.fixtures.runs import AtOnce
from tests.fixtures.told import told

pytestmark = pytest.mark.usefixtures("unchecked")

STEPS = np.unique(np.concatenate([np.arange(0, 9), np.geomspace(10, 3000, 40).astype(int)]))
RELATIONS = ("previous token", "duplicate token", "induction", "first token", "self", "a", "b", "c")


def sigmoid(at: float, width: float = 0.1) -> np.ndarray:
    """From 0 to 1 at a step, `width` e-folds wide."""
    return np.asarray(1 / (1 + np.exp(-(np.log1p(STEPS) - np.log1p(at)) / width)))


def scores(curves: np.ndarray, relation: str = "induction", layer: int = 0, noise: float = 0.01) -> pd.DataFrame:
    """Attention masses of the heads of a layer over STEPS: curves [head, step], with noise."""
    noisy = curves + noise * np.random.default_rng(len(curves)).standard_normal(curves.shape)
    frames = [pd.DataFrame({"step": STEPS, "value": values, "head": head}) for head, values in enumerate(noisy)]
    return pd.concat(frames).assign(run="run", probe="AttentionTo", quantity="mass", relation=relation, layer=layer)


def planted(noise: float, seed: int, width: float = 0.1) -> tuple[pd.DataFrame, float]:
    generator = np.random.default_rng(seed)
    at = float(np.exp(generator.uniform(np.log(30), np.log(1000))))
    curve = 0.08 + 0.6 * sigmoid(at, width) + noise * generator.standard_normal(len(STEPS))
    return scores(curve[None], noise=0), at


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "width", "seeds"),
    [
        (0.02, 0.1, 25),
        pytest.param(0.01, 0.05, 300, marks=pytest.mark.slow),
        pytest.param(0.03, 0.1, 300, marks=pytest.mark.slow),
        pytest.param(0.01, 0.3, 300, marks=pytest.mark.slow),
    ],
)
def test_a_planted_onset_lies_in_its_interval_at_the_nominal_rate(noise: float, width: float, seeds: int) -> None:
    covered = []
    for seed in range(seeds):
        table, at = planted(noise, seed, width)
        (row,) = find_onsets(table).to_dict("records")
        assert row["onset"], row["verdict"]
        covered.append(row["t50_lo"] <= at <= row["t50_hi"])
        assert row["t10"] <= row["t50"] <= row["t90"]
        assert row["t50_lo"] <= row["t50"] <= row["t50_hi"]
    assert np.mean(covered) >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / seeds)


def test_the_levels_and_times_are_those_of_the_logistic() -> None:
    (row,) = find_onsets(scores(0.08 + 0.6 * sigmoid(200)[None], noise=1e-4)).to_dict("records")
    # Shapes lie on a grid: levels are known to a hundredth of the change.
    assert (row["before"], row["after"]) == pytest.approx((0.08, 0.68), abs=6e-3)
    expected = [np.expm1(np.log(201) + 0.1 * np.log(part / (1 - part))) for part in (0.1, 0.5, 0.9)]
    assert [row[name] for name in ("t10", "t50", "t90")] == pytest.approx(expected, rel=0.03)


NULLS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "flat": lambda generator: 0.1 + 0 * STEPS,
    "power law": lambda generator: 0.9 - 0.8 * (1 + STEPS / generator.uniform(1, 100)) ** -generator.uniform(0.2, 1),
    "slow drift": lambda generator: 0.05 + generator.uniform(0.1, 0.8) * np.log1p(STEPS) / np.log1p(STEPS[-1]),
    "exponential": lambda generator: 0.9 * (1 - np.exp(-STEPS / generator.uniform(10, 2000))),
    "falling power law": lambda generator: 0.8 * (1 + STEPS / 10) ** -0.5,
    "straight": lambda generator: 0.05 + 0.8 * STEPS / STEPS[-1],
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("heads", [6, pytest.param(24, marks=pytest.mark.slow)])
@pytest.mark.parametrize("null", NULLS)
def test_heads_with_eight_scores_each_of_a_null_show_no_onset(null: str, heads: int) -> None:
    generator = np.random.default_rng(7)
    curves = np.array([NULLS[null](generator) for _ in range(heads * 8)])
    curves += generator.choice([0.003, 0.03], (heads * 8, 1)) * generator.standard_normal(curves.shape)
    parts = zip(curves.reshape(8, heads, -1), RELATIONS, strict=True)
    table = pd.concat([scores(part, name, noise=0) for part, name in parts])
    onsets = find_onsets(table)
    assert len(onsets) == heads * 8
    assert not onsets["onset"].any(), onsets.loc[onsets["onset"], ["p_value", "before", "after", "t50"]].to_string()
    assert onsets["t50"].isna().all()


@pytest.mark.slow
def test_one_table_of_nulls_in_twenty_shows_an_onset_at_most() -> None:
    generator = np.random.default_rng(0)
    makers = list(NULLS.values())
    false = 0
    for _ in range(60):
        curves = np.array([makers[i % len(makers)](generator) for i in range(192)])
        curves += generator.choice([0.003, 0.01, 0.03, 0.1], (192, 1)) * generator.standard_normal(curves.shape)
        false += bool(find_onsets(scores(curves, noise=0))["onset"].any())
    assert false / 60 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 60), f"{false} of 60 tables"


def test_what_rises_and_falls_again_is_a_transient_onset() -> None:
    table = scores(0.05 + 0.7 * (sigmoid(100) - 0.9 * sigmoid(600))[None])
    onsets = find_onsets(table)
    row, fall = onsets.to_dict("records")
    rise_told, fall_told = told(table, onsets)
    assert row["onset"]
    assert row["transient"]
    assert not fall["transient"]
    assert fall["t50_lo"] <= 600 <= fall["t50_hi"]
    assert "attends less to what followed the token before (0.7" in fall_told
    assert row["t50_lo"] <= 100 <= row["t50_hi"]
    assert "back to 0.13" in rise_told


def test_a_rise_at_the_end_is_censored() -> None:
    table = scores(0.05 + 0.7 * sigmoid(2100, 0.15)[None])
    onsets = find_onsets(table)
    (row,), (sentence,) = onsets.to_dict("records"), told(table, onsets)
    assert row["onset"], sentence
    assert np.isinf(row["t90_hi"])
    assert "not over yet" in sentence


@pytest.mark.parametrize("place", [12, 30, len(STEPS) - 1])
def test_one_checkpoint_that_stands_out_is_no_onset(place: int) -> None:
    spike = 0.05 + 0.7 * (np.arange(len(STEPS)) == place)[None]
    assert not find_onsets(scores(spike))["onset"].any()


def test_a_loss_and_an_in_context_score_fall() -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal((2, len(STEPS)))
    frames = [
        pd.DataFrame({"step": STEPS, "value": level - 2 * sigmoid(300) + more, "probe": probe, "quantity": quantity})
        for probe, quantity, level, more in zip(
            ("Loss", "InContextLearning"), ("cross_entropy", "score"), (3.4, 0.0), 0.1 * noise, strict=True
        )
    ]
    table = pd.concat(frames).assign(run="run")
    onsets = find_onsets(table).sort_values("probe")
    assert [line.partition(" (")[0] for line in sorted(told(table, onsets))] == [
        "the in-context learning score falls",
        "the loss falls",
    ]
    assert onsets["before"].tolist() == pytest.approx([0.0, 3.4], abs=0.03)
    assert onsets["after"].tolist() == pytest.approx([-2.0, 1.4], abs=0.03)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_few_checkpoints_show_nothing_and_say_so(count: int) -> None:
    table = scores(0.05 + 0.7 * sigmoid(2)[None], noise=0)
    onsets = find_onsets(table[table["step"].isin(STEPS[:count])])
    assert onsets["verdict"].tolist() == [OnsetVerdict.FEW_CHECKPOINTS]
    assert told(table, onsets)[0].startswith(f"has too few checkpoints, {count}: ")


@pytest.mark.parametrize("value", [0.0, 1.0, 1 / 3])
def test_a_constant_without_noise_has_no_onset(value: float) -> None:
    (row,) = find_onsets(scores(np.full((1, len(STEPS)), value), noise=0)).to_dict("records")
    assert not row["onset"]
    assert row["before"] == row["after"] == row["last"] == value


def test_a_curve_that_is_not_finite_is_named_and_the_others_go_on() -> None:
    curves = 0.05 + 0.7 * np.array([sigmoid(200), sigmoid(200)])
    curves[0, 10] = np.nan
    rows = find_onsets(scores(curves)).set_index("head", drop=False)
    assert told(scores(curves), rows.loc[[0]]) == [f"is not finite at step {STEPS[10]}"]
    assert rows.loc[1, "onset"]


@pytest.mark.slow
def test_other_processes_find_the_same_onsets(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = 0.05 + 0.7 * np.array([sigmoid(at) for at in (100, 200, 400)] + [0 * STEPS] * 4)
    curves[5, 10] = np.nan
    table = scores(curves)
    table["resamples"] = [value + np.linspace(0, 0.01, 20) for value in table["value"]]
    whole = find_onsets(table)
    monkeypatch.setattr("stagewise.findings.onsets.AT_ONCE", 2)
    pd.testing.assert_frame_equal(find_onsets(table, executor=AtOnce()), whole)


def test_resamples_of_the_batch_widen_the_interval() -> None:
    table = scores(0.08 + 0.6 * sigmoid(200, 0.3)[None], noise=0.01)
    shift = 0.2 * np.random.default_rng(0).standard_normal((1, 50)) * sigmoid(200, 0.3)[:, None]
    shift[STEPS > 400] *= 0.2
    shaken = table.assign(resamples=[value + row for value, row in zip(table["value"], shift, strict=True)])
    alone, wider = (find_onsets(one).iloc[0] for one in (table, shaken))
    assert wider["t50_hi"] - wider["t50_lo"] > alone["t50_hi"] - alone["t50_lo"]


def test_the_onset_is_the_verdict_and_its_numbers_are_in_the_row() -> None:
    rows = find_onsets(scores(0.05 + 0.7 * np.array([sigmoid(200), 0 * STEPS, sigmoid(200, 3.0)])))
    verdicts = [OnsetVerdict.ONSET, OnsetVerdict.SMALL, OnsetVerdict.STEADY]
    assert rows.sort_values("head")["verdict"].tolist() == verdicts
    assert rows["onset"].tolist() == (rows["verdict"] == OnsetVerdict.ONSET).tolist()
    assert (rows["checkpoints"] == len(STEPS)).all()
    tested = rows[rows["verdict"] != OnsetVerdict.SMALL]
    assert (tested["p_adjusted"] >= tested["p_value"]).all()


def test_curves_that_move_by_less_than_any_onset_are_no_tests() -> None:
    curves = 0.05 + 0.7 * np.array([sigmoid(200)] + [0 * STEPS] * 50)
    rows = find_onsets(scores(curves, noise=0.002))
    (onset,), others = rows[rows["onset"]].to_dict("records"), rows[~rows["onset"]]
    assert 0 < onset["p_adjusted"] == onset["p_value"]
    assert set(others["verdict"]) == {OnsetVerdict.SMALL}
    assert others[["p_value", "p_adjusted"]].isna().all(axis=None)


def test_what_was_not_tested_has_no_p_value() -> None:
    rows = find_onsets(scores(0.05 + 0.7 * sigmoid(200)[None]).groupby("head").head(5))
    assert rows["verdict"].tolist() == [OnsetVerdict.FEW_CHECKPOINTS]
    assert rows[["p_value", "p_adjusted"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("stricter", "verdict"),
    [
        ({"smallest": 0.9}, OnsetVerdict.SMALL),
        ({"fewest": 1000}, OnsetVerdict.FEW_CHECKPOINTS),
        ({"false_discoveries": 1e-30}, OnsetVerdict.STEADY),
    ],
)
def test_a_threshold_that_is_moved_decides_otherwise(stricter: dict[str, float], verdict: OnsetVerdict) -> None:
    table = scores(0.05 + 0.7 * sigmoid(200)[None])
    assert find_onsets(table)["verdict"].tolist() == [OnsetVerdict.ONSET]
    criteria = StageCriteria(**stricter)  # type: ignore[arg-type]
    assert find_onsets(table, criteria)["verdict"].tolist() == [verdict]


def test_two_equal_rises_are_two_onsets_and_a_fall_is_one() -> None:
    curves = np.array([0.05 + 0.35 * (sigmoid(60) + sigmoid(800)), 0.8 - 0.7 * sigmoid(200)])
    rows = find_onsets(scores(curves)).sort_values(["head", "t50"])
    assert rows["onset"].all()
    assert rows["head"].tolist() == [0, 0, 1]
    assert rows["t50"].tolist() == pytest.approx([60, 800, 200], rel=0.05)
    assert rows["transition"].tolist() == [1, 2, 1]


def test_an_onset_at_a_known_cause_counts_if_a_head_changes_much() -> None:
    onsets = find_onsets(scores(0.05 + 0.7 * sigmoid(200)[None]), causes={"the learning-rate drop": 200})
    assert (onsets["onset"].tolist(), onsets["cause"].tolist()) == ([True], ["the learning-rate drop"])


def test_a_small_onset_at_a_known_cause_is_named_and_does_not_count() -> None:
    table = scores(0.05 + 0.15 * sigmoid(200)[None])
    causes = {"the learning-rate drop": 200, "nothing": 2000}
    onsets = find_onsets(table, causes=causes)
    assert onsets["verdict"].tolist() == [OnsetVerdict.COINCIDES]
    assert onsets["cause"].tolist() == ["the learning-rate drop"]
    assert told(table, onsets, causes) == ["coincides with the learning-rate drop at step 200"]


@pytest.mark.parametrize(("step", "onset"), [(2750, False), (3200, True)])
def test_what_was_done_after_an_onset_does_not_dismiss_it(step: int, onset: bool) -> None:
    steps = np.arange(0, 6000, 100)
    rise = 0.1 + 0.8 / (1 + np.exp(-(steps - 3000) / 100))
    noisy = rise + 0.02 * np.random.default_rng(0).standard_normal(len(steps))
    assert find_onsets(read_log({"step": steps, "score": noisy}), causes={"the drop": step})["onset"].tolist() == [
        onset
    ]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_fall_while_the_learning_rate_warms_up_is_its(seed: int) -> None:
    rate = np.minimum(np.arange(10_001) / 500, 1)
    steps = np.linspace(0, 10_000, 200).astype(int)
    loss = (2 + 7.5 * (1 + np.cumsum(rate) / 100) ** -0.4)[steps]
    log = {"step": steps, "loss": loss + 0.03 * np.random.default_rng(seed).standard_normal(len(steps))}
    assert find_onsets(read_log(log), causes={})["onset"].tolist() == [True]
    causes = {"the warm-up": (0, 500)}
    assert told(read_log(log), find_onsets(read_log(log), causes=causes), causes) == [
        "coincides with the warm-up, until step 500"
    ]
    logged = find_onsets(read_log({**log, "lr": rate[steps]}))
    assert logged["cause"].tolist() == ["the learning rate's warm-up"]


def test_what_is_transient_and_what_a_head_becomes_are_decided_by_the_criteria() -> None:
    table = scores(0.05 + 0.7 * (sigmoid(100) - 0.9 * sigmoid(600))[None])
    criteria = StageCriteria(back=1.0, most=0.9)
    onsets = find_onsets(table, criteria)
    assert not onsets["transient"].iloc[0]
    assert "attends more to what followed the token before" in told(table, onsets, criteria=criteria)[0]


def test_a_table_without_scores_has_no_onsets_but_their_columns() -> None:
    none = find_onsets(scores(np.zeros((1, len(STEPS)))).assign(probe="MeanPattern"))
    assert none.empty
    assert {"probe", "relation", "layer", "head", "verdict", "t50", "cause"} <= set(none)


@pytest.mark.parametrize("steps", [np.linspace(0, 3000, 60), STEPS.astype(float)])
def test_a_decay_without_noise_is_not_said_to_have_moved_at_three_checkpoints(steps: np.ndarray) -> None:
    loss = pd.DataFrame({"step": steps, "value": 1 + 3 * (1 + steps / 20) ** -0.4})
    (row,) = find_onsets(loss.assign(run="run", probe="Loss", quantity="cross_entropy")).to_dict("records")
    assert not row["onset"]
    assert row["verdict"] != OnsetVerdict.SPIKE


def test_the_levels_of_an_onset_are_possible_values() -> None:
    g = np.random.default_rng(1)
    curves = np.array([(1.1 * sigmoid(at) - 0.05).clip(0, 1) for at in (60, 150, 300, 600)])
    onsets = find_onsets(scores((curves + 0.02 * g.standard_normal(curves.shape)).clip(0, 1), noise=0))
    assert onsets["onset"].all()
    assert onsets["before"].ge(0).all()
    assert onsets["after"].le(1).all()


@pytest.mark.one_of(4)
@pytest.mark.parametrize("time", [20, 50, 100, 400])
def test_a_fall_that_follows_the_drop_of_the_learning_rate_is_its(time: int) -> None:
    steps = np.arange(0, 6001, 50)
    fall = 0.6 * np.where(steps >= 3000, 1 - np.exp(-(steps - 3000) / time), 0)
    loss = 2 - fall + 0.005 * np.random.default_rng(time).standard_normal(len(steps))
    onsets = find_onsets(read_log({"step": steps, "loss": loss}), causes={"the drop": 2975})
    assert onsets["cause"].tolist() == ["the drop"]
    assert find_onsets(read_log({"step": steps, "loss": loss}), causes={"a restart": 2500})["onset"].any()


@pytest.mark.parametrize(
    ("probe", "quantity", "sign", "verdict"),
    [("Accuracy", "accuracy", 1, OnsetVerdict.ONSET), ("Loss", "cross_entropy", -1, OnsetVerdict.EARLY)],
)
def test_a_change_within_the_first_gap_is_an_onset_of_an_accuracy_and_none_of_a_loss(
    probe: str, quantity: str, sign: int, verdict: OnsetVerdict
) -> None:
    steps = np.arange(0, 3000, 50)
    values = (0.1 if sign > 0 else 2) + sign * 0.7 * (steps > 0) + 0.01 * np.random.default_rng(0).standard_normal(60)
    table = pd.DataFrame({"step": steps, "value": values}).assign(run="run", probe=probe, quantity=quantity)
    assert find_onsets(table)["verdict"].tolist() == [verdict]


def test_a_change_between_two_checkpoints_is_within_the_gap() -> None:
    steps = np.arange(0, 3000, 50)
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(steps))
    (row,) = find_onsets(read_log({"step": steps, "accuracy": 0.1 + 0.7 * (steps > 1500) + noise})).to_dict("records")
    assert row["within_gap"]
    assert (row["t50_lo"], row["t50_hi"]) == pytest.approx((1500, 1550))
    assert row["bayes"] > 5


def test_the_errors_of_a_log_tell_a_change_at_few_checkpoints() -> None:
    steps, values = np.arange(8) * 1000, np.array([0.30, 0.31, 0.29, 0.30, 0.46, 0.45, 0.46, 0.45])
    log = {"step": steps, "accuracy": values}
    assert find_onsets(read_log(log))["verdict"].tolist() == [OnsetVerdict.FEW_CHECKPOINTS]
    onsets = [
        find_onsets(read_log({**log, "accuracy_stderr": np.full(8, error)}))["onset"].any() for error in (0.01, 0.2)
    ]
    assert onsets == [True, False]


def test_what_changes_in_the_first_update_of_a_run_has_no_stage_before_it() -> None:
    steps = np.array([*range(11), *range(15, 300, 10)])
    values = np.where(steps > 0, 0.25, 0.02) + 0.003 * np.random.default_rng(0).standard_normal(len(steps))
    measured = pd.DataFrame({"step": steps, "value": values}).assign(run="run", probe="Accuracy", quantity="accuracy")
    assert find_onsets(measured)["verdict"].tolist() == [OnsetVerdict.EARLY]
    (logged,) = find_onsets(read_log({"step": steps, "accuracy": values})).to_dict("records")
    assert (logged["verdict"], logged["within_gap"]) == (OnsetVerdict.ONSET, True)
    later = find_onsets(measured.assign(step=np.where(steps > 0, steps + 50, 0)))
    assert later["verdict"].tolist() == [OnsetVerdict.ONSET]


@pytest.mark.parametrize(("start", "verdicts"), [(11.0, {OnsetVerdict.EARLY}), (6.3, {OnsetVerdict.ONSET})])
def test_a_fall_that_goes_on_from_the_first_gap_no_faster_is_early(start: float, verdicts: set[OnsetVerdict]) -> None:
    steps = np.arange(0, 20_000, 250)
    values = np.where(steps == 0, start, 3.3 + 3 / (1 + (steps / 700) ** 2.2) - steps / 4e4)
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(steps))
    assert set(find_onsets(read_log({"step": steps, "eval_loss": values + noise}))["verdict"]) == verdicts


@pytest.mark.parametrize(("first", "verdict"), [(20, OnsetVerdict.EARLY), (5, OnsetVerdict.ONSET)])
def test_a_fall_that_is_under_way_at_the_first_checkpoint_is_early(first: int, verdict: OnsetVerdict) -> None:
    steps = np.unique(np.geomspace(first, 5000, 90).round().astype(int))
    loss = 4 + 2 / (1 + np.exp((np.log1p(steps) - np.log(27)) / 0.3))
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(steps))
    assert find_onsets(read_log({"step": steps, "loss": loss + noise}))["verdict"].tolist() == [verdict]


@pytest.mark.parametrize(("end", "onset"), [(4000, False), (12_000, True)])
def test_what_is_not_over_at_the_last_checkpoint_is_no_transition(end: int, onset: bool) -> None:
    steps = np.arange(0, end + 1, 50)
    loss = 4.16 - 0.6 / (1 + np.exp(-(np.log1p(steps) - np.log(3000)) / 0.25))
    loss += 0.008 * np.random.default_rng(1).standard_normal(len(steps))
    table = pd.DataFrame({"step": steps, "value": loss}).assign(run="run", probe="Loss", quantity="cross_entropy")
    assert find_onsets(table)["onset"].tolist() == [onset]


@pytest.mark.parametrize(("first", "verdict"), [(0.5, OnsetVerdict.SMALL), (-1.0, OnsetVerdict.ONSET)])
def test_a_change_of_an_in_context_score_up_to_none_of_it_is_none(first: float, verdict: OnsetVerdict) -> None:
    values = first - 0.5 * sigmoid(200) + 0.005 * np.random.default_rng(0).standard_normal(len(STEPS))
    table = pd.DataFrame({"step": STEPS, "value": values}).assign(
        run="run", probe="InContextLearning", quantity="score"
    )
    assert find_onsets(table)["verdict"].tolist() == [verdict]


def test_growth_that_slows_down_after_a_jump_is_no_second_one() -> None:
    steps = np.array([0, *2 ** np.arange(10), 1000, 3000, *range(13_000, 144_000, 10_000)])
    grown = 0.62 - 0.3 * (steps / 3000.0).clip(1) ** -0.55
    values = np.where(steps < 1000, 0.0, np.where(steps == 1000, 0.07, grown))
    values += 0.004 * np.random.default_rng(3).standard_normal(len(steps)) * (steps >= 1000)
    onsets = find_onsets(read_log({"step": steps, "acc": values}))
    assert onsets["onset"].sum() == 1
    assert onsets["t50_lo"].iloc[0] < 3000


def test_what_an_accuracy_does_within_the_errors_of_its_number_of_answers_is_no_onset() -> None:
    # Winograd schemas answered by Pythia 1.4B, EleutherAI's own evaluations.
    right = np.array([55, 55, 56, 61, 66, 66, 66, 66, 66, 67, 66, 51, 38, 56, 40, 44, 44, 38, 42, 43, 46, 41, 44, 41])
    steps = np.array([0, *2 ** np.arange(10), 1000, 3000, *range(13_000, 114_000, 10_000)])
    counted, free = (find_onsets(read_log({"step": steps, "acc": right / number})) for number in (104, 100))
    # From step 1,000 on it answers with the other label, 20 answers differ; the ten that come before are noise.
    (fall,) = counted[counted["onset"]].to_dict("records")
    assert fall["t50_lo"] < 1000 < fall["t50_hi"]
    assert fall["after"] < fall["before"]
    assert free["onset"].sum() == 2


def test_a_head_that_jumps_and_then_grows_to_the_end_has_its_onset_where_it_jumps() -> None:
    steps = np.unique(np.geomspace(1, 3000, 40).astype(int))
    jump = 0.6 / (1 + np.exp(-(np.log(steps) - np.log(430)) / 0.06))
    growth = 0.35 * np.where(steps > 430, 1 - (steps / 430) ** -0.5, 0)
    noise = 0.01 * np.random.default_rng(2).standard_normal(len(steps))
    table = pd.DataFrame({"step": steps, "value": 0.03 + jump + growth + noise, "layer": 1, "head": 3}).assign(
        run="run", probe="AttentionTo", quantity="mass", relation="induction"
    )
    (row,) = find_onsets(table).to_dict("records")
    assert row["onset"]
    assert row["t50_lo"] <= 460
    assert row["t50"] == pytest.approx(440, rel=0.1)
    assert row["t90"] <= steps[-1]
