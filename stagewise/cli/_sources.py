"""A source of the command line: opened and measured, the folder of its table, and the cost of a remote one."""

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

import stagewise
from stagewise import checkpoints, measurement, reporting
from stagewise.cli._commands import one_thread
from stagewise.cli._names import is_run, only_task, task_classes
from stagewise.cli._options import DataOptions, Measurement
from stagewise.cli._recipes import recipe_in
from stagewise.processes import cores, readers, several

MUCH_BYTES = 20 * 10**9
"""A download above which a person is asked."""


def agree_to_cost(sources: "Iterable[checkpoints.sources.Source | None]", yes: bool) -> None:
    """Print the size of the download of remote sources; where it is much, ask, or refuse in a script."""
    remote = [source for source in sources if source is not None and source.remote and source.entries]
    if not remote:
        return
    entries = [entry for source in remote for entry in source.entries]
    size = sum(entry.download() for entry in entries)
    name = remote[0].name + (f" and {len(remote) - 1} more" if len(remote) > 1 else "")
    told = f"{name}: {len(entries)} checkpoints, {size / 1e9:.2f} GB to download"
    if size > MUCH_BYTES and not (yes or _person_is_there()):
        raise ValueError(
            f"{told}. No weights were downloaded. --yes starts it; --checkpoints 20 takes 20 of them, log-spaced with "
            "the first and the last one, and --steps 0:10000:1000 those of these steps"
        )
    print(told, file=sys.stderr)
    if size > MUCH_BYTES and not yes:
        typer.confirm("Go on?", abort=True)


def _person_is_there() -> bool:
    return sys.stdin.isatty()


def each_run(sources: Sequence[str], out: Path | None = None, steps: str | None = None) -> list[str]:
    """Return the sources, files of curves as the folders of their runs; those of the only source in `out`."""
    is_log = checkpoints.is_log
    if steps is not None and not any(map(is_log, sources)):
        raise ValueError(f"--step-column names a column of a file of logged curves; {', '.join(sources)} holds none")
    folder = out if len(sources) == 1 else None
    runs = ([*map(str, reporting.logged_folders(each, folder, steps))] if is_log(each) else [each] for each in sources)
    return [run for of_source in runs for run in of_source]


def print_report(folder: Path) -> None:
    """Write the report of a folder that is measured, and print where it is."""
    if (folder / checkpoints.TABLE).exists():
        print(f"report: {stagewise.report(folder, workers=cores())}")


def name_causes_of(folders: Sequence[Path], causes: Mapping[str, int | tuple[int, int]]) -> None:
    """Write the causes of the command line beside the tables of measured runs."""
    for folder in folders if causes else ():
        checkpoints.table_file(folder)  # else nothing is measured there
        checkpoints.name_causes(folder, causes)


def measured_first(
    sources: Sequence[str], data: DataOptions, measurement: Measurement, out: Path | None = None
) -> "Iterator[tuple[Path, reporting.Analysis | None]]":
    """Yield the folders of the sources' tables; measure first those that have none, or all where other data are given.
    Checkpoints from elsewhere get a report then, with which `analyse` ends: it is returned too.
    """
    asked_anew = data.given or measurement.probe or measurement.sequences is not None or data.choice is not None
    missing = [source for source in sources if asked_anew or not _has_table(source, measurement)]
    opened: list[OpenedSource] = []
    if missing:
        one_thread()
        opened = [opened_source(source, data, out, agree=False) for source in missing]
        agree_to_cost((one.series.source for one in opened), data.yes)
    audits = zip(opened, measure_each(opened, measurement), strict=True)
    for source in sources:
        yield _concluded(*next(audits), measurement) if source in missing else (Path(source), None)


def _has_table(source: str, measurement: Measurement) -> bool:
    """Whether a source was measured; then what is chosen of its probes is no choice."""
    there = Path(source, checkpoints.TABLE).exists()
    if there and (measurement.only or measurement.without):
        why = "was measured before, and all of that is shown: --only and --without choose for `stagewise measure`"
        print(f"{source} {why}", file=sys.stderr)
    return there


def measured_folder(source: str) -> Path:
    """Return where a source's table lies, or will be written; the curves of a file become a table first."""
    if checkpoints.is_log(source):
        return reporting.logged_folder(source)
    folder, table = Path(source), checkpoints.TABLE
    if (folder / table).exists() or (folder.exists() and not any(folder.glob("*"))):
        return folder
    # Where there is no folder the source is a repository. Names of checkpoints need not be read, nor the hub be asked.
    name = Path(os.path.abspath(folder)).name if folder.exists() else source
    named = checkpoints.sources.Source(name, (), identity=os.path.realpath(folder) if folder.exists() else source)
    elsewhere = checkpoints.series.folder_of(named)
    if (elsewhere / table).exists() and not (folder / checkpoints.RUN).exists():
        return elsewhere
    tables = elsewhere.parent.glob(f"{glob.escape(elsewhere.name)}{checkpoints.series.ON_PAIRS}*/{table}")
    on_pairs = [each.parents[1] for each in sorted(tables, key=lambda each: each.stat().st_mtime_ns)]
    if len(on_pairs) > 1:
        print(f"{source}: {on_pairs[-1]} is the last measured of {', '.join(map(str, on_pairs))}", file=sys.stderr)
    return on_pairs[-1] if on_pairs else folder


class OpenedSource(NamedTuple):
    """The checkpoints of a source, and the folder of their tables; a run has a recipe, others may have a task."""

    series: "stagewise.CheckpointSeries"
    folder: Path
    recipe: "stagewise.Recipe | None"
    task: "stagewise.AbstractTask | None"

    @property
    def batch(self) -> "stagewise.Batch":
        """The probe batch that `measure` measures it on."""
        if self.recipe is None:
            return measurement.probe_batch.series_batch(self.series, self.task)
        return stagewise.load_batch(self.recipe, self.folder)


def opened_source(source: str, data: DataOptions, out: Path | None = None, *, agree: bool = True) -> OpenedSource:
    """Open a run on its own task, or others on the given data; somebody agrees where a download takes much."""
    from stagewise.tasks.tokens import own_task

    if not data.given and is_run(source):
        folder = Path(source)
        if out is not None:
            print(f"--out is not used: the tables of a run lie in its own folder, {folder}", file=sys.stderr)
        recipe = recipe_in(folder, tasks=data.own_task or ())
        series = stagewise.open_series(folder, classes=[type(recipe.architecture.init)], steps=data.choice)
        return OpenedSource(series, folder, recipe, None)
    task_classes(data.own_task or ())  # which the record of a run may name
    series = stagewise.open_series(source, **data.opening())
    trained_on = recipe_in(Path(source), tasks=data.own_task or ()).task if is_run(source) else None
    files = data.tokens, data.relation or (), data.text, data.tokenizer, data.pairs
    task = own_task(series, *files, trained_on, data.whole_answers) or only_task(data.own_task) or trained_on
    folder = out or checkpoints.series.folder_of(series, data.pairs)
    checkpoints.check_claim(folder, (series.source and series.source.identity) or series.name)
    if agree:
        agree_to_cost([series.source], data.yes)
    return OpenedSource(series, folder, None, task)


def cost_of_pairs(source: str, data: DataOptions) -> str:
    """Say how many passes a checkpoint takes on a file of prompts."""
    opened = opened_source(source, data, agree=False)
    batch, architecture = opened.batch, opened.series.architecture
    edits = {edit for probe in stagewise.default_probes(architecture, batch) for edit in probe.edits(architecture)}
    clean = 1 + len(getattr(batch, "others", ()))
    most = f"up to {len(edits) * min(clean, 2)} with a head replaced"
    return f"{data.pairs}: {len(batch)} prompts; a checkpoint takes {clean} clean passes, and {most}"


def _concluded(
    opened: OpenedSource, audit: "checkpoints.Audit | None", measurement: Measurement
) -> "tuple[Path, reporting.Analysis | None]":
    """Return the folder of a measured source, and but for a run what is concluded of it."""
    from stagewise.analysis import conclude

    if audit is None:
        return opened.folder, None
    series, folder, _, task = opened
    table = checkpoints.table_file(folder).read()
    with readers(cores(), len(table)) as pool:
        return folder, conclude(series, folder, audit, table, task, device=measurement.device, executor=pool)


def measure_each(opened: Sequence[OpenedSource], measurement: Measurement) -> "Iterator[checkpoints.Audit | None]":
    """Measure the sources one after the other; yield each one's audit, None of a run."""
    with several(measurement.workers) as pool:
        yield from (_measured(one, measurement, pool) for one in opened)


def _measured(opened: OpenedSource, measurement: Measurement, pool: Any) -> "checkpoints.Audit | None":
    from stagewise.analysis import measure_run, measured

    arguments: dict[str, Any] = {**measurement.arguments(), "executor": pool}
    if opened.recipe is not None:
        measure_run(opened.recipe, opened.folder, series=opened.series, **arguments)
        return None
    return measured(opened.series, opened.folder, task=opened.task, **arguments)[0]  # not its table, to be kept
