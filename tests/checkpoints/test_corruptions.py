"""Planted corruptions of series that really trained, of three kinds of models: what the audit names, and what not."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from evidence.calibration.audit.clean_series import (
    COPY,
    HELD_OUT,
    LLAMA,
    TUNED,
    Training,
    constant,
    fitted,
    hooked,
    own,
    trainer,
)
from evidence.calibration.audit.corruptions import CORRUPTIONS, tried
from evidence.calibration.audit.corruptions import HELD_OUT as OTHER_CORRUPTIONS
from evidence.calibration.audit.planted import Planted
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find
from stagewise.schedules import linear

QUICK = {
    "hooked": Training(
        hooked, {"rate": constant(3e-3), "save": range(0, 91, 9), "wrapper": "model", "n_layers": 1, "batch": 8}
    ),
    "trainer": Training(trainer, {"kind": "Llama", "save": 10, "steps": 120, "config": {**LLAMA, "hidden_size": 16}}),
    "own": Training(
        own, {"task": COPY, "architecture": fitted(COPY, normalization_type="LN"), "steps": 120, "batch_size": 16,
              "save": linear(10, 120), "learning_rate": 3e-3},
    ),
}  # fmt: skip
UNKNOWN = {"last step gone"}
"""Nothing in a folder of files tells that there was one more."""

pytestmark = pytest.mark.hooked_only("the series are of HookedTransformers, whose buffers the audit knows")


FEW = (
    "another seed",
    "gain scaled",
    "layer of another step",
    "own step disagrees",
    "cut short",
)


def both(kind: str, folder: Path) -> tuple[Path, Path]:
    """Train a clean series of one kind, and the same of another seed."""
    training = QUICK[kind]
    return training.write(folder / "series"), training._replace(seed=100).write(folder / "other")


def missed(series: Path, other: Path, names: Iterable[str]) -> tuple[int, list[str], list[str]]:
    """Plant corruptions: return how many applied, which were not named, and which were named at other steps too."""
    generator, steps = torch.Generator().manual_seed(0), Planted(series).steps
    unnamed, elsewhere, applied = [], [], 0
    for number, name in enumerate(names):
        step = steps[-1] if name == "last step gone" else steps[4 + number % 5]
        if (result := tried(series, other, CORRUPTIONS[name], step, generator)) is not None:
            applied += 1
            unnamed += [] if result[0] else [name]
            elsewhere += [name] if result[1] else []
    return applied, unnamed, elsewhere


@pytest.mark.slow
def test_a_clean_series_is_clean_whole_and_in_part_and_corruptions_of_it_are_named(tmp_path: Path) -> None:
    series, other = both("hooked", tmp_path)
    source = find(series)
    steps = [entry.at.step for entry in source.entries]
    for chosen in (steps, steps[:5], steps[4:]):
        assert audit(source.only(chosen)).clean
    assert missed(series, other, FEW) == (len(FEW), [], [])


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUICK)
def test_at_least_eighteen_of_twenty_corruptions_are_named_at_their_step(kind: str, tmp_path: Path) -> None:
    applied, unnamed, elsewhere = missed(*both(kind, tmp_path), CORRUPTIONS)
    assert applied >= 20
    assert len(unnamed) <= 2, unnamed
    assert len(elsewhere) <= 2, elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("name", TUNED | HELD_OUT)
def test_no_alarm_is_false(name: str, tmp_path: Path) -> None:
    source = find((TUNED | HELD_OUT)[name].write(tmp_path / "series"))
    found = audit(source)
    assert found.clean, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hooked rotary", "trainer neox polynomial", "own recall"])
def test_nine_of_ten_corruptions_of_other_series_are_named(name: str, tmp_path: Path) -> None:
    training = HELD_OUT[name]
    series = training.write(tmp_path / "series")
    other = training._replace(seed=training.seed + 100).write(tmp_path / "other")
    steps, generator = Planted(series).steps, torch.Generator().manual_seed(0)
    corruptions = {**CORRUPTIONS, **OTHER_CORRUPTIONS}
    results = {
        kind: tried(series, other, corruption, steps[len(steps) // 2], generator)
        for kind, corruption in corruptions.items()
        if kind not in UNKNOWN
    }
    named = [result[0] for result in results.values() if result is not None]
    missed = [kind for kind, result in results.items() if result is not None and not result[0]]
    assert sum(named) >= 0.9 * len(named), missed
