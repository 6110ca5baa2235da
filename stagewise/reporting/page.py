"""The report: one HTML file that says in which stages the heads learned what they do, and shows why."""

import html
import importlib.resources
import string
from collections.abc import Iterable, Iterator
from pathlib import Path

import matplotlib.style

from stagewise.checkpoints.run_folder import REPORT, write
from stagewise.reporting.figure import LOOK, figure_html
from stagewise.reporting.finding import finding, headline
from stagewise.reporting.html import Page
from stagewise.reporting.measured import Measured, read_measured
from stagewise.reporting.prose import run_in_words, title
from stagewise.reporting.section import Blocks, Section
from stagewise.reporting.sections import LAST, SECTIONS
from stagewise.reporting.sections.generic import generic_sections

PAGE = string.Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$name: $headline</title>
<style>$css</style>
</head>
<body>
<header>
<p class="kind">stagewise report</p>
<h1>$name <small>$headline</small></h1>
<p class="$kind">$finding</p>
<p>$words</p>
<nav>$contents</nav>
</header>
<main>
$sections
$missing
</main>
<script>$script</script>
</body>
</html>
"""
)


def report(folder: str | Path, classes: Iterable[type] = ()) -> Page:
    """Write the report of a measured run: `report.html`, which needs no other file and no network.

    The drawings are also written to `figures/`. A section appears where the table holds what it shows; a probe
    without a section of its own has one from what it declares. The same run folder gives the same bytes.

    Args:
        folder: of the run.
        classes: tasks of one's own that may occur in its record: they are rebuilt to know where relations lie.

    Raises:
        FileNotFoundError: the folder holds no run, or no table.

    Returns the path of the HTML file, which a notebook shows as the page.
    """
    folder = Path(folder)
    measured = read_measured(folder, classes)
    with matplotlib.style.context(["default", LOOK]):
        bodies = {
            section: "\n".join(block if isinstance(block, str) else figure_html(block, folder) for block in blocks)
            for section, blocks in filled_sections(measured)
        }
    page = _page(measured, bodies)
    return Page(write(folder / REPORT, lambda partial: partial.write_text(page, encoding="utf8")))


def filled_sections(measured: Measured) -> Iterator[tuple[Section, Blocks]]:
    """Yield the sections that a run has, in their order, with what they show: one at a time, for its memory."""
    shown: list[str] = []
    for section in SECTIONS:
        if blocks := section.blocks(measured):
            shown += section.needs
            yield section, blocks
    for section in (*generic_sections(measured, shown), *LAST):
        if blocks := section.blocks(measured):
            yield section, blocks


def _page(measured: Measured, bodies: dict[Section, str]) -> str:
    titles = {section: html.escape(section.title) for section in bodies}
    package = importlib.resources.files("stagewise.reporting")
    return PAGE.substitute(
        name=html.escape(title(measured.run, str(measured.table["run"].iloc[0]))),
        headline=html.escape(headline(measured.stages, measured.home)),
        finding=html.escape(finding(measured.stages, measured.home)),
        kind="foreign" if measured.home is not None and measured.home.foreign else "finding",
        css=(package / "report.css").read_text(encoding="utf8"),
        words=run_in_words(measured.run, measured.table),
        contents=" ".join(f'<a href="#{section.identifier}">{titles[section]}</a>' for section in bodies),
        sections="\n".join(
            f'<section id="{section.identifier}"><h2>{titles[section]}</h2>\n{body}\n</section>'
            for section, body in bodies.items()
        ),
        missing=_missing(measured, bodies),
        script=(package / "report.js").read_text(encoding="utf8"),
    )


def _missing(measured: Measured, bodies: Iterable[Section]) -> str:
    present = set(bodies)
    absent = [section.missing for section in (*SECTIONS, *LAST) if section not in present and section.applies(measured)]
    if not absent:
        return ""
    return f'<p class="missing">Not measured in this run: {html.escape("; ".join(absent))}.</p>'
