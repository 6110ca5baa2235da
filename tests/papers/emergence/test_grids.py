"""Grids: the setting's, a user's in place of it, and what is no grid."""

import pytest

from stagewise.papers.emergence._grids import GRIDS, axes_of, read_axes
from stagewise.sweeping import parameter_grid


@pytest.mark.parametrize("figure", [1, 2])
def test_the_toy_models_small_grids_have_at_least_sixty_runs(figure: int) -> None:
    assert len(parameter_grid(**GRIDS[figure]["small"])) >= 60


def test_given_axes_replace_the_settings() -> None:
    axes = axes_of(2, "small", {"B": [3], "seed": [7, 8]})
    assert axes == {"T": (64, 128), "d": (16, 32), "B": (3,), "p": (0, 0.1, 0.2, 0.4), "seed": (7, 8)}
    assert GRIDS[2]["small"]["B"] == (1, 2, 4, 8)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": [1]}, "has no axis 'x'; it has N_pairs, N_tokens, batch, seed"),
        ({"seed": []}, r"at least one value, none twice; got \[\]"),
        ({"seed": [1, 1]}, "none twice"),
        ({"N_pairs": [8.5]}, "N_pairs takes whole numbers, got 8.5"),
        ({"seed": [-1]}, "seeds count from 0, got -1"),
    ],
)
def test_what_is_no_axis_is_refused(given: dict[str, list[int | float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        axes_of(4, "small", given)


@pytest.mark.parametrize("text", ["N_pairs", "N_pairs=", "N_pairs=a", "=3,,"])
def test_an_axis_that_cannot_be_read_says_how_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match="written NAME=VALUE,VALUE"):
        read_axes([text])


def test_an_axis_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="the axis d is given twice"):
        read_axes(["d=2", "d=4"])
