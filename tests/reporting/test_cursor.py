"""The step cursor knows where each step axis is; in a browser it moves every figure, and a head is singled out."""

import html
import json
import math
import re
import subprocess
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from stagewise.plot._quantities import escaped
from stagewise.plot._step_axis import ALONE, set_step_axis
from stagewise.reporting._cursor import cursor_attribute, name_curves
from stagewise.reporting._figure import svg
from stagewise.reporting.page import report
from tests.fixtures.browser import CHROMIUM

DRIVE = """<script>(function drive() {
  const unpacked = ["#viewer canvas", "#circuitsvis canvas"].every((each) => document.querySelector(each));
  if (!unpacked) return setTimeout(drive, 50);
  const state = (selector, read) => [...document.querySelectorAll(selector)].map(read);
  const all = () => [
    state(".panel svg line.cursor.on", (line) => line.getAttribute("x1")),
    state(".reads", (reads) => reads.textContent),
    state("#viewer canvas", (canvas) => canvas.toDataURL()),
  ];
  const slider = document.querySelector("#cursor input");
  const to = (at) => { slider.value = at; slider.dispatchEvent(new Event("input")); return all(); };
  const before = to(0), after = to(Number(slider.max));
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
