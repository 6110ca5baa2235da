"""The probes of docs/your-probe.md that a reader copies: closed forms by hand."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from stagewise.probe import example_view

PAGE = Path(__file__).parents[2] / "docs" / "your-probe.md"


@pytest.fixture(scope="module")
def own() -> dict[str, Any]:
    names: dict[str, Any] = {}
    [block] = [each for each in re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL) if "Alignment" in each]
    exec(compile(block, str(PAGE), "exec", dont_inherit=True), names)
    return names


def test_the_cosine_with_an_ideal_map_is_that_of_the_rows_that_have_one(own: dict[str, Any]) -> None:
    view = example_view([[[1, 0], [3 / 7, 4 / 7]]], relations={"self": [[0, 0], [0, 1]]})
    [reading] = own["Alignment"]("self").read(view)
    assert reading.values.item() == pytest.approx(0.8)  # of (3, 4) with (0, 1)


@pytest.mark.parametrize(("threshold", "share"), [(0.0, 1 / 2), (1.5, 1 / 3)])
def test_neurons_above_the_threshold_are_active(own: dict[str, Any], threshold: float, share: float) -> None:
    view = example_view([[[1, 0], [0, 1]]], activations={"blocks.0.mlp.hook_post": [[0, 2, 0], [0, 1, 3]]})
    [reading] = own["ActiveNeurons"](threshold=threshold).read(view)
    assert torch.allclose(reading.values, torch.tensor([share]))
