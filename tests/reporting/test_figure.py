"""A figure's rows to download."""

import html
import json
import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from stagewise.plot.axes import ALONE, set_step_axis
from stagewise.plot.curves import escaped
from stagewise.reporting._figure import _csv_link, cursor_attribute, identifier, name_curves, svg
from stagewise.reporting.page import report
from tests.fixtures.browser import CHROMIUM
from tests.fixtures.packed import rows_in


def test_rows_are_rounded_and_too_many_of_them_are_not_embedded() -> None:
    frame = pd.DataFrame({"run": "a b", "step": [1], "probe": "Loss", "value": [1 / 3], "lo": [np.nan]})
    assert rows_in(_csv_link("loss", frame)) == ["run,step,probe,value\na b,1,Loss,0.33333\n"]
    many = pd.concat([frame] * 20_000)
    assert _csv_link("loss", many) == "<span>20000 rows: in tables/measurements.parquet</span>"


def test_maps_are_not_embedded() -> None:
    frame = pd.DataFrame({"run": "r", "step": [3, 7], "probe": "Map", "map": [np.zeros(4), np.ones(4)]})
    assert _csv_link("maps", frame) == "<span>2 maps: in tables/measurements.parquet</span>"


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
    figure = Figure(figsize=(3.2, 4), layout="constrained")
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


def test_a_drawn_line_has_its_corners_to_a_tenth_of_a_point_from_its_first_to_its_last() -> None:
    figure = Figure(figsize=(4, 3))
    ax = figure.subplots()
    x, y = np.arange(60), np.random.default_rng(0).normal(size=60)
    (line,) = ax.plot(x, y)
    line.set_gid("axes0-curve0")
    drawn = svg(figure, "figure")
    (path,) = re.findall(r'<g id="figure-axes0-curve0"><path d="([^"]*)"', drawn)
    assert "  " not in drawn
    assert re.fullmatch(r"M[^MlLz]+l[^MlLz]+", path)
    corners = np.reshape([float(each) for each in re.findall(r"-?\d*\.?\d+", path)], (-1, 2)).cumsum(0)
    expected = ax.transData.transform(np.stack([x, y], 1)) * 72 / figure.dpi
    expected[:, 1] = 3 * 72 - expected[:, 1]
    np.testing.assert_allclose(corners, expected, atol=0.051)


def test_an_identifier_has_no_signs_of_html() -> None:
    assert identifier("share of L0H1 (<b>)") == "share-of-L0H1-b"


DRIVE = """<script>(async function drive() {
  const until = async (done) => { while (!done()) await new Promise((resolve) => setTimeout(resolve, 50)); };
  const label = (of) => document.querySelector(`#${of} output`)?.textContent.split(",")[0];
  const drawn = () => label("viewer") === label("cursor") && document.querySelector("#circuitsvis canvas[aria-label]");
  await until(drawn);
  const state = (selector, read) => [...document.querySelectorAll(selector)].map(read);
  const all = () => [
    state(".panel svg line.cursor.on", (line) => line.getAttribute("x1")),
    state(".reads", (reads) => reads.textContent),
    state("#circuitsvis canvas", (canvas) => canvas.toDataURL()),
  ];
  const slider = document.querySelector("#cursor input");
  const to = async (at) => {
    slider.value = at;
    slider.dispatchEvent(new Event("input"));
    await until(drawn);
    await new Promise((resolve) => setTimeout(resolve, 500));
    return all();
  };
  const before = await to(0), after = await to(Number(slider.max));
  const moved = before.map((each, i) => [each.length, each.filter((one, j) => one !== after[i][j]).length]);
  const labels = state("#cursor output, #viewer output", (output) => output.textContent.split(",")[0]);
  const heads = document.querySelectorAll("button.head");
  if (heads.length) heads[0].click();
  const result = {
    moved, labels, heads: heads.length, other: document.querySelectorAll(".other").length,
    cut: state(".scroll", (box) => box.scrollWidth > box.clientWidth + 1).filter(Boolean).length,
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    ran: window.ran === true,
  };
  document.body.textContent = "RESULT" + JSON.stringify(result) + "END";
})();</script>"""


@pytest.fixture
def figure() -> Figure:
    figure = Figure(figsize=(4, 3))
    upper, lower = figure.subplots(2, 1)
    for ax in (upper, lower):
        set_step_axis(ax, [100])
    upper.plot([0, 10, 100], [1.0, 0.5, float("nan")], label="L0H1", color="#112233")
    upper.plot([0, 100], [0, 1], label="_hidden")
    return figure


def test_a_curve_alone_is_named_by_its_axis() -> None:
    figure = Figure()
    ax = figure.subplots()
    set_step_axis(ax, [100])
    ax.plot([0, 100], [0.5, 1.0], label=ALONE, color="#112233")
    ax.set_ylabel("loss, nats")
    axes = json.loads(html.unescape(cursor_attribute(figure).split('"')[1]))
    assert axes[0]["curves"] == [["axes0-curve0", "loss, nats", "#112233", [0, 100], [0.5, 1.0]]]


def test_an_axis_has_its_name_on_one_line() -> None:
    figure = Figure()
    ax = figure.subplots()
    set_step_axis(ax, [100])
    ax.set_ylabel("attention mass along the\nrelation")
    axes = json.loads(html.unescape(cursor_attribute(figure).split('"')[1]))
    assert axes[0]["name"] == "attention mass along the relation"


def test_a_dollar_that_matplotlib_needs_a_backslash_for_is_a_dollar_to_the_cursor() -> None:
    figure = Figure()
    ax = figure.subplots()
    set_step_axis(ax, [100])
    ax.plot([0, 100], [0.5, 1.0], label=escaped("$x^2$"))
    ax.set_ylabel(escaped("$\\frac$"))
    (axis,) = json.loads(html.unescape(cursor_attribute(figure).split('"')[1]))
    assert (axis["name"], axis["curves"][0][1]) == ("$\\frac$", "$x^2$")


def test_axes_have_their_place_and_their_curves(figure: Figure) -> None:
    name_curves(figure)
    drawing = svg(figure, "two")
    axes = json.loads(html.unescape(cursor_attribute(figure).split('"')[1]))
    assert axes[0]["curves"] == [["axes0-curve0", "L0H1", "#112233", [0, 10, 100], [1.0, 0.5, None]]]
    assert axes[1]["curves"] == []
    assert 'id="two-axes0-curve0"' in drawing
    (upper, lower), height = figure.axes, 3 * 72
    for described, ax in zip(axes, (upper, lower), strict=True):
        box = ax.get_position()
        assert described["place"] == pytest.approx(
            [288 * box.x0, 288 * box.x1, height * (1 - box.y1), height * (1 - box.y0)], abs=0.1
        )


def test_the_scale_is_that_of_the_axis(figure: Figure) -> None:
    last, linear, decades, first = json.loads(html.unescape(cursor_attribute(figure).split('"')[1]))[0]["scale"]
    adjusted = decades / (1 - 1 / 10)

    def way(x: float) -> float:
        return float(x * adjusted if x <= linear else linear * (adjusted + math.log10(x / linear)))

    ax = figure.axes[0]
    for step in (0, 3, 10, 40, 100):
        expected = float((ax.transData + ax.transAxes.inverted()).transform((step, 0))[0])
        assert way(step) / way(last) == pytest.approx(expected)
    assert first == 0


def test_a_figure_without_steps_has_none() -> None:
    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1])
    assert cursor_attribute(figure) == ""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [1400, 500])
def test_in_a_browser_moving_the_cursor_changes_every_linked_figure(width: int, tmp_path: Path) -> None:
    from stagewise.analysis import run
    from stagewise.presets import recipe_for
    from stagewise.tasks import MarkovChain

    recipe = recipe_for(MarkovChain, d_vocab=4, spans=(1, 1), length=4, n_sequences=200)
    run(recipe, tmp_path / "<img src=x onerror=ran=true>", progress=False)
    page = (report(tmp_path / "<img src=x onerror=ran=true>")).read_text(encoding="utf8")
    driven = tmp_path / "driven.html"
    driven.write_text(page.replace("</body>", DRIVE + "</body>"), encoding="utf8")
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
    arguments += [f"--window-size={width},1000", "--dump-dom"]
    printed = subprocess.run([str(CHROMIUM), *arguments, driven.as_uri()], capture_output=True, text=True, check=True)
    found = re.search(r"RESULT(.*)END", printed.stdout)
    assert found is not None, printed.stderr
    result = json.loads(html.unescape(found[1]))
    for number, moved in result["moved"]:
        assert number == moved > 0
    assert len(set(result["labels"])) == 1
    assert result["heads"] > 0
    assert result["other"] > 0
    assert (result["cut"], result["wide"], result["ran"]) == (0, False, False)
