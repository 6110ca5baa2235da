"""Curves that were logged elsewhere: read from frames and files, by the files that other tools write."""

import json
import re
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.checkpoints.openers import is_log
from stagewise.findings.onsets import find_onsets
from stagewise.findings.replicates import find_replicates
from stagewise.findings.scores import quantities_of
from stagewise.findings.stages import find_stages
from stagewise.table import LOGGED
from stagewise.words import event_names

STEPS = np.arange(0, 3000, 50)
RISE = 0.05 + 0.9 / (1 + np.exp(-(STEPS - 1000) / 60)) + 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
LOG = pd.DataFrame({"Step": STEPS, "accuracy": RISE, "loss": 3 - RISE, "note": "text", "epoch": STEPS / 100})


def test_stages_and_onsets_are_found_in_them() -> None:
    table = read_log(LOG)
    assert table["run"].unique().tolist() == ["run"]
    assert {name: one.progress for name, one in quantities_of(table)[LOGGED].items()} == {
        "accuracy": "up",
        "loss": "down",
    }
    onsets = find_onsets(table)
    assert onsets["onset"].tolist() == [True, True]
    assert ((onsets["t50_lo"] <= 1000) & (onsets["t50_hi"] >= 1000)).all()
    answer, _, second = str(find_stages(table)).splitlines()
    assert re.search(r"accuracy from 0\.0[3-7] to 0\.9[3-7], loss", answer)
    assert re.search(r"accuracy rises \(0\.0[4-6] -> 0\.9[4-6]\)", second)
    assert re.search(r"loss falls \(2\.9[4-6] -> 2\.0[4-6]\)", second)


def test_what_else_tools_write_is_no_curve(tmp_path: Path) -> None:
    exported = LOG.rename(columns={"accuracy": "swift-sun-3 - accuracy"})
    beside = {f"swift-sun-3 - accuracy__{end}": RISE for end in ("MIN", "MAX")}
    others = {"_runtime": STEPS, "_timestamp": STEPS, "train_samples_per_second": RISE, "Wall time": STEPS}
    exported.assign(**beside, **others).to_csv(tmp_path / "log.csv")  # with the frame's index
    assert read_log(tmp_path / "log.csv")["quantity"].unique().tolist() == ["swift-sun-3 - accuracy", "loss"]


def test_numbers_may_be_written_in_percent_with_commas_or_as_tensors_below_a_comment(tmp_path: Path) -> None:
    steps = [f'"{step:,}"' for step in STEPS]
    rows = [f"{step}, {rise:.1%}, tensor({3 - rise:.3f})" for step, rise in zip(steps, RISE, strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["# of run 7", "step, accuracy, loss", *rows]))
    table = read_log(tmp_path / "log.csv")
    assert table["quantity"].unique().tolist() == ["accuracy", "loss"]
    assert table["step"].tolist() == [*STEPS, *STEPS]
    np.testing.assert_allclose(table["value"], [*RISE.round(3), *(3 - RISE).round(3)], atol=1e-9)


@pytest.mark.parametrize("names", ["metric", "Key", "variable"])
def test_a_log_may_have_a_row_a_value(names: str) -> None:
    rows = LOG.melt(["Step"], ["accuracy", "loss"], var_name=names, value_name="Value")
    pd.testing.assert_frame_equal(read_log(rows.assign(timestamp=1.7e9)), read_log(LOG))


SEEDS = {3: LOG, 1: LOG.assign(accuracy=np.concatenate([RISE[:7], RISE[:-7]])).iloc[:40]}


WAYS = ["columns", "values", "tbparse", "Weights & Biases"]


def beside(way: str) -> pd.DataFrame:
    """The logs of two seeds in one frame."""
    frame = pd.concat([log.assign(seed=seed) for seed, log in SEEDS.items()])
    if way == "values":
        frame = frame.melt(["Step", "seed"], ["accuracy", "loss"], var_name="metric")
    if way == "tbparse":  # `SummaryReader(folder, extra_columns={"dir_name"}).scalars`
        frame = frame.assign(dir_name=frame["seed"].map("seed={}".format))
        frame = frame.melt(["Step", "dir_name"], ["accuracy", "loss"], var_name="tag")
    if way == "Weights & Biases":
        wide = [
            log.set_index("Step").add_prefix(f"seed={seed} - ").drop(columns=f"seed={seed} - note")
            for seed, log in SEEDS.items()
        ]
        extremes = {f"seed=3 - loss__{end}": RISE for end in ("MIN", "MAX")}
        frame = pd.concat(wide, axis=1).assign(**extremes, **{"seed=3 - _step": STEPS}).reset_index()
    return frame


@pytest.mark.parametrize("way", WAYS)
def test_runs_beside_each_other_are_told_apart(way: str) -> None:
    table = read_log(beside(way))
    assert table["run"].unique().tolist() == ["seed=3", "seed=1"]
    for seed, log in SEEDS.items():
        own = table[table["run"] == f"seed={seed}"].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, read_log(log, run=f"seed={seed}"))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("way", WAYS)
def test_what_runs_beside_each_other_have_in_common_is_found(way: str) -> None:
    found = find_replicates(read_log(beside(way)))
    assert set(event_names(found.catalogue, found.quantities)) == {"accuracy rises", "loss falls"}


def test_a_curve_of_one_run_alone_is_that_runs() -> None:
    frame = pd.concat([LOG.assign(run=name, once=RISE if name == "a" else np.nan) for name in ("a", "b")])
    table = read_log(frame)
    assert table.groupby("run")["quantity"].unique().map(sorted).to_dict() == {
        "a": ["accuracy", "loss", "once"],
        "b": ["accuracy", "loss"],
    }


@pytest.mark.parametrize("seeds", [[1234567, 1234568], [20261123, 20261124]])
def test_long_numbers_tell_runs_apart(seeds: list[int]) -> None:
    frame = pd.concat([LOG.assign(seed=seed, Step=STEPS + number) for number, seed in enumerate(seeds)])
    assert read_log(frame)["run"].unique().tolist() == [f"seed={seed}" for seed in seeds]


def test_a_run_without_a_name_is_one(tmp_path: Path) -> None:
    pd.concat([LOG.assign(run=name) for name in ("None", "dropout")]).to_csv(tmp_path / "log.csv", index=False)
    assert read_log(tmp_path / "log.csv")["run"].unique().tolist() == ["no run", "dropout"]


@pytest.mark.parametrize(
    ("runs", "names"), [(["x", "y"], ["accuracy - top1", "loss"]), (["lr - 1", "lr - 2"], ["accuracy", "loss"])]
)
def test_dashes_may_be_in_the_names_that_weights_and_biases_exports(runs: list[str], names: list[str]) -> None:
    wide = {f"{run} - {name}": RISE for run in runs for name in names}
    table = read_log(pd.DataFrame({"Step": STEPS, **wide, "shared": RISE}))
    assert table["run"].unique().tolist() == runs
    assert table["quantity"].unique().tolist() == [*names, "shared"]


def test_a_curve_called_value_beside_others_is_no_row_a_value() -> None:
    table = read_log({"step": STEPS, "name": ["x"] * len(STEPS), "value": RISE, "loss": 3 - RISE})
    assert table["quantity"].unique().tolist() == ["value", "loss"]


@pytest.mark.parametrize("odd", [np.inf, -np.inf, 1e6, -1e6])
@pytest.mark.parametrize("place", [0, 5, -3])
def test_one_value_does_not_turn_a_curves_progress_round(odd: float, place: int) -> None:
    values = RISE.copy()
    values[place] = odd
    with pytest.warns(UserWarning, match="a is infinite at step") if np.isinf(odd) else nullcontext():
        table = read_log({"step": STEPS, "a": values})
    assert quantities_of(table)[LOGGED]["a"].progress == "up"


def test_a_column_that_is_left_out_for_a_word_in_it_is_named(tmp_path: Path) -> None:
    LOG.assign(loss=LOG["loss"].astype(object).where(STEPS != 400, "low")).to_csv(tmp_path / "log.csv", index=False)
    with pytest.warns(
        UserWarning, match="the column 'loss' is left out: among its numbers is text, 'low' first"
    ) as warned:
        table = read_log(tmp_path / "log.csv")
    assert len(warned) == 1
    assert table["quantity"].unique().tolist() == ["accuracy"]


def test_what_lines_of_json_hold_within_each_other_are_curves(tmp_path: Path) -> None:
    lines = [{"step": int(step), "eval": {"accuracy": value}} for step, value in zip(STEPS, RISE, strict=True)]
    for name, text in (("log.jsonl", "\n".join(map(json.dumps, lines))), ("log.json", json.dumps(lines))):
        (tmp_path / name).write_text(text)
        assert read_log(tmp_path / name)["quantity"].unique().tolist() == ["eval/accuracy"]


def test_runs_that_follow_each_other_are_one_that_was_resumed_or_no_runs() -> None:
    resumed = pd.concat([LOG[:40].assign(run_id="a"), LOG[30:].assign(run_id="b")])
    with pytest.warns(UserWarning, match="was logged again from step 1500 on, .*: 10 earlier values") as warned:
        table = read_log(resumed)
    assert [str(each.message).split()[0] for each in warned] == ["accuracy", "loss"]
    pd.testing.assert_frame_equal(table, read_log(LOG))
    pd.testing.assert_frame_equal(read_log(LOG.assign(seed=range(len(LOG)))), read_log(LOG))  # drawn anew at every step


def test_steps_may_be_the_index_and_in_any_order() -> None:
    expected = read_log(LOG)
    indexed = LOG.rename(columns={"Step": "step"}).set_index("step").iloc[::-1]
    pd.testing.assert_frame_equal(read_log(indexed), expected)
    pd.testing.assert_frame_equal(read_log(LOG.assign(Step=STEPS.astype(str))), expected)


@pytest.mark.parametrize("every", [50, 1])
def test_of_what_a_resumed_run_logged_again_the_later_values_count(every: int) -> None:
    steps, again = np.arange(0, 1500, every), np.arange(1000, 3000, every)
    log = pd.DataFrame({"step": [*steps, *again], "loss": [*(0 * steps), *(0 * again + 1)]})
    with pytest.warns(UserWarning, match=rf"loss was logged again from step 1000 on.*{500 // every} earlier values"):
        table = read_log(log)
    apart = table[(table["step"] - 1000).abs() > 10]  # values on both sides of it are averaged
    assert apart["value"].tolist() == (apart["step"] >= 1000).astype(float).tolist()


@pytest.mark.parametrize("steps", [[0, 10, 20, 0, 10, 20], [0, 10, 10, 20, 20, 30], [20, 10, 10, 0], [*range(500)] * 2])
def test_several_values_at_a_step_are_refused_where_no_resumed_run_explains_them(steps: list[int]) -> None:
    with pytest.raises(
        ValueError,
        match=r"loss has several values at step|steps of loss begin anew, as of 2",
    ):
        read_log({"step": steps, "loss": np.arange(len(steps))})


@pytest.mark.parametrize("name", ["epoch", "Epoch", "time/total_timesteps", "Unnamed: 0"])
def test_a_column_that_counts_something_else_is_taken_where_there_are_no_steps_and_told(name: str) -> None:
    with pytest.warns(UserWarning, match=f"there is no column of steps: '{name}' is taken for it"):
        table = read_log({"loss": [3.0, 2.0, 1.0], name: [1, 2, 3]})
    assert table[["quantity", "step", "value"]].to_numpy().tolist() == [
        ["loss", 1, 3.0],
        ["loss", 2, 2.0],
        ["loss", 3, 1.0],
    ]
    with pytest.raises(ValueError, match="there is no column of steps"):
        read_log({"loss": [3.0, 2.0], "samples_seen": [0.5, 1.0]})


@pytest.mark.parametrize(
    ("epochs", "parts", "steps"),
    [
        ([0.5, 1.0, 1.5], "tenths", [5, 10, 15]),
        ([0.25, 0.5, 1.0], "hundredths", [25, 50, 100]),
        ([1 / 3, 2 / 3, 1], "thousandths", [333, 667, 1000]),
        ([0.0001, 0.0003, 0.0005], "millionths", [100, 300, 500]),
    ],
)
@pytest.mark.parametrize("asked", [None, "train/Epoch"])
def test_parts_of_epochs_are_counted_in_whole_ones(
    epochs: list[float], parts: str, steps: list[int], asked: str | None
) -> None:
    with pytest.warns(UserWarning, match=f"steps are counted in {parts} of an epoch, by 'train/Epoch'"):
        table = read_log({"train/Epoch": epochs, "loss": [3.0, 2.0, 1.0]}, steps=asked)
    assert table["step"].tolist() == steps


def test_steps_count_before_parts_of_epochs_and_rows_are_offered_beside_parts_of_anything_else() -> None:
    table = read_log({"iteration": [1, 2], "epoch": [0.5, 1.0], "loss": [3.0, 2.0]})
    assert table["step"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="'rows' counts the rows"):
        read_log({"hours": [0.5, 1.0], "loss": [3.0, 2.0]})
    with pytest.raises(ValueError, match="'rows' counts the rows"):
        read_log({"hours": [0.5, 1.0], "loss": [3.0, 2.0]}, steps="hours")


def test_a_learning_rate_is_no_progress_whatever_it_is_called() -> None:
    names = ("lr", "learning_rate", "train/learning_rate", "lr-AdamW/pg1", "loss")
    table = read_log({"step": [0, 1, 2], **{name: [3.0, 2.0, 1.0] for name in names}, "train/epoch": [0, 1, 2]})
    progress = {name: one.progress for name, one in quantities_of(table)[LOGGED].items()}
    assert progress == {**dict.fromkeys(names), "loss": "down"}


def test_curves_may_have_steps_of_their_own() -> None:
    sparse = LOG["loss"].where(STEPS % 100 == 0)
    table = read_log(LOG.assign(loss=sparse))
    assert table.groupby("quantity")["step"].size().to_dict() == {"accuracy": 60, "loss": 30}
    assert find_onsets(table)["onset"].tolist() == [True, True]


@pytest.mark.parametrize("steps", [None, "tokens"])
def test_the_column_of_steps_is_known_or_named(steps: str | None) -> None:
    table = read_log({"global_step": [0, 1, 2], "tokens": [0, 64, 128], "loss": [3.0, 2.0, 1.0]}, steps)
    of_loss = table[table["quantity"] == "loss"]
    assert of_loss["step"].tolist() == ([0, 1, 2] if steps is None else [0, 64, 128])


@pytest.mark.parametrize(
    ("source", "steps", "reason"),
    [
        (
            {"x": [0, 1], "loss": [1.0, 2.0]},
            None,
            "there is no column of steps .`steps`, or --step-column, names it.; there are x, loss",
        ),
        ({"step": [0, 1], "loss": [1.0, 2.0]}, "tokens", "there is no column 'tokens'"),
        ({"step": [0.5, 1], "loss": [1.0, 2.0]}, None, "steps are whole numbers, from 0 on"),
        ({"step": [1, 1e30], "loss": [1.0, 2.0]}, None, "steps are whole numbers, from 0 on and below 2"),
        ({"step": [0, 1], "note": ["a", "b"]}, None, "no column holds numbers beside 'step'; there are step, note"),
    ],
)
def test_what_holds_no_curves_is_refused(source: dict[str, list[Any]], steps: str | None, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_log(source, steps)


@pytest.mark.parametrize(("name", "text"), [("log.csv", ""), ("log.json", "{"), ("log.json", "3"), ("log.jsonl", "{")])
def test_a_file_without_columns_is_refused_by_its_name(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=f"{name} holds no columns of curves"):
        read_log(tmp_path / name)


def test_the_log_of_trainer_is_read(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    from transformers import Trainer, TrainingArguments

    model = hugging_face("GPT2")
    data = [{name: list(range(1, 7)) for name in ("input_ids", "labels")}] * 8
    arguments = TrainingArguments(
        str(tmp_path), max_steps=6, logging_steps=1, eval_strategy="steps", eval_steps=3, save_steps=6, use_cpu=True,
        report_to=[], disable_tqdm=True, include_num_input_tokens_seen=True,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=data, eval_dataset=data).train()
    table = read_log(tmp_path / "checkpoint-6" / "trainer_state.json")
    assert set(table["run"]) == {tmp_path.name}
    steps = {name: rows["step"].tolist() for name, rows in table.groupby("quantity")}
    assert steps["loss"] == [1, 2, 3, 4, 5, 6]
    assert steps["eval_loss"] == [3, 6]
    assert steps.keys() == {"loss", "eval_loss", "grad_norm", "learning_rate"}


def test_the_log_of_lightning_is_read(tmp_path: Path) -> None:
    loggers = pytest.importorskip("lightning.pytorch.loggers", reason="Lightning is not installed")
    logger = loggers.CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    for step in range(4):
        logger.log_metrics({"train_loss": 3.0 - step, "epoch": 0}, step)
        if step % 2:
            logger.log_metrics({"val_loss": 4.0 - step}, step)
    logger.save()
    table = read_log(Path(logger.log_dir, "metrics.csv"))
    steps = {name: rows["step"].tolist() for name, rows in table.groupby("quantity")}
    assert steps == {"train_loss": [0, 1, 2, 3], "val_loss": [1, 3]}


@pytest.mark.usefixtures("unchecked")
def test_steps_that_are_no_name_of_a_column_are_refused_with_where_they_belong() -> None:
    with pytest.raises(ValueError, match=r"as in read_log\(\{'step': steps, 'loss': loss\}\)"):
        read_log({"loss": [2.0, 1.0]}, steps=np.arange(2))  # type: ignore[arg-type]


def test_of_two_columns_that_count_steps_that_of_the_optimiser_is_taken_and_both_are_named(tmp_path: Path) -> None:
    frame = LOG.rename(columns={"Step": "trainer/global_step"}).assign(Step=range(len(LOG)))
    with pytest.warns(UserWarning, match="'trainer/global_step' and 'Step' count steps: the first is taken; `steps`"):
        table = read_log(frame)
    assert table["step"].unique().tolist() == STEPS.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_log(frame, "Step")["step"].max() == len(LOG) - 1


def test_steps_are_those_that_rows_of_an_evaluation_have_too() -> None:
    train = pd.DataFrame({"global_step": STEPS, "step": STEPS, "loss": 3 - RISE})
    evaluated = pd.DataFrame({"step": STEPS[::3], "val_loss": 3.1 - RISE[::3]})
    with pytest.warns(UserWarning, match="'step' and 'global_step' count steps: the first is taken"):
        table = read_log(pd.concat([train, evaluated], ignore_index=True))
    steps = {name: rows["step"].tolist() for name, rows in table.groupby("quantity")}
    assert steps == {"loss": STEPS.tolist(), "val_loss": STEPS[::3].tolist()}


def test_rows_of_micro_batches_have_the_steps_that_tell_them_apart() -> None:
    frame = pd.DataFrame({"iter": range(40), "step": np.repeat(range(10), 4), "loss": np.linspace(2, 1, 40)})
    with pytest.warns(UserWarning, match="'iter' and 'step' count steps: the first is taken"):
        assert read_log(frame)["step"].tolist() == [*range(40)]


def test_a_history_of_weights_and_biases_is_a_log() -> None:
    rows = [
        {"_step": int(step), "_runtime": 0.1, "loss": float(value)} for step, value in zip(STEPS, RISE, strict=True)
    ]
    assert read_log(rows)["value"].tolist() == pytest.approx(RISE.tolist())


def test_a_file_that_is_there_is_a_log_or_refused_as_one(tmp_path: Path) -> None:
    for name in ("train.log", "out.txt", "nohup"):
        path = tmp_path / name
        path.write_text("".join(f"step {step} loss {value}\n" for step, value in zip(STEPS, RISE, strict=True)))
        assert is_log(path)
        with pytest.warns(UserWarning, match=f"{name}: the step is 'step'"):
            assert read_log(path)["value"].tolist() == pytest.approx(RISE.tolist())
    columns = tmp_path / "columns.txt"
    LOG.to_csv(columns, sep="\t", index=False)
    assert read_log(columns)["step"].unique().tolist() == STEPS.tolist()


def test_a_real_log_of_llm_c_is_read_line_by_line(logs: Path) -> None:
    path = logs / "llmc-gpt2.log"
    with pytest.warns(UserWarning, match=r"the step is 's' \(\d+ lines\)$"):
        table = read_log(path)
    assert set(table["quantity"]) == {"tel", "trl", "lr", "norm"}
    last = table[table["quantity"] == "trl"]
    assert 19_000 < last["step"].max() < 19_561
    assert last["value"].iloc[-1] < 3.5


def test_an_infinite_value_is_left_out_and_named_and_the_jump_is_told() -> None:
    steps, generator = np.arange(0, 800, 20), np.random.default_rng(0)
    reward = 0.1 + 0.8 / (1 + np.exp(-(steps - 400) / 15)) + 0.01 * generator.standard_normal(len(steps))
    reward[[5, 9]] = np.inf, -np.inf
    with pytest.warns(UserWarning, match="reward is infinite at step 100, and 1 more values: left out"):
        table = read_log({"step": steps, "reward": reward})
    assert len(table) == len(steps) - 2
    [half_way] = find_onsets(table)["t50"]
    assert 380 < half_way < 420


@pytest.mark.parametrize("blank", ["", "-", "None", "NaN"])
@pytest.mark.parametrize("every", [2, 5])
def test_empty_cells_are_empty_not_infinite(blank: str, every: int, tmp_path: Path) -> None:
    rows = [f"{step},{3 - step / 100:.2f},{step / 100 if step % every == 0 else blank}" for step in range(100)]
    (tmp_path / "log.csv").write_text("\n".join(["step,loss,mAP", *rows]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = read_log(tmp_path / "log.csv")
    curve = table[table["quantity"] == "mAP"]
    assert curve["step"].tolist() == [*range(0, 100, every)]
    assert np.isfinite(table["value"]).all()


def test_empty_cells_that_a_database_or_lightning_writes_are_empty(tmp_path: Path) -> None:
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    logger = loggers.CSVLogger(str(tmp_path), name="logs", version=0)
    for step in range(40):
        logger.log_metrics({"train_loss": 3 - step / 100}, step)
        if step % 10 == 9:
            logger.log_metrics({"val_mAP": step / 100}, step)
    logger.save()
    table = read_log(tmp_path / "logs" / "version_0" / "metrics.csv")
    assert table.groupby("quantity")["value"].count().to_dict() == {"train_loss": 40, "val_mAP": 4}
    assert np.isfinite(table["value"]).all()
