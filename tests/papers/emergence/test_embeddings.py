"""Resampled embeddings beside learned ones: what differs."""

from pathlib import Path

import pytest

from stagewise.papers.emergence import _embeddings as embeddings
from stagewise.papers.emergence._grids import FigureRequest, axes_of

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.hooked_only("the matrix is a parameter of a hook point")
def test_each_size_has_rows_of_both_kinds(tmp_path: Path) -> None:
    given = {"N_pairs": (2, 3), "N_tokens": (8,), "width": (8,), "seed": (0, 1)}
    axes = axes_of("embeddings", "small", given)
    request = FigureRequest(tmp_path, "small", axes, budget=2, workers=1, progress=False)
    result = embeddings.figure_embeddings(request)
    numbers = result.numbers.set_index("quantity")["ours"]
    assert numbers["steps to accuracy .8, 3 pairs, width 8, resampled"] == "never"
    assert len(numbers) == 2 * 4
    assert [line.get_label() for line in result.figure.axes[0].lines[:2]] == ["learned", "resampled"]
    assert len([*(tmp_path / "runs").iterdir()]) == 8
