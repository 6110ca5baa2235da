"""A figure's rows to download."""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from stagewise.reporting._figure import _csv_link, identifier, svg
from tests.fixtures.packed import rows_in


def test_rows_are_rounded_and_too_many_of_them_are_not_embedded() -> None:
    frame = pd.DataFrame({"run": "a b", "step": [1], "probe": "Loss", "value": [1 / 3], "lo": [np.nan]})
    assert rows_in(_csv_link("loss", frame)) == ["run,step,probe,value\na b,1,Loss,0.33333\n"]
    many = pd.concat([frame] * 20_000)
    assert _csv_link("loss", many) == "<span>20000 rows: in tables/measurements.parquet</span>"


def test_maps_are_downloaded_as_a_row_a_cell() -> None:
    cells = np.array([0.5, 0.25, 0.125, 1.0], dtype=np.float32)
    frame = pd.DataFrame({"run": "r", "step": [3, 7], "probe": "Map", "map": [cells, 2 * cells]})
    link = _csv_link("maps", frame)
    assert "2 maps (CSV)" in link
    (rows,) = rows_in(link)
    assert "step,probe,query,key,value\nr,3,Map,0,0,0.5\nr,3,Map,0,1,0.25\n" in rows
    assert "r,7,Map,1,0,0.25\nr,7,Map,1,1,2\n" in rows


def test_a_difference_in_the_last_bit_of_a_place_changes_no_byte() -> None:
    # The solver of a constrained layout rounds in an order that depends on where its variables lie in memory.
    def drawn(width: float) -> Figure:
        figure = Figure()
        ax = figure.add_axes((0.1, 0.1, width, 0.8))
        ax.plot([0, 1])
        return figure

    texts = {svg(drawn(width), "line") for width in (0.8, np.nextafter(0.8, 1))}
    assert len(texts) == 1
    (text,) = texts
    assert set(re.findall(r"url\(#([^)]+)\)", text)) == set(re.findall(r'<clipPath id="([^"]+)"', text)) != set()


def test_a_layout_is_rounded_before_it_is_drawn() -> None:
    figure = Figure(layout="constrained")
    for ax in figure.subplots(2, 1):
        ax.plot([0, 1], [3, 4])
        ax.set_ylabel("a label")
    before = svg(figure, "two")
    places = [bound for ax in figure.axes for bound in ax.get_position().bounds]
    assert places == pytest.approx([round(place, 6) for place in places], abs=1e-12)
    assert svg(figure, "two") == before


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", ["W" * 100, "a much longer name than curves have " * 3, "L0H0"])
def test_names_in_a_figure_leave_room_for_its_axes(name: str) -> None:
    figure = Figure(figsize=(3, 4), layout="constrained")
    for ax in figure.subplots(2, 1):
        ax.plot([0, 1], [3, 4])
        ax.set_ylabel(name)
        ax.annotate(name, (1, 4), xytext=(8, 0), textcoords="offset points")
    drawing = svg(figure, "two")
    assert all(ax.get_position().width > 0.1 and ax.get_position().height > 0.1 for ax in figure.axes)
    assert name[:3] in drawing
    before = [ax.get_position().bounds for ax in figure.axes]
    svg(figure, "two")
    assert [ax.get_position().bounds for ax in figure.axes] == before


def test_a_drawn_line_has_its_corners_to_a_hundredth_of_a_point() -> None:
    figure = Figure(figsize=(4, 3))
    ax = figure.subplots()
    x, y = np.arange(60), np.random.default_rng(0).normal(size=60)
    (line,) = ax.plot(x, y)
    line.set_gid("curve")
    drawn = svg(figure, "figure")
    (path,) = re.findall(r'<g id="figure-curve"><path d="([^"]*)"', drawn)
    assert "  " not in drawn
    start, relative = path.removeprefix("M").split("l")
    numbers = [float(each) for each in re.findall(r"-?\d*\.?\d+", f"{start} {relative}")]
    corners = np.reshape(numbers, (-1, 2)).cumsum(0)
    expected = ax.transData.transform(np.stack([x, y], 1)) * 72 / figure.dpi
    expected[:, 1] = 3 * 72 - expected[:, 1]
    np.testing.assert_allclose(corners, expected, atol=0.0051)


def test_an_identifier_has_no_signs_of_html() -> None:
    assert identifier("share of L0H1 (<b>)") == "share-of-L0H1-b"
