"""Panels of the figures of emergence: curves with their names, a law or the reason why there is none."""

import numpy as np
import pandas as pd
import pytest

from stagewise.papers.emergence._numbers import law_of
from stagewise.papers.emergence._panels import draw_curves, draw_law, log_log, panels
from stagewise.papers.power_law import NoLaw


@pytest.fixture
def runs() -> pd.DataFrame:
    pairs = np.array([4, 4, 8, 8, 16, 16])
    return pd.DataFrame(
        {"n_pairs": pairs, "n_tokens": 64, "seed": [0, 1] * 3, "lo": 100.0 * pairs, "hi": 110.0 * pairs}
    )


def test_curves_go_through_their_rows_on_a_linear_axis_from_zero() -> None:
    _, (ax, _) = panels(2)
    rows = {
        name: pd.DataFrame({"step": [5, 10, 20], "value": [0.1, height, 1.0]})
        for name, height in (("a", 0.2), ("b", 0.5))
    }
    draw_curves(ax, list(rows.items()))
    assert (ax.get_xscale(), ax.get_xlim()[0]) == ("linear", 0)
    for line in ax.get_lines():
        np.testing.assert_allclose(np.asarray(line.get_xydata()), rows[str(line.get_label())])


def test_where_there_is_no_law_its_reason_stands_in_the_panel(runs: pd.DataFrame) -> None:
    _, (ax, _) = panels(2)
    law = law_of(runs.iloc[:2], ["n_pairs"])
    assert isinstance(law, NoLaw)
    draw_law(ax, runs, law, "n_pairs")
    assert ax.texts[0].get_text().replace("\n", " ") == str(law)
    assert not ax.axison


def test_runs_that_follow_a_law_collapse_on_it_in_the_letters_of_the_paper(runs: pd.DataFrame) -> None:
    _, (ax, _) = panels(2)
    draw_law(ax, runs, law_of(runs, ["n_pairs"]), "n_pairs")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.axison
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["N_pairs = 4", "N_pairs = 8", "N_pairs = 16"]
    assert "N_pairs^1.00" in ax.get_title()


def test_a_logarithmic_axis_has_a_tick_at_every_size_and_no_other() -> None:
    _, (ax,) = panels(1)
    ax.plot([16, 64], [900, 30_000])
    log_log(ax, pd.Series([16, 64, 16, 32]))
    assert ax.get_xticks().tolist() == [16, 32, 64]
    assert ax.get_xticks(minor=True).tolist() == []
    ax.figure.draw_without_rendering()  # type: ignore[union-attr]
    assert {"1000", "5000", "10k"} <= {label.get_text() for label in ax.get_yticklabels()}


@pytest.mark.parametrize(("n", "rows"), [(1, 1), (3, 1), (4, 2)])
def test_more_than_three_panels_stand_in_two_rows(n: int, rows: int) -> None:
    figure, axes = panels(n)
    figure.draw_without_rendering()
    assert len(axes) == n
    assert len({round(ax.get_position().y0, 6) for ax in axes}) == rows


@pytest.mark.parametrize("n", [3, 6, 9])
def test_curves_of_a_panel_have_colours_of_their_own(n: int) -> None:
    _, (ax,) = panels(1)
    draw_curves(ax, [(f"{i}", pd.DataFrame({"step": [0, 1], "value": [0.0, i]})) for i in range(n)])
    lines = ax.get_lines()
    assert len({line.get_color() for line in lines}) == n
    assert (len({line.get_marker() for line in lines}) == n) is (n > 4)
