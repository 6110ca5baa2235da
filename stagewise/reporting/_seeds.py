"""The report on the seeds of one training."""

import dataclasses
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd

from stagewise import plot
from stagewise.bars import bar
from stagewise.findings import Stages
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.replicates import Replicates
from stagewise.plot.curves import quantity_of
from stagewise.plot.seeds import bands_of
from stagewise.reporting._figure import LOOK, Plot, figure_html, identifier
from stagewise.reporting._html import AbstractShown, wording
from stagewise.reporting._measured_runs import MeasuredRuns, first_foreign, over_seeds, read_runs, seeds_in_words
from stagewise.reporting._prose import NONE, html_table, in_words, number, stage_rows
from stagewise.reporting.page import Part, cursor_over, page_html, write_page
from stagewise.saved_findings import save_replicates
from stagewise.statistics import FEWEST_SEEDS
from stagewise.table import head_label, select
from stagewise.words import CAVEAT, capital, count, counted_in, event_names, interval, written
from stagewise.words import seeds as seed_words
from stagewise.words.stages import too_few

FOREIGN = "The probe batch is foreign to these models"
"""Headline of a page on seeds where it is so of one."""

EVENTS = ("what", "seeds", "step, mean over seeds", "another seed", "sd between seeds, log steps")

RANGE, INTERVAL = "their range", "its 95&nbsp;% t interval over seeds"


def _stages_part(stages: Sequence[Stages]) -> Part:
    """Return the section with the stages of several seeds in one table, behind a column for the run's name."""
    rows = [
        [one.run, *row[:3], too_few(*one.unknown) if one.unknown else row[-1]]
        for one in stages
        for row in stage_rows(one)
    ]
    table = html_table(("seed", "stage", "from step", "to step", "what happened"), rows)
    return Part("stages", "The stages of each seed", table)


def _roles_part(roles: pd.DataFrame) -> Part:
    """Return the section with the head of each run, by its name, that has each role; a dash where none has."""
    named = roles.assign(name=[head_label(*each) for each in zip(roles["layer"], roles["head"], strict=True)])
    runs = list(dict.fromkeys(roles["run"]))
    wide = named.pivot(index=["layer", "role"], columns="run", values="name")[runs]
    rows = [[head_label(*row[0]), *row[1:]] for row in wide.fillna(NONE).itertuples(name=None)]
    table = html_table(["role", *runs], rows)
    return Part("roles", "Heads by their roles", f"<p>{wording('seeds', 'roles')}</p>{table}")


def _curve_parts(table: pd.DataFrame, caption: str) -> Iterator[Part]:
    """Yield a section a quantity that all runs have: its curves in one figure."""
    quantities = table[["probe", "quantity"]].drop_duplicates()
    with bar("drawing", len(quantities), "figure") as shown:
        for probe, name in quantities.itertuples(index=False):
            shown.update()
            rows = select(table, probe, name)
            if rows["run"].nunique() == table["run"].nunique() and rows["value"].notna().any() and bands_of(rows):
                identity = identifier(f"{probe}-{name}")
                title = f"{capital(quantity_of(table, probe, name).label)} ({in_words(probe).lower()})"
                figure = Plot(f"seeds-{identity}", {"": plot.over_seeds(table, probe, name)}, rows, caption)
                yield Part(f"curve-{identity.lower()}", title, figure_html(figure))


@dataclasses.dataclass(frozen=True, eq=False)
class SeedReport(AbstractShown):
    """The results of several seeds side by side, heads by their roles; the familiarity of a run on its task is None."""

    stages: tuple[Stages, ...]
    replicates: Replicates
    table: pd.DataFrame
    report: Path
    familiarities: tuple[BatchFamiliarity | None, ...]

    def __str__(self) -> str:
        return f"{seeds_in_words(self.stages, self.replicates, self.familiarities)}\nreport: {self.report}"


def report_seeds(
    folders: Sequence[str | Path], out: str | Path, axis: str = "steps", tokens_per_step: int | None = None
) -> SeedReport:
    """Write one report on the measured runs of several seeds, and return what it shows."""
    places, out = [Path(folder) for folder in folders], Path(out)
    if len(places) < 2:
        raise ValueError(f"seeds side by side are two runs or more, got {', '.join(map(str, places)) or 'none'}")
    seeds = read_runs(places, axis, tokens_per_step)
    with counted_in(axis):
        return _written(seeds, out)


def _written(seeds: MeasuredRuns, out: Path) -> SeedReport:
    replicates, aligned = over_seeds(seeds)
    save_replicates(replicates, out)
    stages, events = seeds.stages, replicates.events
    numbers = sorted({len(one.table) for one in stages})
    spread = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    boundaries = events[events["recurs"] & (events["kind"] == "boundary")]
    names = event_names(replicates.catalogue, replicates.quantities)
    first = seed_words.events(boundaries if len(boundaries) else events, len(stages), names)[0]
    headline = f"{spread} stages in each seed, {count(int(events['recurs'].sum()), 'event')} in half of them or more"
    finding = f"{len(stages)} seeds have {spread} stages each. {capital(first)}."
    with matplotlib.style.context(LOOK):
        sections = list(_parts(stages, replicates, names, aligned))
    if foreign := first_foreign(seeds.familiarities):
        headline, finding = FOREIGN, f"Of one seed: {foreign}"
        sections = [part._replace(body=f'<p class="caveat">{CAVEAT}.</p>\n{part.body}') for part in sections]
    page = page_html(
        name=f"{len(stages)} seeds",
        headline=headline,
        finding=finding,
        kind="foreign" if foreign else "finding",
        words=html.escape(f"The seeds: {', '.join(one.run for one in stages)}."),
        parts=sections,
        steps=cursor_over(sorted(int(step) for step in seeds.whole["step"].unique())),
    )
    return SeedReport(stages, replicates, aligned, write_page(out, page), seeds.familiarities)


def _parts(stages: Sequence[Stages], replicates: Replicates, names: list[str], table: pd.DataFrame) -> Iterator[Part]:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in seed_words.order(replicates.order, names))
    recurring = replicates.events[replicates.events["recurs"]].to_dict("records")
    events = html_table(EVENTS, (_event_row(row, names[row["event"]]) for row in recurring))
    order = f'<h3>In which order</h3><ul class="sentences">{lines}</ul>'
    yield Part("over-seeds", "What recurs over seeds", f"{events}{wording('seeds', 'intervals')}{order}")
    yield _stages_part(stages)
    if len(replicates.roles):
        yield _roles_part(replicates.roles)
    yield from _curve_parts(table, wording("seeds", "curves", band=INTERVAL if len(stages) >= FEWEST_SEEDS else RANGE))


def _event_row(row: dict[Any, Any], name: str) -> list[object]:
    when, new = seed_words.between(row), "cannot be told"
    if row["told"]:
        when, new = interval(row["step"], row["lo"], row["hi"]), f"{written(row['new_lo'])} to {written(row['new_hi'])}"
    return [name, row["seeds"], when, new, number(row["between"])]
