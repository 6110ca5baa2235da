"""Figures show what was measured: every reference, every map; Figure 10 is drawn from its equation."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise import analysis
from stagewise.checkpoints.run_folder import read_table, table_file
from stagewise.experiments.incremental import figures as incremental_figures
from stagewise.experiments.incremental.recipes import FIGURES
from stagewise.recipe import Recipe
from stagewise.theory.competitive import plateau_losses
from stagewise.theory.tensor_factorisation import TensorFactorisation


def test_figure_10_shows_the_loss_and_every_head() -> None:
    assert len(incremental_figures.ode(until=50).get_axes()) == 4


def test_figure_10_marks_the_plateaus_of_its_theory() -> None:
    theory = TensorFactorisation()
    lines = incremental_figures.ode(theory, until=20).get_axes()[0].get_lines()
    marked = [float(np.asarray(line.get_ydata())[0]) for line in lines if line.get_label() == "_plateau"]
    np.testing.assert_allclose(marked, plateau_losses(theory))


@pytest.fixture(scope="module")
def measured_run(small_folder: Path, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    shutil.copytree(small_folder, folder)
    analysis.measure_run(small_recipe, folder, progress=False)
    return folder


def figure_of(kind: str) -> str:
    """Return the name of a figure of a kind."""
    return next(name for name, figure in FIGURES.items() if figure.kind == kind)


def summary_of(folder: Path) -> pd.DataFrame:
    return pd.DataFrame({"run": ["mine"], "folder": [folder.name]})


@pytest.mark.parametrize("kind", ["stages", "curves"])
def test_a_figure_shows_the_curve_of_every_reference(kind: str, measured_run: Path) -> None:
    drawn = incremental_figures.draw(figure_of(kind), measured_run.parent, summary_of(measured_run))
    rows = read_table(measured_run).query("probe == 'KLToReference' and quantity == 'kl' and nested > 0")
    lines = [line for part in drawn.subfigs for ax in part.axes for line in ax.get_lines()]
    shown = [np.asarray(line.get_ydata(), dtype=float) for line in lines]
    for reference, curve in rows.sort_values("step").groupby("reference"):
        values = curve["value"].to_numpy()
        assert any(each.shape == values.shape and np.allclose(each, values) for each in shown), reference


def test_maps_are_those_that_were_measured(measured_run: Path) -> None:
    drawn = incremental_figures.draw(figure_of("maps"), measured_run.parent, summary_of(measured_run))
    images = [ax.get_images()[0].get_array() for part in drawn.subfigs for ax in part.axes if ax.get_images()]
    steps = table_file(measured_run).read(["MeanPattern"], arrays=["map"])["step"]
    assert len(images) >= 2
    assert steps.nunique() > 2
    assert all(np.asarray(image).sum() > 0 for image in images)
