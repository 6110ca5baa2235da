"""Heads of a layer: the layer of a pattern, and how alike its heads are."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.papers.emergence._alike_heads import PATTERNS, figure_heads, pattern_masses
from stagewise.papers.emergence._grids import FigureRequest, axes_of

pytestmark = pytest.mark.usefixtures("unchecked")


def test_a_patterns_layer_is_that_of_its_largest_mass_at_the_end() -> None:
    rows = [(0, 0, 0, 0.9), (0, 1, 0, 0.1), (9, 0, 0, 0.2), (9, 0, 1, 0.3), (9, 1, 0, 0.5), (9, 1, 1, 0.1)]
    table = pd.DataFrame(rows, columns=["step", "layer", "head", "value"])
    table = table.assign(run="run", probe="AttentionTo", quantity="along", relation=PATTERNS[0])
    masses = pattern_masses(table, PATTERNS[0])
    assert masses["layer"].unique().tolist() == [1]
    assert masses[masses["step"] == 9]["value"].tolist() == [0.5, 0.1]


def test_untrained_heads_spread_alike(tmp_path: Path) -> None:
    given = {"N_pairs": (3,), "N_tokens": (8,), "N_heads": (2,), "seed": (0,)}
    request = FigureRequest(tmp_path, "small", axes_of("heads", "small", given), budget=1, workers=1, progress=False)
    result = figure_heads(request)
    shares = result.numbers[result.numbers["quantity"].str.contains("over the largest")]["ours"].astype(float)
    assert len(shares) == len(PATTERNS)
    assert shares.min() > 0.7
    assert [ax.get_title().partition(",")[0] for ax in result.figure.axes[:2]] == [*PATTERNS]
