"""One figure of the report: its SVG inside the page and as a file, its caption, and its rows to download."""

import html
import io
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FixedFormatter

from stagewise.checkpoints import short_digest
from stagewise.plain_text import plain_name
from stagewise.plot.axes import ALONE
from stagewise.reporting._html import packed
from stagewise.table import KEYS, NUMBERS, VALUES

POINTS = 72
"""An inch has, and an SVG of matplotlib counts in them."""

CURVES = 40
"""Curves of one set of axes whose values the cursor reads, at most."""

STEPS = 3
"""The place of its steps in what is written of a curve."""

CURSOR_DIGITS = 4
"""Significant ones of a value that the cursor reads."""

FONTS = ["DejaVu Sans", "Helvetica Neue", "Arial", "sans-serif"]
"""Labels are placed by the first one's widths; a browser's fallback is narrower."""

LOOK = ["default", "stagewise.reporting.report"]
"""Styles of matplotlib; the second one is `report.mplstyle`."""

CSV_BYTES = 300_000
"""Rows that take more are not embedded; they are in the run folder's table."""

CSV_ROWS = 15_000
"""More of them take more: a row has no fewer than 20 characters."""

NARROWEST = 460
"""Pixels to which a wide figure shrinks before it scrolls in its box."""

ENLARGED = 1.1
"""Width in the page over the width drawn, at 96 pixels an inch."""

COORDINATES, LONG = re.compile(r' (?:x|y|d)="[^"]*"'), re.compile(r"-?\d+\.\d{3,}")
"""Coordinates are written to a hundredth of a point, not to a millionth."""

LINES = re.compile(r' d="((?:[MLz][-\d.\s]*)+)"')
"""A path of straight lines: half of a page are these, so they are written as ways from point to point, in tenths."""

STYLE = re.compile(r' style="([^"]*)"')

UNTURNED = re.compile(r' transform="rotate\(-0 [^"]*\)"')
"""Matplotlib turns every text, most of them by nothing."""

ID, READ = re.compile(r' id="([^"]*)"'), re.compile(r"^axes\d|FillBetween")
"""Most ids are read by nobody; the page reads those of curves, `report.css` those of ribbons."""

LONGEST = 40
"""Letters of a name in that of a figure's file."""

WRITTEN = (100, 40, 24, 16)
"""Letters of a line in a figure: the first number that leaves room for its axes."""

MATH = re.compile(r"(?<!\\)\$(?!\\mathdefault\{)")
"""The sign of a formula that no axis writes by itself: a name is no formula."""

SVG_DPI = 72
"""At which matplotlib lays out an SVG."""

DIGITS = 6
"""Digits of the places of axes, as parts of the figure: far below a pixel, far above rounding."""


def name_curves(figure: Figure) -> None:
    """Give the curves on step axes a name, which becomes their id in the drawing."""
    for number, ax in enumerate(_on_steps(figure)):
        for place, line in enumerate(_curves(ax)):
            line.set_gid(f"axes{number}-curve{place}")


def cursor_attribute(figure: Figure) -> str:
    """Return the attribute of a drawing that the script of the page reads; empty where no axis is one of steps.

    For each step axis: its name, its place [left, right, top, bottom] in points from the drawing's upper left corner,
    the scale [last step, step up to which it is linear, width of that part in decades, first step], and its curves:
    [id, label, colour, steps, values]; no steps where they are those of the curve before.
    """
    axes = [_described(figure, number, ax) for number, ax in enumerate(_on_steps(figure))]
    for before, curve in reversed([*pairwise(curve for each in axes for curve in each["curves"])]):
        curve[STEPS] = None if curve[STEPS] == before[STEPS] else curve[STEPS]
    return f' data-axes="{html.escape(json.dumps(axes, separators=(",", ":")))}"' if axes else ""


def _on_steps(figure: Figure) -> Iterator[Axes]:
    return (ax for ax in figure.axes if ax.get_xscale() == "symlog")


def _curves(ax: Axes) -> list[Line2D]:
    lines = [line for line in ax.get_lines() if len(np.asarray(line.get_xdata())) > 1]
    return [line for line in lines if line.get_label() == ALONE or not str(line.get_label()).startswith("_")][:CURVES]


def _as_shown(text: str) -> str:
    r"""Return a text for matplotlib as it draws it: `\$` is a dollar, which begins no formula."""
    return text.replace(r"\$", "$")


def _described(figure: Figure, number: int, ax: Axes) -> dict[str, Any]:
    width, height = (POINTS * inches for inches in figure.get_size_inches())
    box, (first, last), name = ax.get_position(), ax.get_xlim(), _as_shown(" ".join(ax.get_ylabel().split()))
    scale: Any = ax.xaxis.get_transform()
    place = [box.x0 * width, box.x1 * width, (1 - box.y1) * height, (1 - box.y0) * height]
    curves = [
        [
            f"axes{number}-curve{i}",
            name if line.get_label() == ALONE else _as_shown(str(line.get_label())),
            to_hex(line.get_color()),
            [float(x) for x in np.asarray(line.get_xdata(), dtype=float)],
            [
                float(f"{y:.{CURSOR_DIGITS}g}") if np.isfinite(y) else None
                for y in np.asarray(line.get_ydata(), dtype=float)
            ],
        ]
        for i, line in enumerate(_curves(ax))
    ]
    return {
        "name": name,
        "place": [round(float(edge), 1) for edge in place],
        "scale": [float(part) for part in (last, scale.linthresh, scale.linscale, first)],
        "curves": curves,
    }


class Plot(NamedTuple):
    """A figure of the report: panels by label ("" for a single one), the rows that it shows, its caption."""

    name: str
    panels: Mapping[str, Axes | Figure]
    rows: pd.DataFrame
    caption: str


def figure_html(plot: Plot, origin: str = "") -> str:
    """Return a plot as HTML with everything embedded; each of its drawings says where it is from."""
    drawings, links = [], [f'<a href="#plot-{plot.name}">link</a>', _csv_link(plot.name, plot.rows)]
    for label, panel in plot.panels.items():
        name = plot.name + (f"-{identifier(label)}" if label else "")
        figure = panel if isinstance(panel, Figure) else panel.get_figure(root=True)
        assert isinstance(figure, Figure)
        name_curves(figure)
        drawing = svg(figure, name)
        drawing = drawing.replace(">", f"><desc>{html.escape(origin)}</desc>", 1) if origin else drawing
        attributes = f'{cursor_attribute(figure)} data-label="{html.escape(label)}" tabindex="0"'
        drawings.append(f'<div class="panel" id="figure-{name}"{attributes}>{drawing}</div>')
        text = html.escape(f"SVG {label}".strip())
        links.append(f'<a href="figures/{name}.svg" download="{name}.svg" data-svg="figure-{name}">{text}</a>')
    return (
        f'<figure class="plot" id="plot-{plot.name}"><div class="panels">{"".join(drawings)}</div>'
        f'<figcaption>{plot.caption}<span class="files">{" ".join(links)}</span></figcaption></figure>'
    )


DRAWING = re.compile(r'<div class="panel" id="figure-([^"]+)"[^>]*>(<svg.*?</svg>)\s*</div>', re.DOTALL)
"""A drawing in a page, with its name."""


def drawings_in(page: str) -> dict[str, str]:
    """Return the drawings of a page by the names of their files."""
    return {f"figures/{name}.svg": drawing for name, drawing in DRAWING.findall(page)}


def svg(figure: Figure, name: str) -> str:
    """Return a figure as an `<svg>` element: same figure, same bytes; its ids start with its name."""
    buffer = io.StringIO()
    for letters in WRITTEN:
        _as_text(figure, letters)
        if _settle(figure):
            break
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        # Not savefig, which draws twice, to lay out first: drawing lays out.
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(buffer, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = buffer.getvalue()
    text = _shortened(text[text.index("<svg") :])
    # Matplotlib names a clip after the last bits of its place, in which a constrained layout is not reproducible.
    for number, clip in enumerate(re.findall(r'<clipPath id="([^"]+)"', text)):
        text = text.replace(f'id="{clip}"', f'id="clip{number}"').replace(f"#{clip})", f"#clip{number})")
    referred = set(re.findall(r'(?:url\(|href=")#([^")]+)', text))
    text = ID.sub(lambda match: match[0] if match[1] in referred or READ.search(match[1]) else "", text)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(url\(|href=")#', rf"\g<1>#{name}-", text)
    family = ", ".join([*(f"'{font}'" for font in FONTS[:-1]), FONTS[-1]])
    text = text.replace(f"font-family:'{FONTS[0]}';", "").replace(f"'{FONTS[0]}'", family)
    width, height = (round(96 * ENLARGED * inches) for inches in figure.get_size_inches())
    size = f'width="{width}" height="{height}" style="min-width:{min(width, NARROWEST)}px;font-family:{family}"'
    return re.sub(r'width="[\d.]+pt" height="[\d.]+pt"|height="[\d.]+pt" width="[\d.]+pt"', size, text, count=1)


def _shortened(text: str) -> str:
    """Return an SVG without what says nothing: most of a page is coordinates, and most of the rest is spaces."""
    text = LINES.sub(lambda match: f' d="{"".join(map(_by_ways, match[1].split("M")[1:]))}"', text)
    text = COORDINATES.sub(lambda match: LONG.sub(lambda number: f"{float(number[0]):.2f}", match[0]), text)
    text = COORDINATES.sub(lambda match: " ".join(["", *match[0].split()]), text)
    text = STYLE.sub(lambda match: f' style="{match[1].replace("; ", ";").replace(": ", ":")}"', text)
    return re.sub(r">\s+<", "><", UNTURNED.sub("", text))


def _by_ways(points: str) -> str:
    """Return a line through points as its start and the ways from each to the next.

    >>> _by_ways("10.04 20.32 \\nL 12.4 19.96 L 12.6 19.96 z")
    'M10 20.3l2.4-.3 .2 0z'
    """
    at = np.rint(10 * np.array(re.findall(r"-?[\d.]+", points), float)).astype(int).reshape(-1, 2)
    start, ways = (" ".join(f"{number / 10:g}" for number in part.ravel()) for part in (at[:1], np.diff(at, axis=0)))
    short = re.sub(r"\b0\.", ".", ways).replace(" -", "-")
    return f"M{start}{'l' if short else ''}{short}{'z' if 'z' in points else ''}"


def _as_text(figure: Figure, letters: int) -> None:
    """Let a figure's text be short lines, and no formula."""
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        if isinstance(formatter := axis.get_major_formatter(), FixedFormatter):
            formatter.seq = [_in_short_lines(str(label), letters) for label in formatter.seq]
        axis.get_ticklabels(which="both")  # makes them
    for text in figure.findobj(Text):
        text.set_text(_in_short_lines(text.get_text(), letters))
        if MATH.search(text.get_text().replace("}$", "")):
            text.set_parse_math(False)


def _in_short_lines(text: str, letters: int) -> str:
    return "\n".join(plain_name(line, letters) for line in text.split("\n"))


def _settle(figure: Figure) -> bool:
    """Lay the figure out once and round its axes, whose last bits depend on memory; return whether there is room."""
    engine = figure.get_layout_engine()
    if engine is None:
        return True
    dpi, figure.dpi = figure.dpi, SVG_DPI
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        engine.execute(figure)
    figure.dpi = dpi
    if any("not applied" in str(each.message) for each in said):
        return False
    figure.set_layout_engine("none")
    for ax in figure.axes:
        x, y, width, height = (round(float(bound), DIGITS) for bound in ax.get_position(original=True).bounds)
        ax.set_position((x, y, width, height))
    return True


def _csv_link(name: str, rows: pd.DataFrame) -> str:
    """Return a link that holds the rows as CSV (five significant digits), or says where too many rows, or maps, are."""
    axes = [column for column in rows.columns if column not in KEYS + VALUES]
    columns = [column for column in (*KEYS, *axes, *NUMBERS) if column in rows and rows[column].notna().any()]
    few = "map" not in rows and len(rows) <= CSV_ROWS
    text = rows[columns].to_csv(index=False, float_format="%.5g", lineterminator="\n") if few else ""
    if not few or len(text) > CSV_BYTES:
        return f"<span>{len(rows)} {'maps' if 'map' in rows else 'rows'}: in tables/measurements.parquet</span>"
    return f'<a href="#plot-{name}" download="{name}.csv" data-csv="{packed(text.encode())}">{len(rows)} rows (CSV)</a>'


def identifier(text: str) -> str:
    """Return text as a part of a file's name or of an id in the page."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")
    fits = plain and len(plain) <= LONGEST and text.isascii()
    return plain if fits else f"{plain[:LONGEST]}-{short_digest(text)[:6]}"
