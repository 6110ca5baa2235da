"""KL to references, and to the model itself with restricted context."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from stagewise import plot
from stagewise.plot._references import _KL_FLOOR


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_the_kl_figure_shows_the_truncated_truths_unless_asked_for_others(table: pd.DataFrame) -> None:
    assert [text for text in texts(plot.kl_curves(table)) if "KL to" in text] == [
        "KL to A*_1",
        "KL to A*_1:2",
    ]
    assert texts(plot.kl_curves(table, ["uniform"])) == ["KL to uniform"]
    with pytest.raises(ValueError, match=r"no KL to trained c=2; it has uniform, A\*_1, A\*_1:2"):
        plot.kl_curves(table, ["trained c=2"])


def test_theory_is_dashed_in_the_colour_of_its_reference(table: pd.DataFrame) -> None:
    lines = plot.kl_curves(table, ["A*_1"], theory=table).get_lines()
    measured, theory = lines
    assert (measured.get_linestyle(), theory.get_linestyle()) == ("-", "--")
    assert measured.get_color() == theory.get_color()


def test_contexts_are_in_their_order_on_a_log_scale(table: pd.DataFrame) -> None:
    shuffled = table.sample(frac=1, random_state=0)
    ax = plot.restricted_context(shuffled)
    assert [str(line.get_label()) for line in ax.get_lines()] == ["c = 1", "c = 2"]
    assert (ax.get_yscale(), ax.get_ylim()[0]) == ("log", _KL_FLOOR)
    rows = table[(table["probe"] == "RestrictedContextKL") & (table["context"] == 2)].sort_values("step")
    np.testing.assert_allclose(np.asarray(ax.get_lines()[1].get_ydata()), rows["value"].astype(float))


def test_references_without_an_order_are_all_drawn(table: pd.DataFrame) -> None:
    lines = plot.kl_curves(table.assign(nested=0)).get_lines()
    assert [line.get_label() for line in lines] == ["KL to uniform", "KL to A*_1", "KL to A*_1:2"]
