"""Columns of a log that are no curves: errors, settings, counts, times and flags; and curves with names alike."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints._log_roles import is_hardware, is_setting, is_time, range_of, roles_of
from stagewise.checkpoints.logged_curves import read_log

STEPS = np.arange(0, 100, 10)
CURVE = np.random.default_rng(0).uniform(0.2, 0.8, len(STEPS))


def roles(**columns: object):  # type: ignore[no-untyped-def]
    return roles_of(pd.DataFrame({"step": STEPS, **columns}), "step")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("acc", "acc_stderr"),
        ("arc_easy/acc,none", "arc_easy/acc_stderr,none"),
        ("loss", "loss std"),
        ("reward_mean", "reward_std"),
        ("Score", "score_SE"),
    ],
)
def test_the_errors_of_a_column_are_its_errors(value: str, error: str) -> None:
    found = roles(**{value: CURVE, error: CURVE / 10})
    assert found.errors == {value: error}
    assert found.aside == {error}


@pytest.mark.parametrize("name", ["noise_std", "std", "response_se", "stderr_free"])
def test_a_deviation_of_nothing_that_is_logged_is_a_curve(name: str) -> None:
    assert roles(loss=CURVE, **{name: CURVE}).errors == {}


def test_a_standard_error_whose_value_is_elsewhere_is_no_curve() -> None:
    assert roles(loss=CURVE, acc_stderr=CURVE).aside == {"acc_stderr"}


def test_the_ends_of_an_interval_belong_to_their_column() -> None:
    found = roles(acc=CURVE, acc_lo=CURVE - 0.1, acc_hi=CURVE + 0.1, margin_low=CURVE)
    assert found.bounds == {"acc": ("acc_lo", "acc_hi")}
    assert found.aside == {"acc_lo", "acc_hi"}


@pytest.mark.parametrize(
    "name",
    [
        *("config/batch_size", "versions/arc", "_meta/seed", "run/hparams/lr", "weight_decay", "n-shot/arc"),
        *("cur_lambda", "train/kl_coef"),
    ],
)
def test_settings_are_known_by_their_folder_or_their_name(name: str) -> None:
    assert is_setting(name)


@pytest.mark.parametrize("name", ["lambda_loss", "reconfig/loss", "eval/loss", "seed_accuracy", "batch_loss"])
def test_names_that_only_look_like_settings_are_curves(name: str) -> None:
    assert not is_setting(name)


@pytest.mark.parametrize(
    "name", ["iter_time", "train_step_timing in s", "train/step_time (s)", "dt", "tok/sec", "samples_per_second", "eta"]
)
def test_times_and_speeds_are_known_by_a_word(name: str) -> None:
    assert is_time(name)


@pytest.mark.parametrize(
    "name",
    [
        *("system/gpu.0.memoryAllocated", "system.disk./.usagePercent", "system/proc.memory.rssMB"),  # W&B
        *("system/network_receive_megabytes", "system/cpu_utilization_percentage"),  # MLflow
        *("DeviceStatsMonitor.on_train_batch_end/active.all.peak", "device_id: 0/memory.used (MB)"),  # Lightning
        *("train_mem_gpu_alloc_delta", "before_init_mem_cpu"),  # transformers
        *("memory/max_active(GiB)", "memory/num_ooms", "time_metrics/data_loading(%)"),  # torchtitan
        *("mem-reserved-bytes", "mem-allocated-count"),  # Megatron
        *("System/Peak GPU Memory (MB)", "hardware_tflops_per_gpu"),  # OLMo, nanotron
        *("memory/peak_allocated_mem", "memory/alloc_retries", "throughput/device/mfu"),  # Composer
        *("perf/mfu/actor", "timing_s/gen", "peak_memory_alloc", "memory(GiB)"),  # verl, torchtune, ms-swift
        *("memory", "cuda_gb_allocated", "gpu_mem_gb", "cpu/ram", "gpu_temp"),  # MMEngine, fairseq, one's own
    ],
)
def test_what_a_machine_does_is_known_by_a_folder_or_by_words(name: str) -> None:
    assert is_hardware(name)
    assert is_hardware(f"train/{name}")


@pytest.mark.parametrize(
    "name", ["cos_mem", "memory/recall", "memory_accuracy", "gpu_0/loss", "system_loss", "max_norm", "perfect", "gram"]
)
def test_a_model_that_remembers_and_what_a_device_measures_are_curves(name: str) -> None:
    assert not is_hardware(name)


@pytest.mark.parametrize("name", ["beta", "timely", "sentiment", "theta", "first_token_loss"])
def test_words_that_hold_a_time_are_none(name: str) -> None:
    assert not is_time(name)


def test_what_a_run_has_read_and_a_straight_line_of_whole_numbers_are_counts() -> None:
    counts = {
        "cumulative_examples": STEPS * 16,
        "local_step": STEPS + 7,
        "tokens (B)": STEPS * 0.002,
        "flag": STEPS > 50,
    }
    assert roles(loss=CURVE, **counts).aside == counts.keys()


@pytest.mark.parametrize("dtype", [bool, int])
def test_what_is_passed_or_not_is_a_curve_and_what_is_set_or_told_in_a_rhythm_is_a_flag(dtype: type) -> None:
    rows = np.arange(40)
    often = np.random.default_rng(0).random(40) < rows / 40
    columns = {"won_game": often, "accuracy": often, "spike": often, "solved": rows > 20}
    columns |= {"frozen": rows > 20, "thawed": abs(rows - 20) < 9, "saved": rows % 5 == 0}
    frame = pd.DataFrame({"step": rows, **{name: column.astype(dtype) for name, column in columns.items()}})
    assert roles_of(frame, "step").aside == {"frozen", "thawed", "saved"}
    assert roles_of(frame.sample(frac=1, random_state=0), "step").aside == {"frozen", "thawed", "saved"}


@pytest.mark.parametrize("missing", [False, True])
def test_zeros_and_ones_beside_a_loss_are_read_and_a_flag_is_told(missing: bool, tmp_path: Path) -> None:
    solved = [None if missing and step == 30 else step > 50 for step in STEPS]
    frame = pd.DataFrame({"step": STEPS, "loss": CURVE, "solved": solved, "frozen": (STEPS < 50).astype(int)})
    frame.to_csv(tmp_path / "log.csv", index=False)
    with pytest.warns(
        UserWarning, match="the column 'frozen' is left out as a flag: a curve is written as 0.0 and 1.0"
    ):
        table = read_log(tmp_path / "log.csv")
    assert table["quantity"].unique().tolist() == ["loss", "solved"]


def test_lines_that_fall_or_hold_parts_and_tokens_that_go_back_are_curves() -> None:
    curves = {
        "left": -STEPS,
        "accuracy": STEPS / 300,
        "tokens_kept": CURVE,
        "rank": np.minimum(STEPS, 50),
        "one": STEPS * 0,
    }
    assert roles(**curves).aside == set()


def test_shares_have_the_interval_of_as_many_answers_as_stand_beside_them() -> None:
    frame = pd.DataFrame({"step": [0, 1], "qa/acc": [0.5, 1.0], "qa/n": [100, 100], "loss": [3.0, 2.0]})
    found = roles_of(frame, "step")
    assert found.asked == {"qa/acc": "qa/n"}
    lo, hi = found.interval_of("qa/acc", frame).values()
    np.testing.assert_allclose(lo, [0.4038, 0.9630], atol=1e-4)  # statsmodels' proportion_confint, method "wilson"
    np.testing.assert_allclose(hi, [0.5962, 1.0], atol=1e-4)


def test_given_errors_are_the_interval_of_a_curve() -> None:
    table = read_log({"step": STEPS, "acc": CURVE, "acc_stderr": np.full(len(STEPS), 0.01)})
    assert table["quantity"].unique().tolist() == ["acc"]
    np.testing.assert_allclose(table["hi"] - table["value"], 0.0196, atol=1e-4)
    np.testing.assert_allclose(table["value"] - table["lo"], 0.0196, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "values", "bounds"),
    [
        ("qa/acc_norm", [0.0, 0.4], (0, 1)),
        ("Test Accuracy", [0.12, 0.975], (0, 1)),
        ("accuracy in percent", [12.0, 97.5], (None, None)),
        ("acc", [-0.1, 0.4], (None, None)),
        ("accumulated", [0.1, 0.4], (None, None)),
        ("loss", [0.1, 0.4], (None, None)),
    ],
)
def test_a_share_of_right_answers_has_bounds(
    name: str, values: list[float], bounds: tuple[int | None, int | None]
) -> None:
    assert range_of(name, np.array(values)) == bounds


@pytest.mark.parametrize("name", ["reward_std", "reward std_dev"])
def test_a_deviation_of_single_answers_is_no_error_of_their_mean_and_no_curve(name: str) -> None:
    rewards = np.linspace(0.1, 0.6, 40) + 0.01 * np.random.default_rng(0).standard_normal(40)
    table = read_log({"step": np.arange(40), "reward": rewards, name: 0.3 + 0.01 * rewards})
    assert table["quantity"].unique().tolist() == ["reward"]
    assert table["lo"].isna().all()


@pytest.mark.parametrize(("name", "size"), [("reward_std", 0.02), ("reward_stderr", 0.3)])
def test_a_deviation_as_large_as_the_scatter_and_a_standard_error_of_any_size_are_errors(
    name: str, size: float
) -> None:
    rewards = 0.4 + 0.02 * np.random.default_rng(0).standard_normal(40)
    table = read_log({"step": np.arange(40), "reward": rewards, name: np.full(40, size)})
    assert (table["hi"] - table["value"]).to_numpy() == pytest.approx(1.96 * size, rel=1e-3)
