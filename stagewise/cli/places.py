"""Where what the command line names is measured: the folder of one source's table, one report on several seeds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stagewise.cli.names import only_task
from stagewise.cli.options import one_thread
from stagewise.cli.recipes import recipe_in

if TYPE_CHECKING:
    from stagewise.checkpoints.series import CheckpointSeries
    from stagewise.reporting.seeds import SeedReport
    from stagewise.task import AbstractTask, Batch


def each_run(sources: Sequence[str], out: Path | None = None, steps: str | None = None) -> list[str]:
    """Return the sources, files of curves as the folders of their runs; those of the only source in `out`.

    Raises:
        ValueError: a column of steps is named, and no source holds curves; or what `curves` refuses.
    """
    from stagewise.reporting.logged import is_log, logged_folders

    if steps is not None and not any(map(is_log, sources)):
        raise ValueError(f"--steps names a column of a file of logged curves; {', '.join(sources)} holds none")
    place = out if len(sources) == 1 else None
    runs = ([*map(str, logged_folders(each, place, steps))] if is_log(each) else [each] for each in sources)
    return [run for of_source in runs for run in of_source]


def report_on_seeds(
    sources: Sequence[str],
    out: Path | None,
    opened: "Callable[[str], tuple[CheckpointSeries, AbstractTask | None]]",
    how: Mapping[str, Any],
    *,
    own: Sequence[str] = (),
    anew: bool = False,
) -> "SeedReport":
    """Write one report on several runs or sources.

    Args:
        sources: run folders, measured folders, or what `open_series` opens.
        out: where the report goes; None takes a folder in `runs/` after the first source.
        opened: opens a source, with the task that it is measured on.
        how: the options of measuring.
        own: tasks that the records of run folders name, as module:Class.
        anew: whether data of one's own are given: then runs that were measured on their task are measured on these.
    """
    from stagewise.reporting.seeds import report_seeds

    folders = [_measured(source, opened, how, own, anew) for source in sources]
    return report_seeds(folders, out or Path("runs", f"{Path(sources[0]).name}-and-{len(sources) - 1}-more"))


def _measured(
    source: str,
    opened: "Callable[[str], tuple[CheckpointSeries, AbstractTask | None]]",
    how: Mapping[str, Any],
    own: Sequence[str],
    anew: bool,
) -> Path:
    """Return the folder of a source's table; measure it first where there is none."""
    from stagewise.checkpoints.run_folder import RUN, TABLE

    folder = Path(source)
    if (folder / TABLE).exists() and not anew and how.get("sequences") is None:
        return folder
    if (folder / RUN).exists() and not anew:
        measure_run_folder(folder, own, how)
        return folder
    one_thread()
    from stagewise.analysis import analyse, folder_of

    series, task = opened(source)
    folder = folder_of(series)
    analyse(series, folder, task=task, **how)
    return folder


def measure_run_folder(folder: Path, own: Sequence[str], how: Mapping[str, Any]) -> None:
    """Measure a run on its own task.

    Args:
        folder: of the run.
        own: tasks that its record names, as module:Class.
        how: the options of measuring.
    """
    one_thread()
    from stagewise.analysis import measure_run

    measure_run(recipe_in(folder, tasks=own), folder, **how)


def measured_folder(source: str) -> Path:
    """Return where the table of a source lies: in its own folder, or where `measure` and `report` write it.

    The curves of a file become a table first.
    """
    from stagewise.checkpoints.run_folder import RUN, TABLE
    from stagewise.reporting.logged import is_log, logged_folder

    if is_log(source):
        return logged_folder(source)
    folder = Path(source)
    if (folder / TABLE).exists() or (folder / RUN).exists() or (folder.exists() and not any(folder.glob("*"))):
        return folder
    from stagewise.analysis import folder_of
    from stagewise.checkpoints.series import find
    from stagewise.checkpoints.sources import Source

    # Where there is no folder the source is a repository, and the hub need not be asked.
    elsewhere = folder_of(find(source) if folder.exists() else Source(source, (), identity=source))
    return elsewhere if (elsewhere / TABLE).exists() else folder


def opened_source(
    source: str, architecture: str | None, own: list[str] | None, data: tuple[Any, ...], branch: str | None = None
) -> "tuple[CheckpointSeries, AbstractTask | None]":
    """Open a source, with the task that it is measured on: one's own data, or one's own task."""
    from stagewise.checkpoints.series import open_series
    from stagewise.reporting.logged import is_log
    from stagewise.tasks.tokens import own_task

    if is_log(source):
        raise ValueError(f"{source} holds curves and no checkpoints: `stagewise report {source}` shows them")
    series = open_series(source, architecture=architecture, branch=branch)
    return series, own_task(series, *data) or only_task(own)


class Opened(NamedTuple):
    """The checkpoints of a source, the probe batch that they are measured on, and the folder of their tables.

    `identity` is that of a source whose tables lie elsewhere; a run has its own, and none.
    """

    series: "CheckpointSeries"
    batch: "Batch"
    folder: Path
    identity: str | None

    def claim(self) -> None:
        """Claim the folder, before the first thing is written."""
        from stagewise.checkpoints.run_folder import claim_for

        if self.identity is not None:
            claim_for(self.folder, self.identity)


def opened_with_batch(
    source: str,
    out: Path | None,
    architecture: str | None,
    own: list[str] | None,
    data: tuple[Any, ...],
    branch: str | None = None,
) -> Opened:
    """Open a source on the probe batch that `measure` measures it on: a run on that of its own task.

    Args:
        source: a run folder, or what `open_series` opens.
        out: the folder of the tables of another source than a run; None takes one in `runs/`.
        architecture: what the models are, where no config lies beside them.
        branch: of training, where the source has several.
        own: a task of one's own, as module:Class.
        data: tokens, relations, text and tokenizer, as `tasks.tokens.own_task` takes them.

    Raises:
        ValueError: the folder holds the measurements of another source.
    """
    from stagewise.analysis import folder_of
    from stagewise.checkpoints.run_folder import RUN, check_claim
    from stagewise.checkpoints.series import open_series
    from stagewise.measurement.probe_batch import run_batch, series_batch

    tokens, _, text, _ = data
    if not (text or tokens) and (folder := Path(source)).joinpath(RUN).exists():
        recipe = recipe_in(folder, tasks=own or ())
        series = open_series(folder, classes=[type(recipe.architecture.init)])
        return Opened(series, run_batch(recipe, folder), folder, None)
    series, task = opened_source(source, architecture, own, data, branch)
    batch, folder = series_batch(series, task), out or folder_of(series)
    identity = series.source.identity if series.source else series.name
    check_claim(folder, identity)
    return Opened(series, batch, folder, identity)
