"""Changes of a run that its log shows without naming them take the place of a stage, and what looks alike does not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.stages import Stages, find_stages
from stagewise.learning_rates import CHANGES
from stagewise.words._answer import answer

STEPS = np.arange(120) * 100
LATE = STEPS >= 6000
SLOW = 1 - np.exp(-STEPS / 4000)
BIT = float(np.log2(np.e))


def loss(seed: int, offset: float = 0.0) -> np.ndarray:
    """A power law with noise."""
    return 2.2 + offset + 6 * (STEPS + 50.0) ** -0.25 + np.random.default_rng(seed).normal(0, 0.01, len(STEPS))


def score(seed: int) -> np.ndarray:
    """A share that rises slowly."""
    return 0.25 + 0.3 * SLOW + np.random.default_rng(seed).normal(0, 0.003, len(STEPS))


def of(**curves: Any) -> Stages:
    return find_stages(read_log({"step": STEPS, **curves}))


SIX = {"train_loss": loss(0), "val_loss": loss(1, 0.1), "acc": score(2), "val_acc": score(3)}
SIX |= {"norm": 50 + STEPS / 400 + 0.1 * SLOW, "grad_norm": 1 + 0.03 * np.random.default_rng(4).standard_normal(120)}
MOVES = {"train_loss": -0.3, "val_loss": -0.28, "acc": 0.08, "val_acc": 0.07, "norm": -6, "grad_norm": -0.4}

JUMPS: dict[str, tuple[str, dict[str, np.ndarray]]] = {
    "nats to bits": ("bits in place of nats in loss", {"loss": loss(5) * np.where(LATE, BIT, 1)}),
    "bits to nats": ("nats in place of bits in loss", {"loss": loss(5) * np.where(LATE, 1, BIT), "val_loss": loss(6)}),
    "a sum": (
        "sums in place of means, or other batches, in loss",
        {"loss": loss(7) * np.where(LATE, 32, 1), "val_loss": loss(8)},
    ),
    "a mean": ("sums in place of means, or other batches, in loss", {"loss": loss(7) * np.where(LATE, 1, 8)}),
    "percent": ("percent in place of shares, or the reverse, in acc", {"acc": score(9) * np.where(LATE, 100, 1)}),
    "other data": (
        "other data or another measure of train_loss, which jumps within one row without eval_loss",
        {"train_loss": loss(10) - 0.4 * LATE, "eval_loss": loss(11, 0.1)},
    ),
    "more data": (
        "other data or another measure of train/loss, which jumps within one row without eval/loss",
        {"train/loss": loss(10) + 0.4 * LATE, "eval/loss": loss(11, 0.1)},
    ),
    "a term more": ("other data or another measure of loss", {"loss": loss(12) + 0.5 * LATE}),
    "all fall": ("all 6 curves jump", {f"c{i}": loss(20 + i) - (0.3 + 0.05 * i) * LATE for i in range(6)}),
    "all move": ("all 6 curves jump", {name: curve + MOVES[name] * LATE for name, curve in SIX.items()}),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", JUMPS)
def test_a_jump_within_one_row_that_is_no_learning_is_told_with_its_cause_in_place_of_a_stage(name: str) -> None:
    cause, curves = JUMPS[name]
    stages = of(**curves)
    assert len(stages) == 1
    none, told, *_ = answer(stages)
    assert none == "No transition was found."
    assert told.startswith("What looks like ")
    assert f"{cause}" in told
    assert "at step 5950 explains the change" in told


ALIKE: dict[str, dict[str, np.ndarray]] = {
    "both losses fall": {"train_loss": loss(30) - 0.4 * LATE, "eval_loss": loss(31) - 0.4 * LATE},
    "a test is learned between two evaluations": {
        "train_acc": np.minimum(1, 0.02 + STEPS / 500),
        "test_acc": np.where(LATE, 0.99, 0.0097),
    },
    "three curves, of which one is done": {
        "train_loss": 0.01 + 3 * np.exp(-STEPS / 500),
        "val_loss": np.where(LATE, 0.1, 3) + 0.02 * loss(33),
        "val_acc": np.where(LATE, 0.98, 0.1) + 0.02 * score(34),
    },
    "a run diverges": {
        "train_loss": np.where(LATE, 6.9 + np.random.default_rng(41).normal(0, 0.05, 120), loss(42)),
        "val_acc": np.where(LATE, 0.01, score(43)),
    },
    "a loss rises for good": {"loss": np.where(LATE, 3.5 + np.random.default_rng(46).normal(0, 0.01, 120), loss(46))},
    "a loss rises and falls on, but not on data held out": {
        "train_loss": loss(44) + 0.5 * LATE,
        "val_acc": score(45) - 0.2 * LATE,
    },
    "a fall over some rows": {
        "train_loss": loss(35) - 0.4 / (1 + np.exp(-(STEPS - 6000) / 150)),
        "eval_loss": loss(36),
    },
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", ALIKE)
def test_what_may_be_learned_within_one_row_is_a_stage(name: str) -> None:
    stages = of(**ALIKE[name])
    assert any(5900 <= row["start"] <= 6200 for row in stages.table.iloc[1:].to_dict("records"))
    assert not [cause for cause in stages.onsets["cause"] if cause]


def test_each_jump_of_a_curve_has_its_own_name() -> None:
    later = STEPS >= 9000
    data = {"train_loss": loss(10) + 0.4 * LATE + 0.4 * later, "eval_loss": loss(11, 0.1)}
    units = {"loss": loss(5) * np.where(LATE & ~later, BIT, 1)}
    assert [*of(**data).causes.values()] == [5950, 8950]
    assert [*of(**units).causes.values()] == [5950, 8950]


def test_falls_of_the_training_loss_one_after_another_are_stairs() -> None:
    stages = of(train_loss=2 + 0.1 * loss(12) - 0.4 * LATE - 0.4 * (STEPS >= 9000), eval_loss=2 + 0.1 * loss(13))
    assert stages.causes == {}
    assert len(stages) == 3


def test_a_curve_that_falls_by_half_at_few_evaluations_is_no_change_of_its_unit() -> None:
    steps = 2 ** np.arange(14)
    assert find_stages(read_log({"step": steps, "loss": np.where(steps > 100, 1.0, 1.0 * BIT)})).causes == {}


def test_a_spike_is_no_change_of_the_run() -> None:
    assert of(loss=loss(40) + 0.5 * np.isin(STEPS, (6000, 6100))).causes == {}


@pytest.mark.each_value
@pytest.mark.parametrize("back", [200, 1500])
@pytest.mark.parametrize("offset", [0.35, 0.0])
def test_the_seam_of_a_resumed_run_is_the_cause_of_what_changes_there(back: int, offset: float, tmp_path: Path) -> None:
    before, after = loss(50), loss(51, offset)
    last, first = 60, 60 - back // 100
    rows = [*zip(STEPS[: last + 1], before[: last + 1], strict=True), *zip(STEPS[first:], after[first:], strict=True)]
    lines = [json.dumps({"step": int(step), "loss": value}) for step, value in rows]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match="as by a resumed run"):
        stages = find_stages(read_log(tmp_path / "log.jsonl"))
    assert stages.causes["the resumption of the run"] == 100 * first - 50
    assert len(stages) == 1
    told = f"esumption of the run at step {100 * first - 50}"
    assert (
        f"{told} explains the change" in " ".join(answer(stages)) if offset else f"{told}." in " ".join(answer(stages))
    )


def test_where_a_version_of_lightning_goes_on_the_run_was_resumed(tmp_path: Path) -> None:
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    for version, part in enumerate((slice(0, 60), slice(60, None))):
        logger = loggers.CSVLogger(str(tmp_path), name="logs", version=version)
        for step, value in zip(STEPS[part].tolist(), loss(52, 0.4 * version)[part].tolist(), strict=True):
            logger.log_metrics({"train_loss": value}, step)
        logger.save()
    stages = find_stages(read_log(tmp_path / "logs"))
    assert stages.causes["the resumption of the run"] == 5950
    assert len(stages) == 1


def test_of_a_step_that_is_logged_twice_nothing_was_resumed() -> None:
    with pytest.warns(UserWarning, match="logged again"):
        table = read_log({"step": [*STEPS, STEPS[-1]], "loss": [*loss(53), 2.9]})
    assert json.loads(table.attrs[CHANGES]) == {"run": {}}


@pytest.mark.parametrize("name", ["tokens", "train/consumed_samples"])
def test_batches_of_another_size_are_seen_in_what_a_run_has_read(name: str) -> None:
    read = np.where(LATE, 6000 * 1024 + (STEPS - 6000) * 4096, STEPS * 1024)
    drop = 0.25 * np.where(LATE, 1 - np.exp((5900 - STEPS) / 200), 0)
    stages = of(**{name: read, "loss": loss(60) - drop})
    assert stages.causes == {f"{name} a step's rise to 4096": 6000}
    assert len(stages) == 1


def test_batches_of_all_sizes_are_no_change() -> None:
    read = np.cumsum(np.random.default_rng(0).integers(900, 1100, 120))
    assert of(tokens=read, loss=loss(61)).causes == {}
    assert of(tokens=STEPS * 1024, loss=loss(61)).causes == {}


def test_what_changes_where_a_loss_becomes_nan_is_no_stage() -> None:
    stages = of(loss=np.where(LATE, np.nan, loss(70)), grad_norm=np.where(LATE, 0, SIX["grad_norm"]))
    assert len(stages) == 1
    assert "The nan of loss at step 5950 explains the change of 1 curve: " in " ".join(answer(stages))


def test_a_change_that_a_column_tells_is_named_by_that() -> None:
    batches = {"batch_size": np.where(LATE, 128, 32), "seq_len": 512}
    stages = of(**batches, **{f"c{i}": loss(80 + i) - 0.4 * LATE for i in range(4)})
    assert stages.causes == {"batch_size's rise to 128": 5950}
    assert len(stages) == 1


def test_each_run_of_a_log_has_its_own_changes() -> None:
    frames = [pd.DataFrame({"step": STEPS, "seed": seed, "loss": loss(90) + seed * 0.5 * LATE}) for seed in (0, 1)]
    changes = json.loads(read_log(pd.concat(frames)).attrs[CHANGES])
    assert {run: [*of.values()] for run, of in changes.items()} == {"seed=0": [], "seed=1": [5950]}
