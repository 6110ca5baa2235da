"""The figures of the flow alone: their numbers are those of the theory, and nothing is trained."""

from pathlib import Path

import numpy as np
import pytest

from stagewise.papers.emergence._flow_figures import figure_6, figure_7, figure_8, figure_10
from stagewise.papers.emergence._grids import FigureRequest

pytestmark = pytest.mark.usefixtures("unchecked")

REQUEST = FigureRequest(Path("none"), "small", {})


def ours(figure: object, quantity: str) -> str:
    numbers = figure(REQUEST).numbers.set_index("quantity")["ours"]  # type: ignore[operator]
    (name,) = [name for name in numbers.index if name.startswith(quantity)]
    return str(numbers[name])


def test_the_landscape_is_that_of_the_published_size() -> None:
    assert ours(figure_6, "T_plateau(T=256, d=64)") == "2694.8"


def test_the_way_through_the_landscape_bends_by_few_degrees_from_one_time_to_the_next() -> None:
    way = np.asarray(figure_6(REQUEST).figure.axes[0].lines[0].get_xydata())
    w, gap = np.diff(way / way.max(0), axis=0)[:-1].T
    steps = np.hypot(w, gap) > 1e-3  # of a shorter one none sees the direction
    assert np.abs(np.diff(np.unwrap(np.arctan2(gap, w)[steps]))).max() < np.radians(8)


def test_the_linearised_flow_holds_for_the_first_part_of_the_plateau() -> None:
    assert 0.5 < float(ours(figure_7, "rate * time until which w agrees")) < 1.2533


def test_the_loss_is_sharpest_at_the_drop() -> None:
    time, end = map(float, ours(figure_8, "time of it").split("; "))
    assert time == pytest.approx(end, rel=0.01)
    assert float(ours(figure_8, "largest eigenvalue at the end")) == pytest.approx(1 / 64, rel=0.03)


def test_weights_come_to_the_equilibrium_of_their_attention() -> None:
    shares = [float(ours(figure_8, f"w over its equilibrium at {n}")) for n in ("1 pl", "1.1", "1.5", "twice")]
    assert shares[0] < 0.7
    assert shares[-1] == pytest.approx(1, abs=2e-3)
    assert float(ours(figure_8, "equilibrium by its formula")) == pytest.approx(1, abs=1e-6)


def test_the_special_vector_shortens_the_plateau_as_the_linearised_flow_says() -> None:
    numbers = figure_10(REQUEST).numbers
    rows = numbers[numbers["quantity"].str.startswith("speed-up")]
    published = rows["published"].str.split().str[0].astype(float)
    np.testing.assert_allclose(rows["ours"].astype(float), published, rtol=0.08)
