"""Recall from fixed sequences at a third party's setting: what is trained, and what is said of it."""

from pathlib import Path

import pytest
import torch

from stagewise.papers.emergence import _fixed_sequences as fixed
from stagewise.papers.emergence._grids import FigureRequest, axes_of

pytestmark = pytest.mark.usefixtures("unchecked")

CASE = {"N_pairs": 3, "N_tokens": 8, "width": 4, "seed": 0}


def test_the_training_set_is_fixed_and_the_rest_is_the_third_partys() -> None:
    recipe = fixed.fixed_recipe(CASE, 200)
    config, batches = recipe.architecture.config, recipe.batches()
    assert (recipe.task.n_sequences, recipe.plan.learning_rate) == (10_000, 1e-2)
    assert (config["n_layers"], config["attn_only"], config["d_model"], config["d_vocab"]) == (2, True, 4, 8)
    seen = torch.cat([batches(step).tokens for step in range(400)]).unique(dim=0)
    known = recipe.task.sample(20_000, 1).tokens.unique(dim=0)
    assert len(seen) <= 10_000 < len(known)


def test_each_size_and_seed_has_a_row(tmp_path: Path) -> None:
    given = {"N_pairs": (2, 3), "N_tokens": (8,), "width": (4,), "seed": (0, 1)}
    request = FigureRequest(tmp_path, "small", axes_of("fixed", "small", given), budget=2, workers=1, progress=False)
    result = fixed.figure_fixed(request)
    assert result.numbers["ours"].tolist() == ["never"] * 4
    assert [line.get_label() for line in result.figure.axes[0].lines[:2]] == ["2 pairs, width 4", "3 pairs, width 4"]
