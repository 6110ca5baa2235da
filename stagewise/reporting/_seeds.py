"""Several seeds in one report: their curves with bands, their stages side by side, heads aligned by their roles."""

import dataclasses
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise import plot
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.replicates import Replicates
from stagewise.findings.stages import Stages
from stagewise.plot._over_seeds import bands_of
from stagewise.reporting._html import AbstractShown, wording
from stagewise.reporting._measured_runs import (
    MeasuredRuns,
    curve_parts,
    heads_by_role,
    over_seeds,
    read_runs,
    seeds_in_words,
    stages_part,
    write_runs,
)
from stagewise.reporting._prose import html_table, number
from stagewise.reporting.page import Part
from stagewise.saved_findings import save_replicates
from stagewise.statistics._constants import FEWEST_SEEDS
from stagewise.table import head_label
from stagewise.words import _seeds as seed_words
from stagewise.words._grammar import capital, count
from stagewise.words._times import counted_in, interval, written

EVENTS = ("what", "seeds", "step, mean over seeds", "another seed", "sd between seeds, log steps")
RANGE, INTERVAL = "their range", "its 95&nbsp;% t interval over seeds"


@dataclasses.dataclass(frozen=True, eq=False)
class SeedReport(AbstractShown):
    """The results of several seeds side by side, heads by their roles; the familiarity of a run on its task is None."""

    stages: tuple[Stages, ...]
    replicates: Replicates
    table: pd.DataFrame
    report: Path
    familiarities: tuple[BatchFamiliarity | None, ...] = ()

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
    first = seed_words.events(boundaries if len(boundaries) else events, len(stages), replicates.names)[0]
    page = write_runs(
        out,
        seeds,
        _parts(stages, replicates, aligned, out),
        of="seed",
        name=f"{len(stages)} seeds",
        headline=f"{spread} stages in each seed, {count(int(events['recurs'].sum()), 'event')} in half of them or more",
        finding=f"{len(stages)} seeds have {spread} stages each. {capital(first)}.",
        words=html.escape(f"The seeds: {', '.join(one.run for one in stages)}."),
    )
    return SeedReport(stages, replicates, aligned, page, seeds.familiarities)


def _parts(stages: Sequence[Stages], replicates: Replicates, table: pd.DataFrame, out: Path) -> Iterator[Part]:
    names = replicates.names
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in seed_words.order(replicates.order, names))
    recurring = replicates.events[replicates.events["recurs"]].to_dict("records")
    events = html_table(EVENTS, (_event_row(row, names[row["event"]]) for row in recurring))
    yield Part(
        "over-seeds",
        "What recurs over seeds",
        f'{events}{wording("seeds", "intervals")}<h3>In which order</h3><ul class="sentences">{lines}</ul>',
    )
    yield stages_part("seed", stages)
    if len(replicates.roles):
        runs = list(dict.fromkeys(replicates.roles["run"]))
        roles = [[head_label(*pair), *heads] for pair, heads in heads_by_role(replicates.roles, runs).items()]
        yield Part(
            "roles", "Heads by their roles", f"<p>{wording('seeds', 'roles')}</p>{html_table(['role', *runs], roles)}"
        )
    caption = wording("seeds", "curves", band=INTERVAL if len(stages) >= FEWEST_SEEDS else RANGE)
    yield from curve_parts(table, out, "seeds", plot.over_seeds, caption, bands_of)


def _event_row(row: dict[Any, Any], name: str) -> list[object]:
    when, new = seed_words.between(row), "cannot be told"
    if row["told"]:
        when, new = interval(row["step"], row["lo"], row["hi"]), f"{written(row['new_lo'])} to {written(row['new_hi'])}"
    return [name, row["seeds"], when, new, number(row["between"])]
