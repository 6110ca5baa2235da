"""Figures of a model of text: what is drawn is what the table says."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb

from stagewise.findings.crossings import Crossing
from stagewise.papers.wikitext.text_figures import HEAD_KINDS, N_GRAMS, head_curves, n_gram_curves

STEPS = (0, 10, 100, 1000)
FOUND = [Crossing("unigram", "bigram", 10, 100), Crossing("bigram", "trigram", 1000, float("inf"))]


def curve(probe: str, quantity: str, level: float, **axes: Any) -> pd.DataFrame:
    rows = pd.DataFrame({"step": STEPS, "value": [level + 1, level + 0.5, level + 0.2, level]})
    return rows.assign(run="run", probe=probe, quantity=quantity, nested=0, **axes)


@pytest.fixture
def kl() -> pd.DataFrame:
    return pd.concat([curve("KLToReference", "kl", i, reference=name) for i, name in enumerate(N_GRAMS)])


def test_only_a_crossing_that_was_seen_is_a_band(kl: pd.DataFrame) -> None:
    (ax,) = n_gram_curves(kl, FOUND).axes
    (band,) = ax.patches
    edges = band.get_extents().transformed(ax.transData.inverted())
    assert (edges.x0, edges.x1) == pytest.approx((10, 100))
    line = next(line for line in ax.get_lines() if line.get_label() == "KL to bigram")
    assert band.get_facecolor()[:3] == pytest.approx(to_rgb(line.get_color()))


def test_losses_are_drawn_beside_the_models_own_in_the_same_colours(kl: pd.DataFrame) -> None:
    losses = [curve("LossAgainstReferences", "cross_entropy", 3 + i, reference=name) for i, name in enumerate(N_GRAMS)]
    above, below = n_gram_curves(pd.concat([kl, *losses, curve("Loss", "cross_entropy", 2.5)]), FOUND).axes
    lines = {str(line.get_label()): line for line in below.get_lines()}
    assert list(lines) == [*N_GRAMS, "model"]
    np.testing.assert_allclose(np.asarray(lines["model"].get_ydata()), [3.5, 3.0, 2.7, 2.5])
    colours = {str(line.get_label()).removeprefix("KL to "): line.get_color() for line in above.get_lines()}
    assert {name: lines[name].get_color() for name in N_GRAMS} == colours


def test_a_table_without_one_of_them_is_refused(kl: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="no KL to trigram; it has unigram, bigram"):
        n_gram_curves(kl[kl["reference"] != "trigram"], [])


def along(**curves: float) -> pd.DataFrame:
    """Attention along each kind's relation of two heads, which rises to what is given by the first word, or to .05."""
    rows = []
    for kind, relation in HEAD_KINDS.items():
        for layer in (0, 1):
            top = curves.get(f"{kind.split('-')[0]}_{layer}", 0.05 + 0.001 * layer)
            frame = pd.DataFrame({"step": STEPS, "value": np.linspace(0.05, top, len(STEPS)), "relation": relation})
            rows.append(frame.assign(layer=layer, head=0, run="a", probe="AttentionTo", quantity="along"))
    return pd.concat(rows, ignore_index=True)


def test_every_head_is_drawn_and_those_that_rose_or_the_best_one_named() -> None:
    panels = head_curves(along(previous_0=0.8, previous_1=0.8), "text")
    assert list(panels) == [f"{kind} text" for kind in HEAD_KINDS]
    drawn = [[str(line.get_label()) for line in ax.get_lines()][1:] for ax in panels.values()]
    assert drawn[0] == ["L0H0", "L1H0"]
    assert sorted(label.strip("_") for label in drawn[1]) == ["L0H0", "L1H0"]
    assert sum(not label.startswith("_") for label in drawn[1]) == 1


def test_a_figure_of_several_runs_is_refused_not_drawn_as_one() -> None:
    rows = along()
    with pytest.raises(ValueError, match="a figure shows one run, the table has 2"):
        head_curves(pd.concat([rows, rows.assign(run="b")]), "text")
