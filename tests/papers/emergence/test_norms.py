"""Recall with layer norms and without: each variant is trained as it is named."""

from pathlib import Path

import pytest

from stagewise.models import parameters
from stagewise.papers.emergence import _norms as norms
from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.training import prepare

pytestmark = pytest.mark.usefixtures("unchecked")

CASE = {"N_pairs": 3, "N_tokens": 8, "seed": 0}


@pytest.mark.parametrize(
    ("variant", "norm", "smallest", "largest"),
    [("layer norm, N(0, 1)", "LN", 1, 9), ("none, uniform", None, 0, 8**-0.5)],
)
def test_a_variant_has_its_norms_and_embeddings(
    variant: str, norm: str | None, smallest: float, largest: float
) -> None:
    recipe = norms._recipe(CASE | {"variant": variant}, 10)
    assert recipe.architecture.config["normalization_type"] == norm
    size = float(parameters(prepare(recipe).model)["embed.W_E"].detach().abs().max())
    assert smallest < size <= largest


def test_each_variant_and_seed_has_a_row_and_the_first_seeds_are_drawn(tmp_path: Path) -> None:
    given = {"N_pairs": (2,), "N_tokens": (8,), "seed": (0, 1)}
    request = FigureRequest(tmp_path, "small", axes_of("norms", "small", given), budget=2, workers=1, progress=False)
    result = norms.figure_norms(request)
    assert result.numbers["ours"].tolist() == ["never"] * 8
    assert [line.get_label() for line in result.figure.axes[0].lines[:4]] == [*norms.VARIANTS]
