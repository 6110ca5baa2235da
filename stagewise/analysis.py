"""Everything in one call: `run` a recipe from training to report, `analyse` checkpoints that are there already."""

import concurrent.futures
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from stagewise.checkpoints import Choice, name_causes, run_folder
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.run_folder import ANALYSIS, REPEATED, RESTRICTED, TABLE, write_json
from stagewise.checkpoints.series import CheckpointSeries, folder_of, open_series
from stagewise.checkpoints.sources import by_hand
from stagewise.findings.batch_familiarity import familiarity_of_run
from stagewise.measurement import analysis_record, provenance
from stagewise.measurement.engine import Resources, check, check_resources, measure
from stagewise.measurement.probe_batch import batch_of_run, batch_of_series, parted
from stagewise.measurement.recorded_losses import above_recorded
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, Copying
from stagewise.probes.default_probes import Probes as Probes
from stagewise.probes.default_probes import chosen_probes
from stagewise.processes import several, worker_pool
from stagewise.recipe import Recipe
from stagewise.reporting import Analysis as Analysis
from stagewise.reporting import write_batch
from stagewise.reporting.attention_view import write_example
from stagewise.reporting.page import report
from stagewise.saved_findings import load_stages
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import RepeatedTokens
from stagewise.tasks.text import Texts
from stagewise.tasks.tokens import own_task
from stagewise.tasks.windows import restricted_contexts, restricted_recipe
from stagewise.training import train

_ON_REPEATED: tuple[AbstractProbe, ...] = (AttentionTo(("previous token", "induction")), Copying())
"""Probes that read the repeated tokens of a task."""

Contexts = bool | Sequence[int] | None
"""Baselines to train: none (False), those of the task's contexts (True), or those of the contexts given; None trains
them where the task names contexts for them."""


def run(
    recipe: Recipe,
    folder: str | Path,
    *,
    probes: Probes = None,
    extra_probes: Sequence[AbstractProbe] = (),
    restricted: Contexts = False,
    **resources: Unpack[Resources],
) -> Analysis:
    """Train, probe every checkpoint, find the stages and write `report.html`.

    Restricted-context models train beside the full one, which is one of as many at once as there are workers, or of
    two; the workers then measure, find the stages and draw. A second call resumes a killed run.

    Args:
        recipe: of any task.
        folder: the run folder.
        probes: what to measure, or a function that chooses as `default_probes` does, which None takes.
        extra_probes: what to measure in addition.
        restricted: whether to train restricted-context baselines, of the contexts that the task names or of these; None
            trains them where the task names any.
        resources: device, dtype, workers, memory and progress, as in `measure`; training takes device and dtype too.

    Raises:
        ValueError: the folder belongs to another recipe, or a context is not one of the task.
    """
    folder = Path(folder)
    contexts = chosen_contexts(recipe, restricted)
    check_resources(**resources)
    run_folder.claim(folder, recipe)
    device, progress = resources.get("device", "cpu"), resources.get("progress", True)
    workers = resources.get("workers", 1)
    with several(workers) as pool:
        with baselines_beside(recipe, folder, contexts, pool, at_once=max(1, workers - 1)):
            dtype = resources.get("dtype", "float32")
            series = train(recipe, folder, progress=progress, device=device, dtype=dtype)
        table = measure_run(recipe, folder, probes=probes, extra_probes=extra_probes, executor=pool, **resources)
        stages = load_stages(table, folder=folder, executor=pool)
        write_example(folder, series, stages, recipe.task, device=device)
        return Analysis(series, None, table, stages, report(folder, executor=pool))


def _train_restricted(recipe: Recipe, folder: Path, contexts: Sequence[int]) -> None:
    """Train baselines of a run folder one after the other, without a progress bar."""
    for context in contexts:
        train(restricted_recipe(recipe, context), folder / RESTRICTED / str(context), progress=False)


def chosen_contexts(recipe: Recipe, restricted: Contexts) -> tuple[int, ...]:
    """Return the contexts of the requested baselines, checked before anything is trained."""
    task = recipe.task
    if restricted is None:
        restricted = task.contexts is not None
    if restricted is False:
        return ()
    contexts = restricted_contexts(task) if restricted is True else tuple(restricted)
    if contexts and task.sample(1, recipe.plan.seeds.data).is_regression:
        raise ValueError(
            f"restricted-context models are trained on tasks of tokens; {type(task).__name__} is a regression: "
            "leave them out"
        )
    if outside := [context for context in contexts if not 1 <= context <= task.n_ctx]:
        raise ValueError(f"a context is between 1 and the task's {task.n_ctx} positions, got {outside[0]}")
    return contexts


@contextlib.contextmanager
def baselines_beside(
    recipe: Recipe,
    folder: Path,
    contexts: Sequence[int],
    executor: concurrent.futures.Executor | None = None,
    at_once: int = 1,
) -> Iterator[None]:
    """Train the baselines of a run folder in other processes, without an executor in one, during the `with` block."""
    if not contexts:
        yield
        return

    def begin() -> list[concurrent.futures.Future[None]]:
        shares = (contexts[first::at_once] for first in range(at_once))
        return [pool.submit(_train_restricted, recipe, folder, share) for share in shares if share]

    # A thread waits until the first worker has imported torch, and not this one, which imports as much meanwhile.
    processes = worker_pool(1) if executor is None else contextlib.nullcontext(executor)
    with processes as pool, concurrent.futures.ThreadPoolExecutor(1) as thread:
        begun = thread.submit(begin)
        yield
        for baseline in begun.result():
            baseline.result()


def measure_run(
    recipe: Recipe,
    folder: Path,
    *,
    probes: Probes = None,
    extra_probes: Sequence[AbstractProbe] = (),
    sequences: int | None = None,
    series: CheckpointSeries | None = None,
    executor: concurrent.futures.Executor | None = None,
    **resources: Unpack[Resources],
) -> pd.DataFrame:
    """Measure every checkpoint of a run folder and write its table; an interrupted measurement resumes.

    Repeated tokens, of a task that has them, are measured on the CPU, in float32, into a table of their own.
    The arguments are those of `run`, the executor that of `measure`, and `sequences` that of `analyse`; a `series` has
    some of the run's checkpoints.
    """
    batch, notes = batch_of_run(recipe, folder, sequences)
    _tell(notes)
    parts = folder / "tables" / "parts"
    series = series or open_series(folder, classes=[type(recipe.architecture.init)])
    chosen = chosen_probes(probes, extra_probes, recipe.architecture, batch, recipe.task)
    with run_folder.measuring(parts):
        table = measure(series, chosen, batch, folder=parts, save=folder / TABLE, executor=executor, **resources)
        if (repeated := recipe.task.repeated_batch(recipe.plan.seeds.evaluation)) is not None:
            progress = resources.get("progress", True)
            measure(series, _ON_REPEATED, repeated, folder=parts, save=folder / REPEATED, progress=progress)
    write_batch(folder, batch, provenance(batch, resources.get("device", "cpu"), resources.get("dtype", "float32")))
    return table


def _tell(notes: Iterable[str]) -> None:
    """Say on how much of the data is measured: whatever is left out of it."""
    for note in notes:
        print(note, file=sys.stderr)


def analyse(
    source: Any,
    folder: str | Path | None = None,
    *,
    architecture: Any = None,
    branch: str | None = None,
    steps: Choice | None = None,
    hub: Mapping[str, Any] | None = None,
    task: AbstractTask | None = None,
    batch: Batch | None = None,
    sequences: int | None = None,
    tokens: str | Path | None = None,
    relations: Sequence[str] = (),
    text: Texts | None = None,
    tokenizer: str | None = None,
    pairs: str | Path | None = None,
    probes: Probes = None,
    extra_probes: Sequence[AbstractProbe] = (),
    executor: concurrent.futures.Executor | None = None,
    **resources: Unpack[Resources],
) -> Analysis:
    """Audit a series, measure it with the default probes on repeated random tokens, find stages, write the report.

    A second call on the same series resumes where the first one stopped.

    Args:
        source: a series from `open_series` or `train`, or whatever `open_series` opens: a folder, a repository,
            (step, model) pairs, a mapping from steps to models; or one model, which has a report and no stages.
        folder: for the table and the report; None takes one in `runs/`, after the name of the series.
        architecture: what the models are, as `open_series` takes it.
        branch: one of several branches of a training, as `open_series` takes it.
        steps: the checkpoints to open, and `hub`, the folder of downloads, as `open_series` takes them.
        task: its probe batch is measured; None takes `RepeatedTokens` of the model's size.
        batch: any other probe batch, as `Batch.from_tokens` makes one.
        sequences: their number, from the task, the file of tokens or the text; None takes 64, and fewer for models with
            a large vocabulary. More sequences take more time, but no more memory than `memory` allows.
        tokens: a file of token sequences to measure on: `checkpoints.token_files.read_sequences`.
        relations: those of these tokens, as "previous token", "offset 31" or "module:function"; none takes all five of
            `text.token_relations.RELATIONS`.
        text: a file of text to measure on in place of repeated tokens, or several: `tasks.text.text_task`.
        tokenizer: of the text: a tokenizer.json, a folder that holds one, or a repository of the hub that does; None
            takes the one beside the checkpoints.
        pairs: a file of prompts with a right and a wrong answer, whose behaviour is measured: `text.pairs.read_pairs`.
        probes: what to measure, or a function that chooses as `default_probes` does, which None takes.
        extra_probes: what to measure in addition.
        executor: its workers measure the checkpoints, as in `measure`; None takes processes here.
        resources: device, dtype, workers, memory and progress, as in `measure`.

    Raises:
        ValueError: a checkpoint cannot be read or does not fit the model (only the rows from which a second call
            resumes are written then); or both a batch and a number of sequences are given.
        FileNotFoundError: there is no such text, or no tokenizer for it.
    """
    opening = {"architecture": architecture, "branch": branch, "steps": steps, "hub": hub}
    series = opened(source, **{name: value for name, value in opening.items() if value is not None})
    folder = folder_of(series, pairs) if folder is None else Path(folder)
    task = own_task(series, tokens, relations, text, tokenizer, pairs) or task
    what: dict[str, Any] = {"batch": batch, "sequences": sequences, "probes": probes, "extra_probes": extra_probes}
    with several(1 if executor else resources.get("workers", 1)) as pool:
        faults, table = measured(series, folder, task=task, executor=executor or pool, **what, **resources)
        return conclude(series, folder, faults, table, task, batch, resources.get("device", "cpu"), executor=pool)


def conclude(
    series: CheckpointSeries,
    folder: Path,
    faults: Audit,
    table: pd.DataFrame,
    task: AbstractTask | None,
    batch: Batch | None = None,
    device: str = "cpu",
    *,
    executor: concurrent.futures.Executor | None = None,
) -> Analysis:
    """Find the stages in what `measured` wrote, and write the report: the second half of `analyse`."""
    familiarity = familiarity_of_run(run_folder.read_record(folder), table)
    stages = load_stages(table, folder=folder, executor=executor)
    write_example(folder, series, stages, task, batch, device)
    return Analysis(series, faults, table, stages, report(folder, executor=executor), familiarity)


def opened(source: Any, **options: Any) -> CheckpointSeries:
    """Return the series of whatever `analyse` takes.

    Raises:
        ValueError, FileNotFoundError, OSError: as `open_series`; or there are options for a series that is open.
    """
    if isinstance(source, CheckpointSeries):
        if options:
            raise ValueError(f"the series {source.name!r} is open: give {', '.join(options)} to `open_series`")
        return source
    weights = isinstance(source, Mapping) and bool(source) and all(isinstance(name, str) for name in source)
    if weights or (hasattr(source, "state_dict") and not isinstance(source, type)):
        return open_series([(0, source)], name=type(source).__name__, **options)
    return open_series(source, **options)


def measured(
    series: CheckpointSeries,
    folder: Path,
    *,
    task: AbstractTask | None = None,
    batch: Batch | None = None,
    sequences: int | None = None,
    probes: Probes = None,
    extra_probes: Sequence[AbstractProbe] = (),
    executor: concurrent.futures.Executor | None = None,
    **resources: Unpack[Resources],
) -> tuple[Audit, pd.DataFrame]:
    """Audit and measure as `analyse` does, without stages and report, and write both results."""
    if batch is not None and sequences is not None:
        raise ValueError(f"the batch has {len(batch)} sequences: give either a batch or a number of sequences")
    source = series.source or by_hand(series.name, series.steps, series.load)
    identity = source.identity or series.name
    run_folder.check_claim(folder, identity)
    faults = audit(source, weights=not source.remote, architecture=series.architecture, fit=False)  # measuring tries
    given = batch is not None
    if batch is None:
        task = task or RepeatedTokens.for_series(series)
        batch, notes = batch_of_series(series, task, sequences)
    else:
        batch, notes = parted(batch)
    _tell(notes)
    chosen = chosen_probes(probes, extra_probes, series.architecture, batch, None if given else task)
    check([series], chosen, batch, dtype=resources.get("dtype", "float32"))
    check_resources(**resources)
    parts = folder / "parts"
    with run_folder.measuring(parts):
        run_folder.claim_for(folder, identity)
        table = measure(series, chosen, batch, folder=parts, save=folder / TABLE, executor=executor, **resources)
    if not isinstance(task, RepeatedTokens):
        _tell(above_recorded(source, table))
    write_batch(folder, batch, provenance(batch, resources.get("device", "cpu"), resources.get("dtype", "float32")))
    write_json(folder / ANALYSIS, analysis_record(series, identity, None if given else task, batch, faults))
    if source.begins is not None and source.begins > series.steps[0]:
        name_causes(folder, {"the post-training": source.begins})
    return faults, table
