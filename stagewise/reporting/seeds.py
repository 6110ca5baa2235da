"""Several seeds in one report: their curves with bands, their stages side by side, heads aligned by their roles."""

import dataclasses
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd

from stagewise import plot
from stagewise.checkpoints.run_folder import REPORT, write
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.replicates import Replicates
from stagewise.findings.stages import Stages
from stagewise.plot.over_seeds import bands_of
from stagewise.reporting.figure import LOOK, Plot, figure_html, identifier
from stagewise.reporting.html import Page, inline
from stagewise.reporting.measured_runs import (
    FOREIGN,
    MeasuredRuns,
    curve_title,
    over_seeds,
    read_runs,
    seeds_in_words,
    stages_of_each,
    with_caveat,
)
from stagewise.reporting.page import Part, page_html
from stagewise.reporting.prose import html_table, number
from stagewise.saved_findings import save_replicates
from stagewise.statistics._constants import FEWEST_SEEDS
from stagewise.table import head_label, select
from stagewise.words import seeds as seed_words
from stagewise.words.grammar import capital, count

EVENTS = ("what", "seeds", "step, mean over seeds", "another seed", "sd between seeds, log steps")
INTERVALS = (
    "<p>In brackets: Student's 95&nbsp;% interval over seeds, and beside it that of another seed. Of fewer than four "
    "seeds, and where such an interval would leave the run, the range of the seeds is given instead.</p>"
)
ROLES = "The heads of the seeds are aligned by what they do over training; a role has the name of a head of one seed. "
CURVES = "The mean over seeds; the band is {}, thin lines are the seeds. "
RANGE, INTERVAL = "their range", "its 95&nbsp;% t interval over seeds"


@dataclasses.dataclass(frozen=True, eq=False)
class SeedReport:
    """The results of several seeds side by side.

    Args:
        stages: of each seed.
        replicates: what recurs over seeds, when, and in which order.
        table: what stages are found in, of all seeds, heads by their roles.
        report: the HTML file.
        familiarities: whether each seed's models know sequences like those of the probe batch; None for a run on its
            task.
    """

    stages: tuple[Stages, ...]
    replicates: Replicates
    table: pd.DataFrame
    report: Path
    familiarities: tuple[BatchFamiliarity | None, ...] = ()

    def __str__(self) -> str:
        return f"{seeds_in_words(self.stages, self.replicates, self.familiarities)}\nreport: {self.report}"

    def _repr_html_(self) -> str:
        return inline(self.report)


def report_seeds(folders: Sequence[str | Path], out: str | Path) -> SeedReport:
    """Write one report on the measured runs of several seeds, and return what it shows.

    Args:
        folders: of the runs, measured, each with four checkpoints or more.
        out: the folder of the report, its figures and `replicates.json`.

    Raises:
        FileNotFoundError: a folder holds no table.
        ValueError: fewer than two runs, one in which no stages can be looked for, or runs whose heads differ.
    """
    places, out = [Path(folder) for folder in folders], Path(out)
    if len(places) < 2:
        raise ValueError(f"seeds side by side are two runs or more, got {', '.join(map(str, places)) or 'none'}")
    seeds = read_runs(places)
    replicates, aligned = over_seeds(seeds)
    save_replicates(replicates, out)
    page = _page(seeds, replicates, aligned, out)
    written = write(out / REPORT, lambda partial: partial.write_text(page, encoding="utf8"))
    return SeedReport(seeds.stages, replicates, aligned, Page(written), seeds.familiarities)


def _page(seeds: MeasuredRuns, replicates: Replicates, table: pd.DataFrame, out: Path) -> str:
    stages = seeds.stages
    numbers = [len(one.table) for one in stages]
    recurring = int(replicates.events["recurs"].sum())
    spread = f"{min(numbers)} to {max(numbers)}" if min(numbers) < max(numbers) else f"{numbers[0]}"
    with matplotlib.style.context(["default", LOOK]):
        parts = list(_parts(stages, replicates, table, out))
    events = replicates.events
    boundaries = events[events["recurs"] & (events["kind"] == "boundary")]
    first = seed_words.events(boundaries if len(boundaries) else events, len(stages), replicates.names)[0]
    headline = f"{spread} stages in each seed, {count(recurring, 'event')} in half of them or more"
    finding = f"{len(stages)} seeds have {spread} stages each. {capital(first)}."
    if foreign := seeds.foreign:
        headline, finding, parts = FOREIGN, f"Of one seed: {foreign}", with_caveat(parts)
    return page_html(
        name=f"{len(stages)} seeds",
        headline=headline,
        finding=finding,
        kind="foreign" if foreign else "finding",
        words=html.escape(f"The seeds: {', '.join(one.run for one in stages)}."),
        parts=parts,
        steps={"steps": sorted(int(step) for step in table["step"].unique())},
    )


def _parts(stages: Sequence[Stages], replicates: Replicates, table: pd.DataFrame, out: Path) -> Iterator[Part]:
    names = replicates.names
    order = seed_words.order(replicates.order, names)
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in order)
    recurring = replicates.events[replicates.events["recurs"]].to_dict("records")
    events = html_table(EVENTS, (_event_row(row, names[row["event"]]) for row in recurring))
    yield Part(
        "over-seeds",
        "What recurs over seeds",
        f'{events}{INTERVALS}<h3>In which order</h3><ul class="sentences">{lines}</ul>',
    )
    yield Part("stages", "The stages of each seed", stages_of_each("seed", stages))
    if len(replicates.roles):
        yield Part("roles", "Heads by their roles", f"<p>{ROLES}</p>{_roles(replicates.roles)}")
    for (probe, name), figure in _figures(table):
        place = f"curve-{identifier(f'{probe}-{name}').lower()}"
        yield Part(place, curve_title(table, probe, name), figure_html(figure, out))


def _event_row(row: dict[Any, Any], name: str) -> list[object]:
    when, new = seed_words.between(row), "cannot be told"
    if row["told"]:
        when = f"{row['step']:.0f} [{number(row['lo'])}, {number(row['hi'])}]"
        new = f"{number(row['new_lo'])} to {number(row['new_hi'])}"
    return [name, row["seeds"], when, new, number(row["between"])]


def _roles(roles: pd.DataFrame) -> str:
    runs = list(dict.fromkeys(roles["run"]))
    heads = {
        (row["layer"], row["role"], row["run"]): head_label(row["layer"], row["head"])
        for row in roles.to_dict("records")
    }
    pairs = sorted({(layer, role) for layer, role, _ in heads})
    rows = [[head_label(*pair), *(heads[(*pair, run)] for run in runs)] for pair in pairs]
    return html_table(["role", *runs], rows)


def _figures(table: pd.DataFrame) -> Iterator[tuple[tuple[str, str], Plot]]:
    """Yield a figure a quantity that all seeds have."""
    for probe, name in table[["probe", "quantity"]].drop_duplicates().itertuples(index=False):
        rows = select(table, probe, name)
        if rows["run"].nunique() < table["run"].nunique() or not rows["value"].notna().any() or not bands_of(rows):
            continue
        panel = {"": plot.over_seeds(table, probe, name)}
        caption = CURVES.format(INTERVAL if rows["run"].nunique() >= FEWEST_SEEDS else RANGE)
        yield (probe, name), Plot(f"seeds-{identifier(f'{probe}-{name}')}", panel, rows, caption)
