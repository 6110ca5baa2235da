"""The script of the demo that the bench compares with: it trains, measures and draws what stagewise does."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from evidence.bench import lean_demo
from evidence.bench.first_hour import check_numbers
from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import RESTRICTED
from stagewise.presets import recipe_for
from stagewise.probes import AttentionTo, HeadAblation, KLToReference, Loss
from stagewise.tasks import MarkovChain
from stagewise.tasks.windows import restricted_recipe
from stagewise.training import train

STEPS = 3


def test_the_script_has_the_numbers_of_the_run_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    preset, run, own = recipe_for(MarkovChain), tmp_path / "run", tmp_path / "own"
    assert (list(preset.plan.saved_steps), preset.plan.steps) == (lean_demo.SAVED, lean_demo.STEPS)
    monkeypatch.setattr(lean_demo, "STEPS", STEPS)
    plan = dataclasses.replace(preset.plan, steps=STEPS, save=tuple(range(STEPS + 1)))
    recipe = dataclasses.replace(preset, plan=plan)
    train(recipe, run, progress=False)
    for context in lean_demo.CONTEXTS:
        train(restricted_recipe(recipe, context), run / RESTRICTED / str(context), progress=False)
    probes = [Loss(), AttentionTo(), HeadAblation(kinds=("mean",)), KLToReference()]
    table = measure_run(recipe, run, probes=probes, progress=False)
    lean_demo.main(run, own)
    numbers = pd.read_csv(own / "numbers.csv")
    check_numbers(table, numbers)
    assert numbers["step"].unique().tolist() == [0, 1, 2, 3]
    assert (own / "figure.svg").stat().st_size > 10_000
    with pytest.raises(AssertionError, match="KL: apart by"):
        check_numbers(table, numbers.assign(value=numbers["value"].where(numbers["probe"] != "KL", 0.0)))
