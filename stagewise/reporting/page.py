"""The report: one HTML file that says in which stages the heads learned what they do, and shows why."""

import concurrent.futures
import functools
import html
import string
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style

from stagewise.bars import bar
from stagewise.checkpoints import unmeasured_in_words
from stagewise.checkpoints.run_folder import REPORT
from stagewise.plain_text import plain_name, shortened, visible, visible_lines
from stagewise.processes import readers
from stagewise.reporting._figure import LOOK, drawings_in, figure_html
from stagewise.reporting._html import Page, json_script, packaged, write_text
from stagewise.reporting._measured import Measured, axis_of, read_measured
from stagewise.reporting._prose import finding, headline, run_in_words, title
from stagewise.reporting._section import Section
from stagewise.reporting.sections import LAST, SECTIONS, with_installed
from stagewise.reporting.sections.generic import generic_sections
from stagewise.saved_findings import load_findings
from stagewise.table import LOGGED
from stagewise.token_axis import TokenAxis
from stagewise.words import CAVEAT, at, axis_in_force, written_on


def report(
    folder: str | Path,
    *,
    workers: int = 1,
    executor: concurrent.futures.Executor | None = None,
    axis: str = "steps",
    tokens_per_step: int | None = None,
    refresh: float | None = None,
    sections: Sequence[Section] = (),
) -> Page:
    """Write the report of a measured run: `report.html`, which needs no other file and no network.

    The drawings are also written to `figures/`. A section appears where the table holds what it shows; a probe
    without a section of its own has one from what it declares. The same run folder gives the same bytes.

    Args:
        folder: of the run.
        workers: processes, at most, that find the stages, where they are not saved, and draw the sections of a large
            table. The page is the same.
        executor: in place of these processes; its workers see the folder.
        axis: "tokens" writes and draws what was found with the tokens that the model had seen in place of steps.
        tokens_per_step: where the table does not say how many these are.
        refresh: seconds after which an open page loads itself again, while the run is watched.
        sections: further ones, from `stagewise.reporting.section`.

    Raises:
        FileNotFoundError: the folder holds no run, or no table.
        ValueError: workers are less than one, or it is not known how many tokens the model had seen.

    Returns the path of the HTML file, which a notebook shows as the page.
    """
    measured = read_measured(Path(folder))
    times = axis_of(measured.table, measured.run, axis, tokens_per_step)
    with written_on(times), readers(workers, len(measured.file), executor) as pool:
        stages, lineage = load_findings(measured.file, pool)
        measured = measured._replace(stages=stages, lineage=lineage)
        page = _page(measured, dict(_drawn(measured, (*with_installed(), *sections), times, pool)), refresh)
    return write_page(Path(folder), page)


def write_page(folder: Path, page: str) -> Page:
    """Write a page as `report.html` into a folder, and its drawings beside it; return its path."""
    for name, drawing in drawings_in(page).items():
        write_text(folder / name, drawing)
    return Page(write_text(folder / REPORT, page))


def _drawn(
    measured: Measured, sections: Sequence[Section], times: TokenAxis | None, pool: concurrent.futures.Executor | None
) -> Iterator[tuple[Section, str]]:
    """Yield the sections that a run has, in their order, as HTML: by `map` one at a time, for its memory."""
    familiarity = measured.familiarity
    draw = functools.partial(_section_html, measured, familiarity is not None and familiarity.foreign, times)
    needed: list[str] = []
    for section, body in _with_bodies(sections, draw, pool):
        needed += section.needs
        yield section, body
    yield from _with_bodies((*generic_sections(measured, needed), *LAST), draw, pool)


def _with_bodies(
    sections: Sequence[Section], draw: Callable[[Section], str], pool: concurrent.futures.Executor | None
) -> Iterator[tuple[Section, str]]:
    each = pool.map(draw, sections) if pool else map(draw, sections)
    with bar("drawing", len(sections), "section") as shown:
        for section, body in zip(sections, each, strict=True):
            shown.update()
            if body:
                yield section, body


def _section_html(measured: Measured, foreign: bool, times: TokenAxis | None, section: Section) -> str:
    """Return a section on a run as HTML; nothing if it shows nothing."""
    with matplotlib.style.context(LOOK), written_on(times):  # which another process does not inherit
        origin = f"{measured.origin}. {CAVEAT}" if foreign else measured.origin
        blocks = [block if isinstance(block, str) else figure_html(block, origin) for block in section.blocks(measured)]
    if blocks and foreign and section.of_batch:
        blocks.insert(0, f'<p class="caveat">{CAVEAT}.</p>')
    return "\n".join(blocks)


class Part(NamedTuple):
    """A section as it stands in the page, where it may be folded."""

    identifier: str
    title: str
    body: str
    folded: bool = False

    @property
    def html(self) -> str:
        """The section with its title."""
        heading = f"<h2>{html.escape(self.title)}</h2>"
        if self.folded:
            opening = f'<details class="section" id="{self.identifier}"><summary>{heading}</summary>'
            return f"{opening}\n{self.body}\n</details>"
        return f'<section id="{self.identifier}">{heading}\n{self.body}\n</section>'


def page_html(
    *,
    name: str,
    headline: str,
    finding: str,
    words: str,
    parts: Iterable[Part],
    missing: str = "",
    kind: str = "finding",
    steps: Mapping[str, Any] | None = None,
    refresh: float | None = None,
) -> str:
    """Return the page: its title, its first sentences, its sections; with its look and its script inside.

    Args:
        name: of the run, as text.
        headline: the result in a few words, as text.
        finding: the result in two sentences, as text.
        words: what was run, as HTML.
        parts: the sections, their titles as text, their bodies as HTML.
        missing: what is not there, as HTML.
        kind: of the finding: "finding", or "foreign" for a warning.
        steps: what the cursor goes over: `cursor_over`, and the `tokens` and the `stages` of each, as text.
        refresh: seconds after which the page loads itself again.
    """
    parts = [part._replace(body=visible_lines(part.body)) for part in parts]
    return string.Template(packaged("report.html")).substitute(
        name=html.escape(plain_name(name)),
        refresh="" if refresh is None else f'\n<meta http-equiv="refresh" content="{max(1, round(refresh))}">',
        headline=html.escape(shortened(headline)),
        finding=html.escape(shortened(finding)),
        kind=kind,
        css=packaged("report.css"),
        words=visible(words),
        contents=" ".join(f'<a href="#{part.identifier}">{html.escape(part.title)}</a>' for part in parts),
        sections="\n".join(part.html for part in parts),
        missing=missing,
        steps=json_script("cursor-data", dict(steps or {"steps": []})),
        script=packaged("report.js"),
    )


def _page(measured: Measured, bodies: dict[Section, str], refresh: float | None) -> str:
    familiarity = measured.familiarity
    return page_html(
        name=title(measured.run, str(measured.table["run"].iloc[0])),
        headline=headline(measured.stages, familiarity),
        finding=finding(measured.stages, familiarity),
        kind="foreign" if familiarity is not None and familiarity.foreign else "finding",
        words=run_in_words(measured.run, measured.table, measured.provenance),
        parts=[Part(section.identifier, section.title, body, section.folded) for section, body in bodies.items()],
        missing=_missing(measured, bodies),
        steps=_checkpoints(measured),
        refresh=refresh,
    )


def _checkpoints(measured: Measured) -> dict[str, list[Any]]:
    """Return the checkpoints, what each is called, the tokens before it, and, of several, the stage that it lies in."""
    table = measured.table.drop_duplicates("step").sort_values("step")
    steps = [int(step) for step in table["step"]]
    starts = [] if measured.stages is None else measured.stages.table["start"].tolist()
    counted = "tokens" in table and bool(table["tokens"].notna().all()) and axis_in_force() is None
    return {
        **cursor_over(steps),
        "tokens": [int(tokens) for tokens in table["tokens"]] if counted else [],
        "stages": [f"stage {bisect(starts, step)}" if len(starts) > 1 else "" for step in steps],
    }


def cursor_over(steps: Sequence[int]) -> dict[str, list[Any]]:
    """Return the steps of the cursor, and the name of each."""
    return {"steps": [*steps], "names": [at(step) for step in steps]}


def _missing(measured: Measured, bodies: Iterable[Section]) -> str:
    present = set(bodies)
    absent = [
        section.missing for section in (*SECTIONS, *LAST) if section not in present and section.applies_to(measured)
    ]
    if set(measured.table["probe"]) == {LOGGED}:  # a log has no model to measure
        return ""
    told = [f"Not measured in this run: {'; '.join(absent)}"] if absent else []
    told += filter(None, [unmeasured_in_words(measured.file.folder)])
    return "".join(f'<p class="missing">{html.escape(each)}.</p>' for each in told)
