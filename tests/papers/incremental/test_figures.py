"""Figures show what was measured: every reference, every map."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from stagewise import analysis
from stagewise.checkpoints.run_folder import read_table, table_file
from stagewise.papers.incremental import _figures as incremental_figures
from stagewise.papers.incremental.recipes import FIGURES
from stagewise.recipe import Recipe


@pytest.fixture(scope="module")
def measured_run(small_folder: Path, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    shutil.copytree(small_folder, folder)
    analysis.measure_run(small_recipe, folder, progress=False)
    return folder


def figure_of(kind: str) -> str:
    """Return the name of a figure of a kind."""
    return next(name for name, figure in FIGURES.items() if figure.kind == kind)


def drawing(kind: str, folder: Path) -> Figure:
    """Draw the run as a figure of a kind."""
    summary = pd.DataFrame({"run": ["mine"], "folder": [folder.name]})
    return incremental_figures.draw(figure_of(kind), incremental_figures.measured_runs(folder.parent, summary), summary)


@pytest.mark.slow
@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", ["stages", "curves"])
def test_a_figure_shows_the_curve_of_every_reference(kind: str, measured_run: Path) -> None:
    drawn = drawing(kind, measured_run)
    rows = read_table(measured_run).query("probe == 'KLToReference' and quantity == 'kl' and nested > 0")
    lines = [line for part in drawn.subfigs for ax in part.axes for line in ax.get_lines()]
    shown = [np.asarray(line.get_ydata(), dtype=float) for line in lines]
    for reference, curve in rows.sort_values("step").groupby("reference"):
        values = curve["value"].to_numpy()
        assert any(each.shape == values.shape and np.allclose(each, values) for each in shown), reference


def test_maps_are_those_that_were_measured(measured_run: Path) -> None:
    drawn = drawing("maps", measured_run)
    images = [ax.get_images()[0].get_array() for part in drawn.subfigs for ax in part.axes if ax.get_images()]
    steps = table_file(measured_run).read(["MeanPattern"], arrays=["map"])["step"]
    assert len(images) >= 2
    assert steps.nunique() > 2
    assert all(np.asarray(image).sum() > 0 for image in images)


def test_heads_that_end_on_one_group_have_one_colour_in_every_run_and_a_second_one_another() -> None:
    def colours(*ends_on: int) -> list[str]:
        masses = [(1, 0, head, f"I({k})", float(k == end)) for head, end in enumerate(ends_on) for k in (1, 2, 3)]
        table = pd.DataFrame(masses, columns=["step", "layer", "head", "relation", "value"])
        of_heads = incremental_figures._colours(table.assign(run="mine", probe="AttentionTo", quantity="mass"))
        return [of_heads[0, head] for head in range(len(ends_on))]

    first, second, third = colours(1, 2, 3)
    assert colours(3, 1, 2) == [third, first, second]
    *others, again = colours(1, 3, 2, 1)
    assert others == [first, third, second]
    assert again not in others
